"""Names at the paths where torchtune has them: looked up where they are defined, when they are asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(module: str, sources: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module that defines nothing itself.

    Args:
        module: its ``__name__``.
        sources: for each name, the module that defines it.

    >>> lazily("here", {"sqrt": "math"})("sqrt")(4.0)
    2.0
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in sources:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return getattr(import_module(sources[name]), name)

    return __getattr__
