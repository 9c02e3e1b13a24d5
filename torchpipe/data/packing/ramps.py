"""Runs of consecutive numbers, all in one array."""

import numpy as np


def ramps(starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """``starts[0], starts[0] + 1, ...`` (``counts[0]`` numbers), then the same of the next, and so on; int64.

    >>> ramps(np.array([5, 20]), np.array([3, 2])).tolist()
    [5, 6, 7, 20, 21]
    """
    if counts.size and counts.max() == 1 == counts.min():
        return starts
    ends = np.cumsum(counts)
    numbers = np.arange(int(ends[-1]) if ends.size else 0)
    numbers += np.repeat(starts - (ends - counts), counts)
    return numbers
