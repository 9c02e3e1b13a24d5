"""Rows whose content another row has: within a data set, and between two of them.

Rows are compared by 16 bytes of a hash each (:func:`~torchpipe.data.row_content.content_digest`), so that a data set of
any size can be looked through: 16 bytes a row are held, and as many again while they are sorted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.data.row_content import content_digest
from torchpipe.errors import located

Rows = RandomAccessDataSource[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Overlap:
    """How many rows of one data set another one has too.

    Attributes:
        num_rows: of the first data set.
        num_shared: those of them whose content is a row of the second one.
        examples: for the first few of them, the row's number, and that of the first equal row of the second one.
    """

    num_rows: int
    num_shared: int
    examples: Sequence[tuple[int, int]]

    def describe(self) -> str:
        """One line.

        >>> Overlap(num_rows=200, num_shared=2, examples=[(3, 70), (9, 4)]).describe()
        '2 of 200 rows (1.0%) are in the other data set too: row 3 is row 70 there, row 9 is row 4 there'
        """
        if not self.num_shared:
            return f"none of {self.num_rows:,} rows is in the other data set"
        share = self.num_shared / self.num_rows
        named = ", ".join(f"row {row} is row {other} there" for row, other in self.examples)
        are = "is" if self.num_shared == 1 else "are"
        return f"{self.num_shared:,} of {self.num_rows:,} rows ({share:.1%}) {are} in the other data set too: {named}"


def duplicate_rows(rows: Rows, *, columns: Sequence[str] | None = None) -> np.ndarray:
    """The numbers of the rows whose content an earlier row has: int64, ascending.

    Args:
        rows: of a source, or a list of dicts.
        columns: the columns that are compared; None: all.

    Raises:
        ColumnError: a row has no such column; the sentence names it.

    >>> duplicate_rows([{"text": "a"}, {"text": "b"}, {"text": "a"}]).tolist()
    [2]
    """
    return np.flatnonzero(repeats(digests_of(rows, columns)))


def overlap(rows: Rows, others: Rows, *, columns: Sequence[str] | None = None, num_examples: int = 5) -> Overlap:
    """How many of the rows are among the others too, such as those for validation among those for training.

    Args:
        rows, others: of sources, lists of dicts, or data sets, whose samples are compared then.
        columns: the columns that are compared; None: all.
        num_examples: pairs of equal rows that are named.

    Raises:
        ColumnError: a row has no such column; the sentence names it.

    >>> overlap([{"text": "a"}, {"text": "b"}], [{"text": "c"}, {"text": "b"}]).examples
    [(1, 1)]
    """
    # The others come first: the first of some equal rows is one of them, if any is.
    digests = np.concatenate([digests_of(others, columns), digests_of(rows, columns)])
    order, starts = _runs(digests)
    first = np.empty(len(digests), np.int64)
    first[order] = np.repeat(order[starts], np.diff(starts, append=len(order)))
    theirs = first[len(others) :]
    shared = np.flatnonzero(theirs < len(others))
    examples = [(row, int(theirs[row])) for row in shared[:num_examples].tolist()]
    return Overlap(num_rows=len(rows), num_shared=len(shared), examples=examples)


def digests_of(rows: Rows, columns: Sequence[str] | None = None) -> np.ndarray:
    """The hash of each row's content: uint64 [rows, 2].

    Raises:
        ColumnError: a row has no such column; the sentence names it.
    """
    digests = np.empty((len(rows), 2), np.uint64)
    for number in range(len(rows)):
        try:
            digests[number] = np.frombuffer(content_digest(rows[number], columns), np.uint64)
        except Exception as error:
            raise located(error, f"Row {number}")  # noqa: B904  # the same error
    return digests


def repeats(digests: np.ndarray) -> np.ndarray:
    """Which rows have the hash of an earlier one: bool [rows], from uint64 [rows, 2]."""
    order, starts = _runs(digests)
    found = np.ones(len(digests), np.bool_)
    found[order[starts]] = False
    return found


def _runs(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers such that equal hashes stand together, in the rows' order; and where each run of them starts."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))  # which leaves equal ones in their order
    is_start = np.ones(len(order), np.bool_)
    is_start[1:] = (digests[order[1:]] != digests[order[:-1]]).any(axis=1)
    return order, np.flatnonzero(is_start)
