"""Runs of consecutive numbers, all in one array."""

import numpy as np


def ramps(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``starts[0], starts[0] + 1, ...`` (``counts[0]`` numbers), then the same of the next, and so on; int64.

    >>> ramps(np.array([5, 20]), np.array([3, 2])).tolist()
    [5, 6, 7, 20, 21]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if ends.size else 0
    if total == counts.size and (counts == 1).all():
        return starts
    numbers = np.arange(total)
    numbers += np.repeat(starts - (ends - counts), counts)
    return numbers
