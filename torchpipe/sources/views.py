"""Rows of other sources, chosen or joined, by number."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from torchpipe._fingerprint import fingerprint
from torchpipe.data.protocols import RandomAccessDataSource, can_be_read_ahead
from torchpipe.sources.file_rows import FileRows
from torchpipe.sources.identity import object_fingerprint


class KeptRows:
    """Some rows of another source.

    Args:
        rows: the source.
        kept: integers, their numbers in it.
    """

    def __init__(self, rows: RandomAccessDataSource[Mapping[str, Any]], kept: np.ndarray) -> None:
        self._rows = rows
        self._kept = np.asarray(kept, dtype=np.int64)

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, index: int, /) -> Mapping[str, Any]:
        return self._rows[int(self._kept[index])]

    @property
    def can_be_read_ahead(self) -> bool:
        """Whether the source says so, see :func:`~torchpipe.data.protocols.can_be_read_ahead`."""
        return can_be_read_ahead(self._rows)

    @property
    def numbers(self) -> np.ndarray:
        """Of each row, its number in the source: int64, ``(len(self),)``."""
        return self._kept

    @property
    def sources(self) -> list[RandomAccessDataSource[Mapping[str, Any]]]:
        """Where the rows come from."""
        return [self._rows]

    def describe(self) -> str:
        """What the source is called, and how many of its rows these are."""
        return f"{described_rows(self._rows)} ({len(self):,} of {len(self._rows):,} rows)"

    def fingerprint(self) -> str:
        """What tells these rows from others: the source's own fingerprint, and the numbers."""
        return fingerprint([object_fingerprint(self._rows), self._kept])


class JoinedRows:
    """The rows of several sources, one after another."""

    def __init__(self, sources: Sequence[RandomAccessDataSource[Mapping[str, Any]]]) -> None:
        self._sources = list(sources)
        self._ends = list(accumulate(map(len, self._sources)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int, /) -> Mapping[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"Row {index} was asked for, and there are {len(self)} rows.")
        index %= len(self)
        number = bisect_right(self._ends, index)
        return self._sources[number][index - (self._ends[number - 1] if number else 0)]

    @property
    def can_be_read_ahead(self) -> bool:
        """Whether all sources say so, see :func:`~torchpipe.data.protocols.can_be_read_ahead`."""
        return all(map(can_be_read_ahead, self._sources))

    @property
    def sources(self) -> list[RandomAccessDataSource[Mapping[str, Any]]]:
        """Where the rows come from."""
        return list(self._sources)

    def describe(self) -> str:
        """What the sources are called."""
        return ", ".join(map(described_rows, self._sources))

    def fingerprint(self) -> str:
        """What tells these rows from others: the sources' own fingerprints, in order."""
        return fingerprint([object_fingerprint(source) for source in self._sources])


def described_rows(rows: object) -> str:
    """The shortest name of rows: what their ``describe`` says, such as their files; without one their class.

    >>> described_rows(JoinedRows([[{"text": "a"}], [{"text": "b"}]]))
    'list, list'
    """
    describe = getattr(rows, "describe", None)
    told = describe() if callable(describe) and not isinstance(rows, type) else None
    return told if isinstance(told, str) else type(rows).__qualname__.rpartition("<locals>.")[2]


def each_of(rows: RandomAccessDataSource[Mapping[str, Any]], indices: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """The rows of some numbers, from 0, in their order: what ``rows[index]`` gives, faster where they are of a file.

    >>> list(each_of(["a", "b", "c"], [2, 0]))
    ['c', 'a']
    """
    if isinstance(rows, FileRows):
        return rows.each_of(indices)
    if isinstance(rows, KeptRows):
        return each_of(rows.sources[0], rows.numbers[np.asarray(indices, dtype=np.int64)].tolist())
    return (rows[index] for index in indices)


def check_rows(rows: RandomAccessDataSource[Mapping[str, Any]]) -> None:
    """Reads the rows of files once, so that a malformed one is found now; rows from elsewhere are not read.

    Raises:
        MalformedRow: of the first.
    """
    if _are_of_files(rows):
        for index in range(len(rows)):
            rows[index]


def _are_of_files(rows: object) -> bool:
    if isinstance(rows, KeptRows | JoinedRows):
        return any(map(_are_of_files, rows.sources))
    return isinstance(rows, FileRows)
