"""What a node of a graph is called that has no name: its kind and a hash of its settings."""

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import PurePath
from typing import Any

SETTINGS = ("seed", "shuffle", "capacity", "max_context_length", "max_num_documents", "streaming_shuffle_buffer_size")
"""What all nodes share, and a state names beside them."""


def node_label(config: object) -> str:
    """The ``name`` of a node's config; without one its class, and, of a single source, a hash of its settings.

    Functions and classes count by their dotted names, other objects by their class, so that a label is the same in
    every process. Nodes above others are called by their class alone: what is put below one renames nothing.

    >>> @dataclasses.dataclass(frozen=True)
    ... class Lines:
    ...     path: str
    ...     name: str | None = None
    >>> node_label(Lines("a.txt"))
    'Lines-333d0ec1'
    >>> node_label(Lines("a.txt", name="mine"))
    'mine'
    """
    name = getattr(config, "name", None)
    if name is not None:
        return str(name)
    kind = type(config).__name__
    if any(hasattr(config, field) for field in ("dataset", "datasets")):
        return kind
    text = json.dumps(described(config), sort_keys=True)
    return f"{kind}-{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


class NodeNames:
    """Gives each node of a graph a name of its own: the second one that would be called ``a`` is ``a (2)``.

    The names of settings, which stand beside those of nodes in a state, are no node's.

    >>> names = NodeNames()
    >>> [names.unused(name) for name in ("a", "a", "a (2)", "seed")]
    ['a', 'a (2)', 'a (2) (2)', 'seed (2)']
    """

    def __init__(self) -> None:
        self._taken: set[str] = set(SETTINGS)

    def unused(self, name: str) -> str:
        """The name, or the first numbered one that no node has."""
        found = next(one for one in chain([name], (f"{name} ({k})" for k in count(2))) if one not in self._taken)
        self._taken.add(found)
        return found


def described(value: Any) -> Any:
    """The settings of a value as JSON: functions and classes by their dotted names, other objects by their class."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, enum.Enum):
        return [type(value).__qualname__, value.name]
    if isinstance(value, PurePath):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: described(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return [type(value).__qualname__, fields]
    if isinstance(value, Mapping):
        return {str(key): described(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and len(value) <= _MOST_ITEMS:
        return [described(item) for item in value]
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    size = len(value) if isinstance(value, Sequence) else None
    return [type(value).__qualname__, size]


_MOST_ITEMS = 64
"""A longer list is rows rather than settings."""
