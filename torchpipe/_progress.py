"""One progress bar for everything that takes long: on a terminal only, on standard error, on the first rank only."""

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

MIN_ITEMS = 500
"""Below this many items the bar would flash by."""


def track(items: Sequence[Item], description: str) -> Iterator[Item]:
    """Yields the items, with a progress bar where somebody can see it."""
    if len(items) < MIN_ITEMS or not sys.stderr.isatty() or os.environ.get("RANK", "0") != "0":
        yield from items
        return
    from rich.console import Console
    from rich.progress import track as rich_track

    yield from rich_track(items, description=description, console=Console(stderr=True), transient=True)
