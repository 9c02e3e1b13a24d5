"""The number of a row."""

import operator
from bisect import bisect_left
from typing import Any

import numpy as np


def row_number(index: Any) -> int:
    """The index as an integer: a Python or NumPy one, or a tensor that holds one.

    Raises:
        TypeError: it is something else. A number with a fraction or a text would be taken for another row.

    >>> row_number(-1)
    -1
    """
    try:
        return operator.index(index)
    except TypeError:
        raise TypeError(
            f"A row is asked for by its number, and {index!r} is a {type(index).__name__}. Ask for several one by one: "
            "[dataset[row] for row in range(start, stop)]."
        ) from None


def row_of_sample(rows: np.ndarray, sample: int) -> tuple[int, int]:
    """The row that a sample was made of, and which of the row's samples it is.

    Args:
        rows: the row of each sample, ascending.
        sample: its number.

    >>> row_of_sample(np.array([0, 3, 3]), 2)
    (3, 1)
    """
    row = int(rows[sample])
    return row, sample - bisect_left(rows, row)  # pyright: ignore[reportArgumentType]  # an array is searched as a list
