"""A text that two values share only if they behave alike, in any process: the key of what is stored.

Data counts by what it holds. Our own classes count by their name, the code of this package and their attributes, but
for those that a class names in ``_unfingerprinted`` (caches, paths, what is made of the others), and with the versions
of the ``_libraries`` that it names. Functions and classes of the user count by their code and by all that this code
reaches (see :mod:`torchpipe._fingerprint_code`). What can't be told apart so is refused, never guessed: a key that is
equal by mistake would hand out what another transform made.
"""

import hashlib
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, time, timedelta, tzinfo
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any, cast

from torchpipe._fingerprint_arrays import is_array, write_array
from torchpipe._fingerprint_held import BUILTIN_BASES, HELD
from torchpipe._fingerprint_libraries import write_held
from torchpipe._fingerprint_memory import answer_of
from torchpipe._own_code import is_own, library_version
from torchpipe.errors import NoFingerprint

_MOST_PARTS = 20_000
"""So many functions, classes and containers may be reached; more is somebody's whole library."""

_ATOMS = {type(None), bool, int, float, complex, str, bytes, type(...), type(NotImplemented)}


def fingerprint(value: object) -> str:
    """32 hexadecimal characters, equal for two values only where they behave alike.

    They are the same in every process and on every machine, with the same release of Python where code is reached. A
    path counts as its text; a file's content counts where an object has read it and says so.

    Args:
        value: data of Python and NumPy (dicts keep their order); objects of ours; functions, classes and objects of
            the user, as long as their code reaches nothing but builtins, torchpipe, pure modules (``re``, ``json``,
            ``math``, ...) and more code of that kind; anything with a method ``fingerprint()`` that returns a text.

    Raises:
        NoFingerprint: a part can't be told apart: its code reads a clock, files, random numbers or a table that may
            change, or it is an object of a compiled library. The sentence names it.

    >>> fingerprint({"a": 1}) == fingerprint({"a": 1}), fingerprint([1]) == fingerprint([True])
    (True, False)
    >>> fingerprint(lambda row: row["text"].lower()) == fingerprint(lambda row: row["text"].upper())
    False
    """
    writer = Writer()
    try:
        writer.write(value)
    except RecursionError:
        raise NoFingerprint(refusal(f"{type_name(value)} is nested too deeply to be told from others")) from None
    return writer.digest()


def content_hash(content: bytes) -> str:
    """32 hexadecimal characters of some bytes (BLAKE2b)."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def type_name(value: object) -> str:
    """How messages call the type of a value: ``module.Name``, without ``builtins``."""
    return name_of(type(value))


def name_of(cls: type) -> str:
    """How messages call a class."""
    name = cls.__qualname__.rpartition("<locals>.")[2]
    return name if module_of(cls) == "builtins" else f"{module_of(cls)}.{name}"


def module_of(cls: type) -> str:
    """The name of the module of a class; of some compiled ones it can't be told."""
    return cls.__module__ if isinstance(cls.__module__, str) else "?"


def refusal(what: str) -> str:
    """The sentence of a refusal."""
    return (
        f"{what}. Do without it, or give the object a method fingerprint() that returns a text which changes whenever "
        "its results do."
    )


def slots_of(cls: type) -> list[str]:
    """The names of the attributes that a class has a slot for, as Python stores them."""
    slots = vars(cls).get("__slots__", ())
    names = [
        name for name in ((slots,) if isinstance(slots, str) else slots) if name not in ("__dict__", "__weakref__")
    ]
    own = cls.__name__.lstrip("_")
    return [f"_{own}{name}" if name.startswith("__") and not name.endswith("__") else name for name in names]


class Writer:
    """Writes values into a hash, each with its kind and length, so that no two sequences of writes give one text."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        # Functions, classes and objects that were written, by id: a second time, their number stands for them.
        self._numbers: dict[int, int] = {}
        self._alive: list[object] = []  # so that no id is given twice
        self._kinds: set[int] = set()  # ids of the classes that were written as those of objects
        self._open: list[int] = []  # ids of the containers that are being written
        self._said: set[str] = set()
        self._owners: list[str] = []

    def digest(self) -> str:
        """The fingerprint of all that was written."""
        return self._hash.hexdigest()

    def mark(self, kind: str, content: str | bytes | memoryview = "") -> None:
        """Writes a kind and its content."""
        raw = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        self._hash.update(f"{kind}:{len(raw)}:".encode())
        self._hash.update(raw)

    def once(self, kind: str, content: Callable[[], str]) -> None:
        """Writes something that many parts depend on: the first time alone."""
        if kind not in self._said:
            self._said.add(kind)
            self.mark(kind, content())

    @contextmanager
    def owner(self, name: str) -> Iterator[None]:
        """What is written inside belongs to ``name``, for messages."""
        self._owners.append(name)
        yield
        self._owners.pop()

    def refuse(self, what: str, *, standalone: bool = False) -> NoFingerprint:
        """The error: "<owner> <what>", and by way of what it was reached."""
        owners = self._owners or ["The value"]
        sentence = what if standalone else f"{owners[-1]} {what}"
        reached = "" if sentence.startswith(owners[0]) else f" (reached from {owners[0]})"
        return NoFingerprint(refusal(sentence + reached))

    def is_repeated(self, value: object) -> bool:
        """Whether ``value`` has been written, or is being written; its number is then written instead."""
        number = self._numbers.setdefault(id(value), len(self._numbers))
        if number < len(self._alive):
            self.mark("again", str(number))
            return True
        self._alive.append(value)
        if len(self._alive) > _MOST_PARTS:
            raise self.refuse(f"reaches more than {_MOST_PARTS:,} functions, classes and containers")
        return False

    def write(self, value: Any) -> None:
        """Writes a value of any kind."""
        kind = type(value)
        if kind in _ATOMS:
            self.mark(kind.__name__, value if isinstance(value, str | bytes) else repr(value))
        elif kind in (list, tuple):
            self._sequence(kind.__name__, value)
        elif kind is dict:
            self._table(value)
        elif kind in (set, frozenset):
            self._set(value)
        elif kind in HELD or isinstance(value, re.Pattern):
            self.mark(kind.__name__)
            self.write(HELD[kind](value))
        elif isinstance(value, PurePath):
            self.mark("path", value.as_posix())
        elif isinstance(value, date | time | timedelta | tzinfo) and module_of(kind) in ("datetime", "zoneinfo"):
            self.mark(kind.__name__, repr(value))
        elif is_array(value):
            write_array(self, value)
        elif not self.is_repeated(value):
            self._object(value)

    @contextmanager
    def _inside(self, container: object) -> Iterator[bool]:
        """Whether a container is not one of those around it. Equal ones count alike, be they one object or two."""
        if id(container) in self._open:
            self.mark("around", str(len(self._open) - self._open.index(id(container))))
            yield False
            return
        self._open.append(id(container))
        yield True
        self._open.pop()

    def _sequence(self, kind: str, values: Sequence[Any]) -> None:
        with self._inside(values) as is_new:
            if is_new:
                self.mark(kind, str(len(values)))
                for value in values:
                    self.write(value)

    def _table(self, table: Mapping[Any, Any], *, in_order: bool = True) -> None:
        with self._inside(table) as is_new:
            if is_new:
                keys = list(table)
                if not in_order and (all(type(key) is str for key in keys) or all(type(key) is int for key in keys)):
                    keys.sort()
                self.mark("dict", str(len(keys)))
                for key in keys:
                    self.write(key)
                    self.write(table[key])

    def _set(self, values: Iterable[Any]) -> None:
        """A set's order means nothing; the members are written by their own fingerprints, in the order of these."""
        held = list(values)
        for value in held:
            if type(value) not in _ATOMS and not isinstance(value, tuple | frozenset | Enum | PurePath):
                raise self.refuse(f"holds a set with a {type_name(value)}, whose place in the set differs by process")
        self.mark("set", str(len(held)))
        for member in sorted(fingerprint(value) for value in held):
            self.mark("member", member)

    def _object(self, value: Any) -> None:
        from torchpipe import _fingerprint_code as code  # the two write each other's parts

        if self._says_itself(value):
            return
        if isinstance(value, type):
            code.write_class(self, value)
        elif isinstance(value, types.FunctionType):
            code.write_function(self, value)
        elif isinstance(value, types.ModuleType):
            code.write_module(self, value, ())
        elif isinstance(value, code.COMPILED_FUNCTIONS) or (callable(value) and hasattr(value, "__qualname__")):
            code.write_compiled(self, value)  # of Cython's own kinds too; a generator has a name, and is no function
        elif isinstance(value, Enum):
            self.mark("member", value.name)
            self.write(value.value)
            self.write(type(value))
        elif write_held(self, value):
            pass
        elif module_of(type(value)) == "torch":
            raise self.refuse(f"is a torch.{type(value).__name__}, whose content can't be told apart")
        elif type(value) is object:
            self.mark("a mark of its own")  # only whether two are one counts, and that is_repeated says
        else:
            self._instance(value)

    def _says_itself(self, value: Any) -> bool:
        """Writes what ``value.fingerprint()`` returns, if there is such a method, and it speaks for all of the value.

        One that a class inherits does not: it can't know what the subclass changes.
        """
        of_function = isinstance(value, types.FunctionType) and "fingerprint" in vars(value)
        if isinstance(value, type) or not (of_function or callable(getattr(type(value), "fingerprint", None))):
            return False
        said = answer_of(value, "fingerprint()", cast(Any, value).fingerprint)
        if not isinstance(said, str) or not said:
            raise self.refuse(f"{type_name(value)}.fingerprint() returned {said!r}, not a text", standalone=True)
        self.mark("said", said)
        if of_function:
            return True
        self.mark("by", name_of(type(value)))
        return "fingerprint" in vars(type(value))

    def note_made(self, cls: type) -> None:
        """Notes a class that is written as one of an object, or as a base of such a one."""
        self._kinds.add(id(cls))

    def is_made(self, cls: object) -> bool:
        """Whether a class was written as one of an object, or as a base of such a one."""
        return id(cls) in self._kinds

    def is_written(self, value: object) -> bool:
        """Whether a function, class or object has been written, or is being written."""
        return id(value) in self._numbers or id(value) in self._kinds

    def _instance(self, value: Any) -> None:
        """An object by its class and attributes. Attributes have no order; nor have our objects' tables of options."""
        from torchpipe import _fingerprint_code as code

        kind = type(value)
        own = is_own(module_of(kind))
        for base in kind.__mro__:
            for library in vars(base).get("_libraries", ()):
                self.once(library, lambda library=library: library_version(library))
        if not hasattr(value, "__dict__") and not any("__slots__" in vars(base) for base in kind.__mro__):
            raise self.refuse(f"holds a {type_name(value)}, an object of compiled code that doesn't tell what it holds")
        self.mark("object", name_of(kind))
        if not self.is_made(kind):
            self.note_made(kind)
            code.write_class(self, kind, is_made=True)
        self._built_in(value)
        state = self._state(value)
        self.mark("attributes", str(len(state)))
        for name in sorted(state):
            self.mark("attribute", name)
            held = state[name]
            with self.owner(f"{kind.__name__}.{name}"):
                self._table(held, in_order=False) if own and type(held) is dict else self.write(held)

    def _built_in(self, value: Any) -> None:
        """What an object holds as one of a compiled class that its own is made from: no attribute says it."""
        for base in type(value).__mro__:
            if base in HELD:
                self.mark(base.__name__)
                return self.write(HELD[base](value))
            if base in BUILTIN_BASES:
                return self.write(base(value))
            if base is BaseException:
                return self.write(value.__reduce__()[1])
            is_exception = issubclass(base, BaseException)
            if (
                base is not object
                and not is_exception
                and isinstance(vars(base).get("__new__"), types.BuiltinMethodType)
            ):
                raise self.refuse(
                    f"holds a {type_name(value)}, an object of compiled code that doesn't tell what it holds"
                )
        return None

    def _state(self, value: Any) -> dict[str, Any]:
        state = dict(getattr(value, "__dict__", {}))
        left_out: set[str] = set()
        for base in type(value).__mro__:
            state |= {name: getattr(value, name) for name in slots_of(base) if hasattr(value, name)}
            left_out.update(vars(base).get("_unfingerprinted", ()))
            left_out.update(name for name, held in vars(base).items() if isinstance(held, cached_property))
        return {name: held for name, held in state.items() if name not in left_out}
