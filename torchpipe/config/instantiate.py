"""Objects from configs: whatever ``_component_`` names is called with the keys beside it."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig

from torchpipe._dotpath import check_spelling, resolve
from torchpipe._suggest import did_you_mean
from torchpipe.config.merge import COMPONENT, Live, file_of, join_key, key_path_of, located, merge, to_plain
from torchpipe.config.signature import check_call, wrapped_names
from torchpipe.errors import ConfigError, InstantiationError


@dataclass(frozen=True, kw_only=True)
class _Component:
    """One component whose name is resolved and allowed, and whose call will fit; nothing has been called yet."""

    target: Callable[..., Any]
    name: str
    where: str
    arguments: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class _Container:
    """A dict or list with components somewhere below."""

    items: dict[Any, Any] | list[Any]


def instantiate(
    config: DictConfig | Mapping[Any, Any] | None,
    *args: Any,
    caller_globals: Mapping[str, Any] | None = None,
    allow_unsafe: bool = False,
    **kwargs: Any,
) -> Any:
    """What the config's ``_component_`` returns, called with the config's other keys.

    Nested components, in dicts and lists at any depth, are built first and passed as arguments. All names of the
    whole config are resolved, judged and checked against their signatures before the first call is made.

    Args:
        config: a mapping with ``_component_``; None gives None.
        args: positional arguments, for the top component only.
        caller_globals: where a name without a dot is looked up first; the calling module's globals by default.
        allow_unsafe: call also what is otherwise refused (see ``docs/config.md``). A config can't say this itself.
        kwargs: arguments over those in the config. A dict lies over a dict key by key, and a dict that has a
            ``_component_`` is built. Anything else, a list too, is passed on as the same object and never looked into.

    Raises:
        InstantiationError: a component isn't found, is refused, or doesn't take the arguments it is given. What a
            component itself raises comes out as it is, with a note that says where in the config it stands.

    >>> instantiate({"_component_": "torchpipe.errors.DataError"})
    DataError()
    """
    if config is None:
        return None
    if not isinstance(config, DictConfig | Mapping):
        raise InstantiationError(
            f"A config is a dict or a DictConfig; got {type(config).__name__}. Pass the part of the config that has "
            f"a {COMPONENT}."
        )
    if caller_globals is None:
        caller_globals = sys._getframe(1).f_globals
    file, key_path = file_of(config), key_path_of(config)
    plain = to_plain(config)
    if plain is None:
        return None
    if COMPONENT not in plain:
        raise InstantiationError(
            f"{located(key_path, file)}There is no {COMPONENT} among the keys ({', '.join(map(str, plain)) or 'none'})."
            f"{did_you_mean(COMPONENT, plain)} Add one that names a class or a function, as "
            f"{COMPONENT}: my_package.my_module.X"
        )
    planner = _Planner(file=file, caller_globals=caller_globals, allow_unsafe=allow_unsafe)
    top = planner.component(merge(plain, kwargs), key_path, len(args))
    return _call(top, args)


@dataclass(frozen=True, kw_only=True)
class _Planner:
    file: str | None
    caller_globals: Mapping[str, Any]
    allow_unsafe: bool

    def component(self, config: dict[str, Any], key_path: str, num_positional: int = 0) -> _Component:
        where = located(key_path, self.file)
        name = config[COMPONENT]
        arguments = {key: value for key, value in config.items() if key != COMPONENT}
        target = find_component(name, where, caller_globals=self.caller_globals, allow_unsafe=self.allow_unsafe)
        check_names(arguments, where, name)
        problems = check_call(target, num_positional, arguments).sentences()
        if problems:
            raise InstantiationError(f"{where}{name} can't be called as written. {problems}")
        return _Component(
            target=target,
            name=name,
            where=where,
            arguments={key: self.value(value, join_key(key_path, key)) for key, value in arguments.items()},
        )

    def value(self, value: Any, key_path: str) -> Any:
        """The value with its components planned; the same object where it holds none."""
        if isinstance(value, Live):
            return value.value
        if isinstance(value, dict):
            if COMPONENT in value:
                return self.component(value, key_path)
            planned = {key: self.value(item, join_key(key_path, key)) for key, item in value.items()}
            return _Container(items=planned) if _is_planned(planned.values()) else planned
        if isinstance(value, list):
            items = [self.value(item, join_key(key_path, place)) for place, item in enumerate(value)]
            return _Container(items=items) if _is_planned(items) else items
        return value


def _is_planned(items: Iterable[Any]) -> bool:
    return any(isinstance(item, _Component | _Container) for item in items)


def find_component(
    name: object, where: str, *, caller_globals: Mapping[str, Any] | None = None, allow_unsafe: bool = False
) -> Callable[..., Any]:
    """The class or function that a ``_component_`` names; ``where`` begins the sentence if there is none.

    Raises:
        InstantiationError: not found, refused, or nothing that can be called.
    """
    try:
        target = resolve(name, caller_globals=caller_globals, allow_unsafe=allow_unsafe)
    except ConfigError as error:
        raise InstantiationError(f"{where}{COMPONENT}: {error}") from error.__cause__
    if not callable(target):
        raise InstantiationError(
            f"{where}{COMPONENT}: '{name}' is a {type(target).__name__}. A component is a class or a function."
        )
    return target


def check_component_spelling(name: object, where: str, *, allow_unsafe: bool = False) -> None:
    """Raise where a ``_component_`` can't be a name or is refused by its spelling; nothing is imported."""
    try:
        check_spelling(name, allow_unsafe=allow_unsafe)
    except ConfigError as error:
        raise InstantiationError(f"{where}{COMPONENT}: {error}") from None


def check_names(arguments: Mapping[Any, Any], where: str, name: object) -> None:
    """Raise where a key can't be an argument's name."""
    for key in arguments:
        if not isinstance(key, str):
            raise InstantiationError(
                f"{where}{name} can't take the key {key!r}: the keys beside {COMPONENT} are arguments' names, so they "
                "must be words."
            )


def _call(component: _Component, args: tuple[Any, ...] = ()) -> Any:
    arguments = {key: _build(value) for key, value in component.arguments.items()}
    try:
        return component.target(*args, **arguments)
    except Exception as error:
        note = f"While building {component.where}{component.name}"
        unknown = [key for key in arguments if key not in wrapped_names(component.target)]
        if isinstance(error, TypeError) and "unexpected keyword argument" in str(error) and unknown:
            note += "".join(did_you_mean(key, wrapped_names(component.target)) for key in unknown)
        error.add_note(note)
        raise


def _build(value: Any) -> Any:
    if isinstance(value, _Component):
        return _call(value)
    if not isinstance(value, _Container):
        return value
    if isinstance(value.items, list):
        return [_build(item) for item in value.items]
    return {key: _build(item) for key, item in value.items.items()}
