"""Iterators that are closed before the process ends, while all that closing them needs is still there.

Python drops what a script's globals hold after the modules are gone, and torch ends no worker once its own hook was
called at exit: the process would then wait for it without end. So the hook of this module is always the one that was
registered last, which is called first.
"""

import atexit
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from weakref import ref

Item = TypeVar("Item")
Arguments = ParamSpec("Arguments")

_OPEN: dict[int, "ref[Any]"] = {}


def close_at_exit(items: Any) -> None:
    """Sees to it that ``items.close()`` is called when the process ends, unless they were dropped before; what was
    named last is closed first.
    """
    key = id(items)
    _OPEN[key] = ref(items, lambda _: _OPEN.pop(key, None))
    atexit.unregister(_close_all)
    atexit.register(_close_all)


def closed_at_exit(generator: Callable[Arguments, Iterator[Item]]) -> Callable[Arguments, Iterator[Item]]:
    """A generator function whose generators are closed when the process ends, as :func:`close_at_exit` does.

    >>> @closed_at_exit
    ... def numbers():
    ...     yield 1
    >>> list(numbers())
    [1]
    """

    @wraps(generator)
    def made(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Iterator[Item]:
        items = generator(*args, **kwargs)
        close_at_exit(items)
        return items

    return made


def _close_all() -> None:
    for opened in reversed(list(_OPEN.values())):
        items = opened()
        # A generator that a thread is running is that thread's to end.
        if items is not None and not getattr(items, "gi_running", False):
            items.close()
