"""The number of a row."""

import operator
from typing import Any


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
