"""Code of threads during which the process is not forked.

A lock that a thread holds at the moment of a fork stays locked in the new process, whose code would wait for it without
end. So a fork waits until threads that run code which may hold some have come to the end of what they do.
"""

import os
import threading
from types import TracebackType
from weakref import ref

_OF_THIS_THREAD = threading.local()
_ALL: dict[int, "ref[NoFork]"] = {}


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
        _OF_THIS_THREAD.num_entered = _num_entered() + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _OF_THIS_THREAD.num_entered -= 1
        self.lock.release()


def _num_entered() -> int:
    return getattr(_OF_THIS_THREAD, "num_entered", 0)


_HELD: list[threading.Lock] = []


def _before_fork() -> None:
    if _num_entered():
        return  # it is the code within that forks
    there = [one for found in list(_ALL.values()) if (one := found()) is not None]
    for one in sorted(there, key=lambda one: one.level):
        one.lock.acquire()
        _HELD.append(one.lock)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().release()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
