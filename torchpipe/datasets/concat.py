"""Several data sets, one after the other."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from torchpipe._fingerprint import fingerprint
from torchpipe.data.ledger import SampleCounts, sum_of_counts
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.datasets.joined import JoinedDataset
from torchpipe.sources.identity import object_fingerprint


class ConcatDataset(JoinedDataset):
    """The rows of all ``datasets`` in order: those of the first, then those of the second, and so on.

    In a recipe's config, a list of dataset sections without weights gives one of these.

    Args:
        datasets: objects with ``__len__`` and ``__getitem__``; all of them packed, or none.

    Attributes:
        packed: whether the rows are packs.
        datasets: the parts.
        name: what errors call it: the names of its parts.
        num_filtered: rows that the parts' filters left out.
        num_left_out: rows that splits and duplicates left out of the parts, by reason.
        counts: what became of the samples, where every part has counted already (packed data sets have).

    Raises:
        ConfigError: there are no data sets, one of them can't be indexed, or only some of them are packed.

    >>> both = ConcatDataset([["a", "b"], ["c"]])
    >>> len(both), both[2], both[-3]
    (3, 'c', 'a')
    """

    dataset_arguments = ("datasets",)
    counts: SampleCounts

    def __init__(self, datasets: Sequence[RandomAccessDataSource[Any]]) -> None:
        super().__init__(datasets)
        self._ends = list(accumulate(len(dataset) for dataset in datasets))
        counts = [getattr(dataset, "counts", None) for dataset in datasets]
        counted = [count for count in counts if isinstance(count, SampleCounts)]
        if len(counted) == len(counts):
            self.counts = sum_of_counts(counted)

    @property
    def can_be_read_ahead(self) -> bool:
        """Whether all parts say so, see :func:`~torchpipe.data.protocols.can_be_read_ahead`."""
        return self._can_be_read_ahead()

    def chosen(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The entries of all parts, one part after the other."""
        return np.concatenate(parts)

    def __len__(self) -> int:
        return self._ends[-1]

    def locate(self, index: int) -> tuple[RandomAccessDataSource[Any], int]:
        """The part that a row stands in, and the row's number there."""
        index = self._row(index)
        part = bisect_right(self._ends, index)
        return self.datasets[part], index - (self._ends[part - 1] if part else 0)

    def fingerprint(self) -> str:
        """What tells these rows from others: the parts' own fingerprints, in order.

        Raises:
            NoFingerprint: a part has none.
        """
        return fingerprint([object_fingerprint(dataset) for dataset in self.datasets])
