"""What people are told while something takes long: a progress bar on a terminal, a line where there is none.

All of it goes to standard error, and from one process of a machine only: the first of its ranks.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")

MIN_ITEMS = 500
"""Below this many items the bar would flash by."""


def track(items: Sequence[Item], description: str) -> Iterator[Item]:
    """Yields the items, with a progress bar where somebody can see it."""
    with bar(len(items), description) as advance:
        for item in items:
            yield item
            advance(1)


@contextmanager
def bar(total: int, description: str) -> Iterator[Callable[[int], None]]:
    """A function that is told how many more of ``total`` items are done; it draws a bar where somebody can see it.

    No thread draws it, so that a process with a bar can still be forked.
    """
    if total < MIN_ITEMS or not sys.stderr.isatty() or not tells():
        yield lambda num_items: None
        return
    from time import monotonic

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as progress:
        task = progress.add_task(description, total=total)
        drawn = monotonic()

        def advance(num_items: int) -> None:
            nonlocal drawn
            progress.advance(task, num_items)
            if monotonic() - drawn > 0.1:
                drawn = monotonic()
                progress.refresh()

        yield advance


def say(line: str) -> None:
    """Prints a line."""
    if tells():
        print(line, file=sys.stderr, flush=True)


def tells() -> bool:
    """Whether this process is the one that speaks: the first rank of its machine, or the only one."""
    return os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) == "0"
