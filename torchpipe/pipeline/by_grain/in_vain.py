"""How many rows may be left out one after the other before a run without an end is one without rows."""

from typing import Any

from torchpipe.pipeline.by_grain.library import grain

_MOST = 1_000_000
"""Where it isn't known how many rows an epoch has."""

_FEWEST = 5_000
"""So many may be left out of any source: a processor that draws may leave out most of a few rows by chance."""


def most_in_vain(dataset: "grain.MapDataset[Any] | grain.IterDataset[Any]", in_vain: int) -> int:
    """So many rows of a data set, given one after the other, hold all rows of its source.

    Args:
        dataset: its one source, if it has one, says ``num_rows_of_epoch``; None: not known yet. It says in
            ``window_size`` how many rows it shuffles at a time.
        in_vain: how many rows were left out; asked again after some more, where it isn't known yet.
    """
    window = 1
    while not hasattr(dataset, "num_rows_of_epoch"):
        window += getattr(dataset, "window_size", 0)
        if len(dataset.parents) != 1:
            return _MOST
        dataset = dataset.parents[0]
    num_rows: int | None = dataset.num_rows_of_epoch  # pyright: ignore[reportAttributeAccessIssue]
    if num_rows is None:
        return min(_MOST, in_vain + _FEWEST)
    # Two epochs hold a whole one, and of the windows at both ends not all rows may have been given.
    return min(_MOST, max(_FEWEST, 2 * (num_rows + window)))


class InVain:
    """Counts the rows that are left out one after the other.

    Args:
        dataset: that they are of.
    """

    def __init__(self, dataset: "grain.MapDataset[Any] | grain.IterDataset[Any]") -> None:
        self._dataset = dataset
        self._most = _FEWEST
        self.count = 0

    def one_more(self) -> bool:
        """Counts a row; whether there were so many that none is to be expected any more."""
        self.count += 1
        if self.count >= self._most:
            self._most = most_in_vain(self._dataset, self.count)
        return self.count >= self._most

    def reset(self) -> None:
        """A row was given."""
        self.count = 0
