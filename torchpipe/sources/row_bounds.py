"""Where the rows of one file start and stop."""

from collections.abc import Iterable

import numpy as np


class RowBounds:
    """The first byte of each row of a file and the byte after its last, in memory.

    Args:
        pairs: int64 [rows, 2].

    >>> bounds = RowBounds.of([(0, 5), (6, 9)])
    >>> len(bounds), bounds[1]
    (2, (6, 9))
    """

    def __init__(self, pairs: np.ndarray) -> None:
        self._pairs = pairs

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> "RowBounds":
        """The bounds that are given one after another."""
        return cls(np.fromiter(pairs, np.dtype((np.int64, 2))))

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, row: int) -> tuple[int, int]:
        start, stop = self._pairs[row].tolist()
        return start, stop
