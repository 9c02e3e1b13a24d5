"""Helping a reader of an error find the name they meant."""

import inspect
import re
import types
from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from typing import Any


def did_you_mean(name: object, known: Iterable[object], *, cutoff: float = 0.6) -> str:
    """A sentence with a leading space that names the closest of ``known``, or an empty string when none is close.

    >>> did_you_mean("asistant", ["user", "assistant"])
    " Did you mean 'assistant'?"
    >>> did_you_mean("banana", ["user", "assistant"])
    ''
    """
    names = {str(word).lower(): str(word) for word in known}
    close = get_close_matches(str(name).lower(), names, n=1, cutoff=cutoff)
    return f" Did you mean {names[close[0]]!r}?" if close else ""


def misspelt(name: str, known: Iterable[str]) -> str:
    """As :func:`did_you_mean`, for names in code: only one that a slip of the keyboard tells from ``name``.

    Names that differ in a number or in a word are other things: ``lora_llama3_8b`` is not ``llama3_8b``.

    >>> misspelt("chat_datset", ["alpaca_dataset", "chat_dataset"])
    " Did you mean 'chat_dataset'?"
    >>> misspelt("lora_llama3_8b", ["llama3_8b"]) + misspelt("llama3_1_8b", ["llama3_2_8b"])
    ''
    """
    plain = _plain(name)
    near: list[tuple[int, float, str]] = []
    for word in known:
        if re.findall(r"\d+", word) != re.findall(r"\d+", name):
            continue
        other = _plain(word)
        matcher = SequenceMatcher(None, plain, other, autojunk=False)
        changed = len(plain) + len(other) - 2 * sum(block.size for block in matcher.get_matching_blocks())
        if changed <= 3 and matcher.ratio() > 0.6:
            near.append((changed, -SequenceMatcher(None, name, word).ratio(), word))
    return f" Did you mean {min(near)[-1]!r}?" if near else ""


def callables_of(owner: Any) -> list[str]:
    """Names of the public classes and functions of a module or class: of ``__all__``, or those that it defines itself.

    >>> import json
    >>> "loads" in callables_of(json), "decoder" in callables_of(json)
    (True, False)
    """
    listed_names = getattr(owner, "__all__", None)
    names = [str(name) for name in listed_names] if listed_names else [n for n in dir(owner) if not n.startswith("_")]
    # What a module lists and looks up only when asked for is not looked up here.
    values = {name: inspect.getattr_static(owner, name, callable) for name in names}
    return [name for name, value in values.items() if _is_called(value) and (listed_names or _defined_in(owner, value))]


def _is_called(value: Any) -> bool:
    return callable(value) or isinstance(value, classmethod | staticmethod)


def _defined_in(owner: Any, value: Any) -> bool:
    """Whether a module's function or class is its own, or its package's, and not one that it imported."""
    if not isinstance(owner, types.ModuleType) or not isinstance(value, type | types.FunctionType):
        return True
    home = str(value.__module__)
    return home == owner.__name__ or home.startswith(owner.__name__ + ".")


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def listed(names: Iterable[object]) -> str:
    """The names in quotes with commas between them, for a sentence; "nothing" when there are none.

    >>> listed(["tokens", "labels"])
    "'tokens', 'labels'"
    """
    return ", ".join(repr(str(name)) for name in names) or "nothing"
