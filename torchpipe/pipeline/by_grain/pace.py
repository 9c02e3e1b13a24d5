"""With how many threads rows are read: as many as are given, or as rows that wait call for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

MOST_THREADS = 16
"""That read the rows of one data set."""

MOST_GIVEN = 256
"""That read the rows of a process where their number is given: each child of each part has as many. Beyond it, each has
one."""

_HANDING_OVER = 0.0002
"""Seconds of a row, below which a thread would cost more than it gains."""

_WAITS = 3
"""A row waits where it takes so many times as long as its thread computes. Less is no sign: other threads and processes
take their share of the processor."""

_FEWEST_WAITING = 0.25
"""The share of rows that have to wait: a busy processor lets a few of any rows wait."""

_STALLED = 0.02
"""The share of its time that a consumer may wait for rows."""

_FASTER = 1.1
"""Twice the threads have to read so many times the rows, or are too many."""

_LOOKS_AGAIN_AFTER = 50
"""Windows of several threads, after which one is read without them: rows may have become cheap."""

_LONGEST_REST = 1024


@dataclass(frozen=True, kw_only=True)
class Window:
    """What was measured while some rows were read. Times are in seconds.

    Attributes:
        num_threads: that read them; 0: the thread that asked.
        num_rows: how many; num_waiting: of these, how many waited.
        seconds: from when the first was asked for until the last was given.
        stalled: of these, how long the consumer waited.
        reading: sum over the rows of how long each took.
        computing: of this, how long the threads computed.
    """

    num_threads: int
    num_rows: int
    num_waiting: int
    seconds: float
    stalled: float
    reading: float
    computing: float

    @property
    def stall_share(self) -> float:
        """The share of its time that the consumer waited."""
        return self.stalled / self.seconds if self.seconds else 0.0

    @property
    def rate(self) -> float:
        """Rows a second."""
        return self.num_rows / max(self.seconds, 1e-9)


class Meter:
    """Sums of what is measured of the rows of a window.

    Attributes:
        num_rows: how many there are.
        begin: when the first was asked for, in seconds.
    """

    def __init__(self) -> None:
        self.num_rows = self._num_waiting = 0
        self.begin = self._stalled = self._reading = self._computing = 0.0

    def add(self, begin: float, end: float, *, reading: float, computing: float) -> None:
        """Adds a row that was asked for, and given, at these times."""
        if not self.num_rows:
            self.begin = begin
        self.num_rows += 1
        self._num_waiting += reading > max(_HANDING_OVER, _WAITS * computing)
        self._stalled += end - begin
        self._reading += reading
        self._computing += computing

    def window(self, num_threads: int, end: float) -> Window:
        """The sums, of rows that so many threads read until then."""
        return Window(
            num_threads=num_threads,
            num_rows=self.num_rows,
            num_waiting=self._num_waiting,
            seconds=end - self.begin,
            stalled=self._stalled,
            reading=self._reading,
            computing=self._computing,
        )


class Pace(Protocol):
    """Says with how many threads rows are read."""

    @property
    def num_threads(self) -> int:
        """How many; 0: none, the thread that asks reads."""
        ...

    @property
    def num_ahead(self) -> int:
        """The most rows that are read before they are asked for."""
        ...

    @property
    def settled(self) -> Window | None:
        """What was measured when the number was first found right; None: it wasn't yet, or is given."""
        ...

    def is_full(self, num_rows: int, seconds: float) -> bool:
        """Whether a window has rows enough to be told."""
        ...

    def tell(self, window: Window) -> None:
        """Takes note of what was measured."""
        ...


class GivenPace:
    """So many threads as are given, or as the process may have when the first row is asked for.

    Args:
        num_threads, num_ahead: see :class:`Pace`; without one of them there is no thread.
        most: how many threads there may be.
    """

    settled = None

    def __init__(self, num_threads: int, num_ahead: int, most: Callable[[], int] = lambda: MOST_GIVEN) -> None:
        self._given = num_threads if num_ahead else 0
        self.num_ahead = num_ahead
        self._most = most
        self._number: int | None = None

    @property
    def num_threads(self) -> int:
        """How many; 0: none, the thread that asks reads."""
        if self._number is None:
            self._number = min(self._given, self._most()) if self._given else 0
        return self._number

    def is_full(self, num_rows: int, seconds: float) -> bool:
        """False: nothing is tuned."""
        return False

    def tell(self, window: Window) -> None:
        """Takes no note."""


class WatchedPace:
    """No threads, whether or not rows wait, and a look at whether they do."""

    num_threads = 0
    num_ahead = 0

    def __init__(self) -> None:
        self._settled: Window | None = None

    @property
    def settled(self) -> Window | None:
        """What was measured when threads would first have been of use."""
        return self._settled

    def is_full(self, num_rows: int, seconds: float) -> bool:
        """After some rows, or a few that take long; never, once it is known that they wait."""
        return self._settled is None and _is_enough(num_rows, seconds)

    def tell(self, window: Window) -> None:
        """Takes note of what was measured."""
        if useful_threads(window) > 1:
            self._settled = window


class TunedPace:
    """No threads until rows wait; then twice as many again while the consumer waits and they help.

    A row waits where it takes much longer than its thread computes: for a disk, for a server. Rows that compute, or are
    cheap, are read by the thread that asks, for threads of Python mostly take turns computing. What is measured is
    noisy, so what didn't help is tried again later, and what helped is looked at again too. Nothing but time depends on
    it.

    Args:
        room: how many threads the process may have more.

    >>> pace = TunedPace(room=lambda: 64)
    >>> rows = {"num_rows": 16, "num_waiting": 16, "reading": 0.16, "computing": 0.001}
    >>> pace.tell(Window(num_threads=0, seconds=0.16, stalled=0.16, **rows))
    >>> pace.num_threads
    2
    >>> pace.tell(Window(num_threads=2, seconds=0.08, stalled=0.08, **rows))
    >>> pace.num_threads
    4
    """

    def __init__(self, room: Callable[[], int]) -> None:
        self.num_threads = 0
        self._settled: Window | None = None
        self._room = room
        self._limit = MOST_THREADS
        self._before: Window | None = None  # the last one with fewer threads, where there was one
        self._last_number = 0  # before it was looked whether rows have become cheap
        self._num_windows = 0  # since then
        self._rest = 0  # windows without threads that are still to pass
        self._next_rest = 1

    @property
    def num_ahead(self) -> int:
        """Two rows a thread."""
        return 2 * self.num_threads

    @property
    def settled(self) -> Window | None:
        """What was measured when the number was first found right."""
        return self._settled

    def is_full(self, num_rows: int, seconds: float) -> bool:
        """After some rows for each thread, or a few that take long."""
        return _is_enough(num_rows, seconds, each=max(1, self.num_threads))

    def tell(self, window: Window) -> None:
        """Takes note of what was measured, and decides."""
        number = self._without_threads(window) if not window.num_threads else self._with_threads(window)
        if number == window.num_threads > 0 and self._settled is None:
            self._settled = window
        self._before = window if number > window.num_threads else None
        self.num_threads = number

    def _without_threads(self, window: Window) -> int:
        last_number, self._last_number, self._num_windows = self._last_number, 0, 0
        if self._rest:
            self._rest -= 1
            return 0
        self._limit = min(useful_threads(window), self._room())
        if self._limit < 2:
            return 0
        return min(self._limit, last_number or 2)

    def _with_threads(self, window: Window) -> int:
        self._num_windows += 1
        if self._num_windows > _LOOKS_AGAIN_AFTER:
            self._last_number = window.num_threads
            return 0
        if window.stall_share < _STALLED:
            return window.num_threads
        before = self._before
        if before is not None and window.rate < before.rate * _FASTER:
            self._limit = before.num_threads
            if not self._limit:  # they don't help at all: it is something else that rows wait for
                self._rest, self._next_rest = self._next_rest, min(2 * self._next_rest, _LONGEST_REST)
            return self._limit
        self._next_rest = 1
        most = min(self._limit, window.num_threads + self._room())
        return max(window.num_threads, min(2 * window.num_threads, most))


def _is_enough(num_rows: int, seconds: float, *, each: int = 1) -> bool:
    return num_rows >= 16 * each or (num_rows >= 2 * each and seconds >= 0.25)


def useful_threads(window: Window) -> int:
    """How many threads could read rows at once that are like those which the asking thread read; 0: none is of use.

    While one computes the others wait, so there are no more than rows take longer than they compute.

    >>> times = {"num_threads": 0, "num_rows": 10, "num_waiting": 10, "seconds": 1.0, "stalled": 1.0, "reading": 1.0}
    >>> useful_threads(Window(**times, computing=0.0)), useful_threads(Window(**times, computing=0.2))
    (16, 5)
    >>> useful_threads(Window(**{**times, "num_waiting": 1}, computing=0.0))
    0
    """
    if window.num_waiting < _FEWEST_WAITING * window.num_rows or window.stall_share < _STALLED:
        return 0
    number = int(min(MOST_THREADS, window.reading / max(window.computing, 1e-9)))
    return number if number >= 2 else 0
