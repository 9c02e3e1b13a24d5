"""Reading batches in a thread, before they are asked for."""

import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Any

from torchpipe.errors import DistributedError
from torchpipe.loading.at_exit import close_at_exit
from torchpipe.loading.no_fork import NoFork

_PATIENCE = 10.0
"""Seconds that an end waits for the item that is being read. The thread ends after it in any case."""


class ReadAhead(Iterator[Any]):
    """The items of an iterator, in order, read by a thread of their own while the caller does something else.

    An error of the iterator is raised in place of the item that it kept from coming, with its traceback. The thread
    ends with the items, with an error, with :meth:`close`, when this object is dropped, and when the process ends, and
    closes the iterator if it can be closed. A
    process that is forked while the thread runs has none of its locks: the fork waits for the item that is being read.

    Args:
        items: read by the thread alone from now on.
        depth: the most items that are read and were not asked for, 1 or more.

    Raises (when an item is asked for):
        DistributedError: in a process that was forked from the one that made it.

    >>> ahead = ReadAhead(iter("abc"), depth=2)
    >>> next(ahead), list(ahead)
    ('a', ['b', 'c'])
    """

    def __init__(self, items: Iterator[Any], *, depth: int) -> None:
        self._process = os.getpid()
        self._thread = thread = _Reader(items, depth)
        self._end = Finalize(self, _end, args=(thread,), exitpriority=20)  # before the workers of what it reads
        thread.start()
        close_at_exit(self)

    def __next__(self) -> Any:
        if self._process != os.getpid():
            raise DistributedError(
                f"What process {self._process} reads ahead was asked for in process {os.getpid()}, forked from it, "
                "where the thread that reads is not. Make the loader in the process that uses it."
            )
        if self._thread.has_given_all:
            raise StopIteration
        item = self._thread.ready.get()
        self._thread.room.release()
        if not isinstance(item, _End):
            return item
        self._thread.has_given_all = True
        self.close()
        if item.error is None:
            raise StopIteration
        raise item.error

    def close(self) -> None:
        """Ends the thread and drops what it has read."""
        self._thread.has_given_all = True
        self._end()


class _End:
    """Stands behind the last item."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Reader(threading.Thread):
    """The thread. It holds no reference to the ``ReadAhead``, so that this can be dropped while the thread runs."""

    def __init__(self, items: Iterator[Any], depth: int) -> None:
        super().__init__(name="torchpipe read-ahead", daemon=True)  # _end sees to it at exit
        self.ready: SimpleQueue[Any] = SimpleQueue()
        self.room = threading.Semaphore(depth)
        self.stopped = False
        self.has_given_all = False
        self._is_reading = NoFork()
        self._items: Iterator[Any] | None = items

    def run(self) -> None:
        error = None
        try:
            while self._read_one():
                pass
        except BaseException as raised:  # all of them are for who asks for the item
            error = raised
        try:
            close(self._items)
        except BaseException as raised:
            error = error or raised
        self._items = None
        self.ready.put(_End(error))

    def _read_one(self) -> bool:
        """Whether there may be more."""
        self.room.acquire()
        assert self._items is not None
        with self._is_reading:
            item = _End if self.stopped else next(self._items, _End)
        if item is _End:
            return False
        self.ready.put(item)
        return True


def _end(thread: _Reader) -> None:
    """Stops a thread, and waits for it where that can't be for ever."""
    thread.stopped = True
    thread.room.release()
    # The garbage of one reader may be collected in the thread of another, or in its own.
    if not isinstance(threading.current_thread(), _Reader):
        thread.join(_PATIENCE)


def close(items: object) -> None:
    """Ends what holds on to threads, processes or files; an iterator without ``close`` holds none."""
    if isinstance(end := getattr(items, "close", None), Callable):
        end()


def is_torchpipes(collate: Callable[..., Any] | None) -> bool:
    """Whether a function, or the one that a partial calls, is one of :mod:`torchpipe.data.collate`.

    They draw no random numbers and use nothing but their arguments, so that any thread may call them.
    """
    while isinstance(collate, partial):
        collate = collate.func
    return (getattr(collate, "__module__", None) or "").startswith("torchpipe.data.collate.")
