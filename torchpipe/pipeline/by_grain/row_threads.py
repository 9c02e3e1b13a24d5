"""Threads that read rows by number."""

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter, thread_time
from typing import Any
from weakref import WeakSet, finalize

from torchpipe.loading.no_fork import NoFork
from torchpipe.pipeline.by_grain.when_given import put_off

_PATIENCE = 10.0
"""Seconds that closing waits for the rows that are being read. Threads end after them in any case."""

_SECONDS_BETWEEN_LOOKS = 1.0
"""After which who waits for a row looks whether it will ever come."""

_MOST_OF_A_PROCESS = 64
"""A process may read many parts, and many children of mixes."""


class RowAhead:
    """A row that a thread reads, has read, or will read.

    Attributes:
        seconds: that reading it took, of which the thread ``computing`` for so many.
    """

    def __init__(self, index: int, closed: threading.Event) -> None:
        self.seconds = self.computing = 0.0
        self._index = index
        self._done = threading.Event()
        self._closed = closed
        self._dropped = False
        self._row: Any = None
        self._error: BaseException | None = None
        self._counts: list[Callable[[], None]] = []

    def read(self, dataset: Any) -> None:
        """Reads it, in the thread that calls this, if it is still wanted."""
        if self._dropped or self._closed.is_set():
            return
        begin, computed = perf_counter(), thread_time()
        with put_off() as counts:
            try:
                self._row = dataset[self._index]
            except BaseException as error:  # all of them are for who asks for the row
                self._error = error
        self.seconds, self.computing = perf_counter() - begin, thread_time() - computed
        self._counts = counts
        self._done.set()

    def given(self) -> Any:
        """The row, once it is read, which then counts as read.

        Raises:
            BaseException: what reading or counting it raised.
            ValueError: the threads were ended before they read it.
        """
        while not self._done.wait(_SECONDS_BETWEEN_LOOKS):
            if self._closed.is_set():
                raise ValueError(f"Row {self._index} was asked for, and what reads it is closed.")
        for count in self._counts:
            count()
        if self._error is not None:
            raise self._error
        return self._row

    def drop(self) -> None:
        """Sees to it that it is not read, if it isn't yet."""
        self._dropped = True


class RowThreads:
    """Threads that read rows in the order in which they are asked for.

    They end with :meth:`close`, when this object is dropped, and when the process ends. A fork waits for the rows that
    are being read; in the new process there are no threads, which :attr:`are_here` tells.

    Args:
        dataset: whose rows are read, in several threads at once.
    """

    def __init__(self, dataset: Any) -> None:
        self._process = os.getpid()
        self._asked: SimpleQueue[RowAhead | None] = SimpleQueue()
        self._closed = threading.Event()
        self._dataset = dataset
        self._threads: list[_RowThread] = []
        self._end = finalize(self, _end, self._asked, self._closed, self._threads)
        self._number = 0
        _ALL.add(self)

    @property
    def are_here(self) -> bool:
        """Whether this is the process whose threads they are."""
        return self._process == os.getpid()

    def __len__(self) -> int:
        """How many there are."""
        return self._number

    def resize(self, number: int) -> None:
        """Sees to it that there are so many; those that are too many end behind what was asked for."""
        for _ in range(number, self._number):
            self._asked.put(None)
        self._threads[:] = [thread for thread in self._threads if thread.is_alive()]
        for _ in range(self._number, number):
            thread = _RowThread(self._dataset, self._asked)
            self._threads.append(thread)
            thread.start()
        self._number = number

    def ask(self, index: int) -> RowAhead:
        """The row of that number, which a thread will read."""
        row = RowAhead(index, self._closed)
        self._asked.put(row)
        return row

    def close(self) -> None:
        """Ends the threads behind the rows that are being read, and waits for that."""
        self._end()
        self._number = 0


_ALL: WeakSet[RowThreads] = WeakSet()


def room_for_threads() -> int:
    """How many more threads may read rows in this process, where it is this one that decides."""
    return max(0, _MOST_OF_A_PROCESS - sum(len(threads) for threads in list(_ALL) if threads.are_here))


class _RowThread(threading.Thread):
    """One of them. It holds no reference to the ``RowThreads``, so that these can be dropped while it runs."""

    def __init__(self, dataset: Any, asked: "SimpleQueue[RowAhead | None]") -> None:
        super().__init__(name="torchpipe rows", daemon=True)  # _end sees to it at exit
        self._dataset = dataset
        self._asked = asked
        self._no_fork = NoFork(level=1)  # what reads batches waits for rows

    def run(self) -> None:
        while (row := self._asked.get()) is not None:
            with self._no_fork:
                row.read(self._dataset)
            del row  # it is not held until the next one comes


def _end(asked: "SimpleQueue[RowAhead | None]", closed: threading.Event, threads: list[_RowThread]) -> None:
    closed.set()
    for _ in threads:
        asked.put(None)
    # The garbage of some may be collected in a thread of others, or in one of their own.
    if not isinstance(threading.current_thread(), _RowThread):
        end = perf_counter() + _PATIENCE
        for thread in threads:
            thread.join(max(0.0, end - perf_counter()))
