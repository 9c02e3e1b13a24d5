"""Whether a call will fit, found out before the call: a TypeError from inside a component stays its own."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torchpipe._suggest import did_you_mean, listed


@dataclass(frozen=True, kw_only=True)
class CallFit:
    """What stands against calling a component with some arguments; all empty when nothing does."""

    unexpected: tuple[str, ...] = ()
    twice: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    num_extra: int = 0
    accepted: tuple[str, ...] = ()
    config_takes_them: bool = False

    def sentences(self, *, missing_matters: bool = True) -> str:
        """The problems as sentences, or an empty string.

        Args:
            missing_matters: False where whoever builds the component may still pass what is missing. It is then
                mentioned only beside another problem, for a misspelt name is often the missing one.
        """
        told = []
        for name in self.unexpected:
            told.append(f"It takes no argument '{name}'.{did_you_mean(name, self.accepted)}")
        for name in self.twice:
            told.append(f"'{name}' is given twice, by code and by the config. Remove it from the config.")
        if self.num_extra:
            told.append(f"It is given {self.num_extra} more positional arguments than it takes.")
        if self.missing and (told or missing_matters):
            plural = "s" if len(self.missing) > 1 else ""
            told.append(f"Missing argument{plural}: {listed(self.missing)}.")
        if self.unexpected:
            told.append(f"It takes: {listed(self.accepted)}.")
        if self.config_takes_them:
            told.append("Its Config takes these arguments: add '.Config' to the name.")
        return " ".join(told)


def check_call(target: Callable[..., Any], num_positional: int, names: Iterable[str]) -> CallFit:
    """How ``target(*positional, **names)`` fits the target's signature; fits where it has none to look at.

    A wrapper is judged by its own signature, not by that of the function it wraps: it may add arguments of its own.

    >>> check_call(lambda path, *, limit=1: path, 0, ["limits"]).sentences()
    "It takes no argument 'limits'. Did you mean 'limit'? Missing argument: 'path'. It takes: 'path', 'limit'."
    """
    try:
        signature = inspect.signature(target, follow_wrapped=False)
    except (ValueError, TypeError):
        return CallFit()
    given = list(names)
    takes_any = False
    takes_any_position = False
    positional: list[str] = []
    by_name: list[str] = []
    required: list[str] = []
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_any = True
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            takes_any_position = True
            continue
        if parameter.kind is not parameter.KEYWORD_ONLY:
            positional.append(name)
        if parameter.kind is not parameter.POSITIONAL_ONLY:
            by_name.append(name)
        if parameter.default is parameter.empty:
            required.append(name)
    filled = positional[:num_positional]
    unexpected = () if takes_any else tuple(name for name in given if name not in by_name)
    config = getattr(target, "Config", None) if isinstance(target, type) and unexpected else None
    return CallFit(
        unexpected=unexpected,
        twice=tuple(name for name in given if name in filled and name in by_name),
        missing=tuple(name for name in required if name not in filled and (name not in given or name not in by_name)),
        num_extra=0 if takes_any_position else max(0, num_positional - len(positional)),
        accepted=tuple(by_name),
        config_takes_them=isinstance(config, type) and not check_call(config, 0, given).unexpected,
    )


def wrapped_names(target: Callable[..., Any]) -> tuple[str, ...]:
    """The names that the innermost wrapped function takes; empty where that can't be told."""
    try:
        return tuple(inspect.signature(target).parameters)
    except (ValueError, TypeError):
        return ()
