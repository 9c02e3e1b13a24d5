"""What a chat template finds by name in either sandbox: ``dict``, ``namespace``, ``raise_exception`` and the date."""

from datetime import datetime
from typing import Any

from jinja2.exceptions import SecurityError, TemplateError
from jinja2.utils import Namespace


class DictFactory:
    """``dict`` of a template, without the attributes of Python's class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """A new dict."""
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """A new dict of keys."""
        return dict.fromkeys(*args, **kwargs)


class ChatNamespace(Namespace):
    """``namespace`` of a template, without underscored names."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # so that namespace(self=1) works
        self, *rest = args
        attributes = dict(*rest, **kwargs)
        for name in attributes:
            _refuse_underscore(name)
        Namespace.__init__(self, attributes)  # pyright: ignore[reportArgumentType]

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_underscore(name)
        super().__setitem__(name, value)


def values_of(namespace: Namespace) -> dict[str, Any]:
    """What a namespace holds; jinja hides it."""
    return object.__getattribute__(namespace, "_Namespace__attrs")


def _refuse_underscore(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"a namespace has no names that start with an underscore, as {str(name)!r}")


def raise_exception(message: Any) -> None:
    """Ends the render with the template's own words."""
    raise TemplateError(message if message is None else str(message))


def strftime_now(format: str) -> str:
    """Today, as the template writes it."""
    return datetime.now().strftime(format)


class FixedDay:
    """``strftime_now`` of one day, at 0:00.

    It is no builtin method, as ``datetime.strftime`` is: the traced environment takes what those return as the
    template's own, and a row's text could come out of this one.
    """

    def __init__(self, day: datetime) -> None:
        self._day = day

    def __call__(self, format: str) -> str:
        """The day, as the template writes it."""
        return self._day.strftime(format)
