"""What is counted of a row, done when the row is given: rows that are read ahead, and then given up, count nowhere."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_OF_THIS_THREAD = threading.local()


def when_given(count: Callable[[], None]) -> None:
    """Counts something of the row that this thread reads: at once, or within :func:`put_off` when the row is given.

    What it raises is the row's error.

    >>> with put_off() as counts:
    ...     when_given(lambda: print("counted"))
    >>> for count in counts:
    ...     count()
    counted
    """
    counts: list[Callable[[], None]] | None = getattr(_OF_THIS_THREAD, "counts", None)
    if counts is None:
        count()
    else:
        counts.append(count)


def is_read_ahead() -> bool:
    """Whether this thread reads a row that is given later, beside others that do."""
    return getattr(_OF_THIS_THREAD, "counts", None) is not None


@contextmanager
def put_off() -> Iterator[list[Callable[[], None]]]:
    """Within it, a list of what this thread would have counted, which the caller does in this order."""
    counts: list[Callable[[], None]] = []
    before = getattr(_OF_THIS_THREAD, "counts", None)
    _OF_THIS_THREAD.counts = counts
    try:
        yield counts
    finally:
        _OF_THIS_THREAD.counts = before
