"""Which rows of a source become samples, before anything is made of them: filter, split and duplicates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from torchpipe._progress import track
from torchpipe.data.duplicates import repeats
from torchpipe.data.row_content import content_digest
from torchpipe.data.splits import Holdout
from torchpipe.errors import DataError
from torchpipe.sources import Rows
from torchpipe.sources.row_filter import RowFilter, made_of_row

LeftOutBefore = Literal["filtered", "duplicate", "other_part"]

_USED, _FILTERED, _DUPLICATE, _UNKNOWN = range(4)


@dataclass(frozen=True, kw_only=True)
class Duplicates:
    """That rows are left out whose content an earlier row has.

    Attributes:
        columns: the columns that are compared; None: all.
    """

    columns: Sequence[str] | None = None


class RowSelection:
    """Which rows of a source are used.

    Duplicates are decided first, among all rows that the filter keeps, so that no row of one part of a split has the
    content of one of the other part. It takes a reading of all rows when this is made.

    Args:
        rows: of the source.
        name: what errors call it.
        row_filter: keeps some of them.
        holdout: uses one part of them.
        duplicates: leaves out later ones of equal content.
        skips_errors: True goes on after a row that can't be read or compared; :meth:`why_out` meets its error.

    Raises:
        Exception: a row can't be read or compared, or the filter's own error.
    """

    def __init__(
        self,
        rows: Rows,
        name: str,
        *,
        row_filter: RowFilter | None = None,
        holdout: Holdout | None = None,
        duplicates: Duplicates | None = None,
        skips_errors: bool = False,
    ) -> None:
        self._rows = rows
        self._name = name
        self._filter = row_filter
        self._holdout = holdout
        self._duplicates = duplicates
        self._fates = None if duplicates is None else self._compared(duplicates, skips_errors)

    @property
    def chooses(self) -> bool:
        """Whether any row may be left out."""
        return self._filter is not None or self._holdout is not None or self._duplicates is not None

    def why_out(self, row: int) -> LeftOutBefore | None:
        """Why a row is not used; None where it is.

        Raises:
            Exception: the row can't be read or compared, or the filter's own error; the sentence names it.
        """
        if not self.chooses:
            return None
        fate = _UNKNOWN if self._fates is None else int(self._fates[row])
        if fate == _DUPLICATE:
            return "duplicate"
        if fate == _FILTERED or (fate == _UNKNOWN and not self._passes(row)):
            return "filtered"
        if fate == _UNKNOWN and self._duplicates is not None:
            self._digest(row, self._duplicates)  # which raises what kept it from being compared
        if self._holdout is not None and not made_of_row(self._rows, row, self._name, self._holdout.uses):
            return "other_part"
        return None

    def _passes(self, row: int) -> bool:
        if self._filter is None:
            return True
        return self._filter.keeps(made_of_row(self._rows, row, self._name, _as_it_is), row, self._name)

    def _digest(self, row: int, duplicates: Duplicates) -> bytes:
        return made_of_row(self._rows, row, self._name, lambda held: content_digest(held, duplicates.columns))

    def _compared(self, duplicates: Duplicates, skips_errors: bool) -> np.ndarray:
        """The fate of each row: uint8 [rows]."""
        fates = np.full(len(self._rows), _UNKNOWN, np.uint8)
        digests = np.zeros((len(self._rows), 2), np.uint64)
        for row in track(range(len(self._rows)), f"Comparing rows of {self._name}"):
            try:
                if self._passes(row):
                    digests[row] = np.frombuffer(self._digest(row, duplicates), np.uint64)
                    fates[row] = _USED
                else:
                    fates[row] = _FILTERED
            except DataError:
                if not skips_errors:
                    raise
        used = np.flatnonzero(fates == _USED)
        fates[used[repeats(digests[used])]] = _DUPLICATE
        return fates


def _as_it_is(row: Mapping[str, Any]) -> Mapping[str, Any]:
    return row
