"""Configs as values: a class whose nested ``Config`` holds its settings and builds it."""

import dataclasses
import enum
import inspect
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torchpipe.errors import ConfigError

_T = TypeVar("_T")

_RULE = "@dataclass(kw_only=True, slots=True) class Config(Configurable.Config)"


class Configurable:
    """Base of classes that are described by a value before they are made.

    The nested ``Config`` is a keyword-only dataclass, frozen or not; ``Config.build(**runtime)`` returns the object.
    What the config says is known when a job is written, what ``build`` is given only when it runs. A subclass without a
    ``Config`` of its own gets one with the same fields that builds the subclass.

    >>> class Lines(Configurable):
    ...     @dataclasses.dataclass(kw_only=True, slots=True)
    ...     class Config(Configurable.Config):
    ...         path: str
    ...
    ...     def __init__(self, config: Config, *, limit: int = 10):
    ...         self.path, self.limit = config.path, limit
    >>> Lines.Config(path="a.txt").build(limit=3).limit
    3
    """

    class Config:
        """The settings; a subclass adds fields.

        It is no dataclass itself, since Python lets neither a frozen one inherit from one that isn't, nor the reverse.
        """

        __slots__ = ()
        _owner: ClassVar[type["Configurable"] | None] = None

        def build(self, **runtime: Any) -> Any:
            """The object that these settings describe: ``Owner(config=<a shallow copy of self>, **runtime)``.

            Raises:
                ConfigError: this is no Config of a Configurable class, or ``runtime`` names one of its fields.
            """
            if self._owner is None:
                raise ConfigError(
                    f"{type(self).__qualname__} belongs to no class, so there is nothing to build. Nest it, under the "
                    "name Config, in a class that inherits Configurable."
                )
            if twice := sorted(runtime.keys() & {field.name for field in _fields(self)}):
                raise ConfigError(
                    f"{type(self).__qualname__}.build() was given {', '.join(twice)}, which the config says. Set it "
                    "in the config alone."
                )
            copied: Any = dataclasses.replace(self) if dataclasses.is_dataclass(self) else self
            return self._owner(config=copied, **runtime)

        def to_dict(self) -> dict[str, Any]:
            """The settings as dicts, lists and plain values, for logs and for files of settings.

            Functions and classes are given by their dotted names, anything else by its ``repr``, which a line of the
            log says.
            """
            return {field.name: _plain(getattr(self, field.name)) for field in _fields(self)}

        def traverse(
            self, config_cls: type[_T], *, recurse: bool = False
        ) -> Iterator[tuple[str, _T, Any, str | int | None]]:
            """Each value of a class in this tree of settings, from the top down: path, value, parent, name in it.

            The path is dotted, as ``datasets.0.source``. The parent is the object, list, tuple or dict that holds the
            value, and the name its field, index or key there; this config itself comes with the path "" and None for
            both.

            Args:
                config_cls: of the values.
                recurse: True: also those within a value that was found.

            >>> @dataclasses.dataclass(kw_only=True, slots=True)
            ... class Pair(Configurable.Config):
            ...     first: Any
            ...     second: Any
            >>> tree = Pair(first=Pair(first=1, second=2), second=[3])
            >>> [path for path, *_ in tree.traverse(int)]
            ['first.first', 'first.second', 'second.0']
            """
            yield from _found(self, config_cls, recurse, "", None, None)

        def __eq__(self, other: object) -> bool:
            # Of configs without fields; dataclasses compare theirs.
            if dataclasses.is_dataclass(self):
                return self is other
            return type(self) is type(other)

        def __hash__(self) -> int:
            return object.__hash__(self) if dataclasses.is_dataclass(self) else hash(type(self))

        def __repr__(self) -> str:
            return f"{type(self).__qualname__}()"

    def __init__(self, config: Any, **runtime: Any) -> None:
        if runtime:
            raise TypeError(f"{type(self).__qualname__} takes no {', '.join(runtime)}; define __init__ to use it.")
        self.config = config

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("Config")
        if own is None or "_owner" in vars(own):
            # Another class's Config builds that class; this class needs one that builds itself.
            own = _config_like(own or cls.Config, cls)
            cls.Config = own  # pyright: ignore[reportAttributeAccessIssue]
        _check_config(cls, own)
        own._owner = cls


def _config_like(inherited: type, owner: type) -> type:
    """A Config with the fields of another one."""
    names = {
        "__doc__": inherited.__doc__,
        "__module__": owner.__module__,
        "__qualname__": f"{owner.__qualname__}.Config",
        "__slots__": (),
    }
    own = type("Config", (inherited,), names)
    if not dataclasses.is_dataclass(inherited):
        return own
    frozen = inherited.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue]
    return dataclasses.dataclass(frozen=frozen, kw_only=True)(own)


def _check_config(cls: type, config: Any) -> None:
    if not (isinstance(config, type) and issubclass(config, Configurable.Config)):
        raise ConfigError(f"{cls.__qualname__}.Config must inherit Configurable.Config. Write it as {_RULE}.")
    if "__dataclass_params__" not in vars(config):
        # Without any field there is nothing that the decorator would do.
        if dataclasses.is_dataclass(config) or inspect.get_annotations(config):
            raise ConfigError(f"{cls.__qualname__}.Config isn't decorated as a dataclass. Write it as {_RULE}.")
        return
    if positional := [field.name for field in _fields(config) if field.init and not field.kw_only]:
        raise ConfigError(
            f"{cls.__qualname__}.Config must be keyword-only, and {', '.join(positional)} can be given by position. "
            f"Write it as {_RULE}."
        )


def _fields(config: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(config) if dataclasses.is_dataclass(config) else ()


def _found(value: Any, cls: type, recurse: bool, path: str, parent: Any, name: str | int | None) -> Iterator[Any]:
    if isinstance(value, cls):
        yield path, value, parent, name
        if not recurse:
            return
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    elif not isinstance(value, type):
        items = [(field.name, getattr(value, field.name)) for field in _fields(value)]
    for key, item in items:
        yield from _found(item, cls, recurse, f"{path}.{key}" if path else str(key), value, key)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value.value if isinstance(value, enum.Enum) else value
    if isinstance(value, Configurable.Config):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, enum.Enum):
        return _plain(value.value)
    if isinstance(value, Path):
        return str(value)
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    logging.getLogger("torchpipe.config").warning(
        "A config holds a %s, which no file of settings has a form for: its repr stands there.", type(value).__name__
    )
    return repr(value)
