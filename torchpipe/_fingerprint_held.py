"""What objects of Python's own classes hold, as lists, dicts and texts: the part of fingerprints for built-in types."""

import re
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial, partialmethod
from operator import attrgetter, itemgetter, methodcaller
from typing import Any
from uuid import UUID

BUILTIN_BASES: tuple[Any, ...] = (dict, list, tuple, set, frozenset, str, bytes, int, float, complex)
"""What an object of a class that is made from one of these holds as such."""

HELD: dict[Any, Callable[[Any], Any]] = {
    range: lambda value: (value.start, value.stop, value.step),
    slice: lambda value: (value.start, value.stop, value.step),
    bytearray: bytes,
    re.Pattern: lambda value: (value.pattern, value.flags),
    partial: lambda value: (value.func, value.args, sorted(value.keywords.items()), vars(value)),
    partialmethod: lambda value: (value.func, value.args, sorted(value.keywords.items())),
    types.MethodType: lambda value: (value.__func__, value.__self__),
    types.MappingProxyType: dict,
    types.SimpleNamespace: vars,
    types.GenericAlias: lambda value: (value.__origin__, value.__args__),
    types.UnionType: lambda value: value.__args__,
    staticmethod: lambda value: value.__func__,
    classmethod: lambda value: value.__func__,
    cached_property: lambda value: value.func,
    property: lambda value: (value.fget, value.fset, value.fdel),
    deque: lambda value: (list(value), value.maxlen),
    OrderedDict: dict,
    Counter: dict,
    defaultdict: lambda value: (value.default_factory, dict(value)),
    itemgetter: lambda value: value.__reduce__()[1],
    attrgetter: lambda value: value.__reduce__()[1],
    methodcaller: lambda value: value.__reduce__()[1:],
    Decimal: str,
    Fraction: str,
    UUID: str,
}
"""Values of other types as values of those: what they hold, in an order that is theirs."""
