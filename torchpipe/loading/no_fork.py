"""Code of threads during which the process is not forked.

A lock that a thread holds at the moment of a fork stays locked in the new process, whose code would wait for it without
end. So a fork waits until threads that run code which may hold some have come to the end of what they do.
"""

import os
import threading
from types import TracebackType
from weakref import ref

_ALL: dict[int, "ref[NoFork]"] = {}


class _OfAThread(threading.local):
    """What the thread that asks has entered, and what it holds while it forks."""

    def __init__(self) -> None:
        self.entered: list[NoFork] = []
        self.held: list[NoFork] = []


_MINE = _OfAThread()


class NoFork:
    """While it is entered, in one thread at a time, the process is not forked, unless by the code within.

    Args:
        level: a fork waits for those of a lower level first. So code that waits for another thread's has the lower one.

    >>> with NoFork():
    ...     pass
    """

    def __init__(self, level: int = 0) -> None:
        self.level = level
        self.lock = threading.Lock()
        key = id(self)
        _ALL[key] = ref(self, lambda _: _ALL.pop(key, None))

    def __enter__(self) -> None:
        self.lock.acquire()
        _MINE.entered.append(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _MINE.entered.remove(self)
        self.lock.release()


def _all() -> list[NoFork]:
    return [one for found in list(_ALL.values()) if (one := found()) is not None]


def _before_fork() -> None:
    if _MINE.entered:
        return  # it is the code within that forks
    for one in sorted(_all(), key=lambda one: one.level):  # in the same order, where several threads fork at once
        one.lock.acquire()
        _MINE.held.append(one)


def _after_fork() -> None:
    while _MINE.held:
        _MINE.held.pop().lock.release()


def _in_new_process() -> None:
    """Lets go of what other threads had entered, which are not in this process: a fork from within waits for none."""
    _after_fork()
    for one in _all():
        if one not in _MINE.entered:
            one.lock = threading.Lock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_new_process)
