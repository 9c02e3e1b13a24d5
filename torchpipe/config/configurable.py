"""Configs as values: a class whose nested ``Config`` holds its settings and builds it."""

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from torchpipe.errors import ConfigError


class Configurable:
    """Base of classes that are described by a value before they are made.

    The nested ``Config`` is a frozen, keyword-only dataclass; ``Config.build(**runtime)`` returns the object. What
    the config says is known when a job is written, what ``build`` is given only when it runs. A subclass without a
    ``Config`` of its own gets one with the same fields that builds the subclass.

    >>> class Lines(Configurable):
    ...     @dataclasses.dataclass(frozen=True, kw_only=True)
    ...     class Config(Configurable.Config):
    ...         path: str
    ...
    ...     def __init__(self, config: Config, *, limit: int = 10):
    ...         self.path, self.limit = config.path, limit
    >>> Lines.Config(path="a.txt").build(limit=3).limit
    3
    """

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Config:
        """The settings; a subclass adds fields."""

        _owner: ClassVar[type["Configurable"] | None] = None

        def build(self, **runtime: Any) -> Any:
            """The object that these settings describe: ``Owner(config=self, **runtime)``.

            Raises:
                ConfigError: this is no Config of a Configurable class.
            """
            if self._owner is None:
                raise ConfigError(
                    f"{type(self).__qualname__} belongs to no class, so there is nothing to build. Nest it, under the "
                    "name Config, in a class that inherits Configurable."
                )
            return self._owner(config=self, **runtime)

        def to_dict(self) -> dict[str, Any]:
            """The settings as dicts, lists and plain values, for logs and for files of settings.

            Functions and classes are given by their dotted names, anything else by its ``repr``.
            """
            return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    def __init__(self, config: Any, **runtime: Any) -> None:
        if runtime:
            raise TypeError(f"{type(self).__qualname__} takes no {', '.join(runtime)}; define __init__ to use it.")
        self.config = config

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("Config")
        if own is None or "_owner" in vars(own):
            # Another class's Config builds that class; this class needs one that builds itself.
            inherited = own or cls.Config
            own = type("Config", (inherited,), {"__doc__": inherited.__doc__, "__module__": cls.__module__})
            own.__qualname__ = f"{cls.__qualname__}.Config"
            own = dataclasses.dataclass(frozen=True, kw_only=True)(own)
            cls.Config = own  # pyright: ignore[reportAttributeAccessIssue]
        _check_config(cls, own)
        own._owner = cls


def _check_config(cls: type, config: Any) -> None:
    rule = "@dataclass(frozen=True, kw_only=True) class Config(Configurable.Config)"
    if not (isinstance(config, type) and issubclass(config, Configurable.Config)):
        raise ConfigError(f"{cls.__qualname__}.Config must inherit Configurable.Config. Write it as {rule}.")
    parameters = config.__dict__.get("__dataclass_params__")
    if parameters is None:
        raise ConfigError(f"{cls.__qualname__}.Config isn't decorated as a dataclass. Write it as {rule}.")
    if not (parameters.frozen and all(field.kw_only for field in dataclasses.fields(config))):
        raise ConfigError(f"{cls.__qualname__}.Config must be frozen and keyword-only. Write it as {rule}.")


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
    return repr(value)
