"""Several data sets, one after the other."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from torchpipe._fingerprint import fingerprint
from torchpipe.data.ledger import SampleCounts, sum_of_counts
from torchpipe.data.ledger_summary import LedgerSummary
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.row_number import row_number
from torchpipe.errors import ConfigError
from torchpipe.sources.identity import object_fingerprint


class ConcatDataset(Dataset[Any]):
    """The rows of all ``datasets`` in order: those of the first, then those of the second, and so on.

    In a recipe's config, a list of dataset sections gives one of these.

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

    counts: SampleCounts

    def __init__(self, datasets: Sequence[RandomAccessDataSource[Any]]) -> None:
        if not isinstance(datasets, Sequence) or isinstance(datasets, str):
            raise ConfigError(f"ConcatDataset takes a list of data sets, and got a {type(datasets).__name__}.")
        if len(datasets) == 0:
            raise ConfigError("ConcatDataset was given an empty list. Give it at least one data set.")
        for place, dataset in enumerate(datasets):
            if not isinstance(dataset, RandomAccessDataSource):
                raise ConfigError(
                    f"ConcatDataset joins objects with __len__ and __getitem__; number {place} is a "
                    f"{type(dataset).__name__}."
                )
            if isinstance(dataset, GrowingPackedDataset):
                raise ConfigError(
                    f"Data set number {place} ({dataset.name}) has start='by_shard', and joined data sets are complete "
                    "from the start. Set start='when_complete'."
                )
        kinds = [_is_packed(dataset) for dataset in datasets]
        names = [_name(dataset) for dataset in datasets]
        if len(set(kinds)) > 1:
            with_kinds = "; ".join(
                f"{place} ({name}) is {'packed' if packed else 'not packed'}"
                for place, (name, packed) in enumerate(zip(names, kinds, strict=True))
            )
            raise ConfigError(f"Either all data sets of a ConcatDataset are packed, or none: {with_kinds}.")
        self.packed = kinds[0]
        self.name = " + ".join(names)
        self.num_filtered = sum(getattr(dataset, "num_filtered", 0) for dataset in datasets)
        self.num_left_out = dict(sum((Counter(getattr(one, "num_left_out", {})) for one in datasets), Counter[str]()))
        self.datasets: list[Any] = list(datasets)
        self._ends = list(accumulate(len(dataset) for dataset in datasets))
        counts = [getattr(dataset, "counts", None) for dataset in datasets]
        counted = [count for count in counts if isinstance(count, SampleCounts)]
        if len(counted) == len(counts):
            self.counts = sum_of_counts(counted)

    @property
    def ledger(self) -> LedgerSummary:
        """What became of the rows of all parts together; there only where every part has it. The first rows of each
        reason stand in the parts' own.
        """
        return LedgerSummary.joined([dataset.ledger for dataset in self.datasets])

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each sample; there only where every part has it. So are the next three."""
        return self._joined("lengths")

    @cached_property
    def costs(self) -> np.ndarray:
        """What each pack costs to train on: int64 [packs]."""
        return self._joined("costs")

    @cached_property
    def trained_counts(self) -> np.ndarray:
        """The labels of each item that are not -100."""
        return self._joined("trained_counts")

    @cached_property
    def weight_sums(self) -> np.ndarray | None:
        """The sum of each item's loss weights, float64; None where no part has weights."""
        sums = [dataset.weight_sums for dataset in self.datasets]
        if all(one is None for one in sums):
            return None
        without = (
            dataset.trained_counts if one is None else one for one, dataset in zip(sums, self.datasets, strict=True)
        )
        return np.concatenate([values.astype(np.float64) for values in without])

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _WORKED_OUT}

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> Any:
        dataset, row = self.locate(index)
        return dataset[row]

    def locate(self, index: int) -> tuple[RandomAccessDataSource[Any], int]:
        """The part that a row stands in, and the row's number there."""
        index = row_number(index)
        if not -len(self) <= index < len(self):
            sizes = " + ".join(str(len(dataset)) for dataset in self.datasets)
            raise IndexError(
                f"Row {index} was asked for, and the {len(self.datasets)} data sets {self.name} have {len(self)} rows "
                f"({sizes})."
            )
        index %= len(self)
        part = bisect_right(self._ends, index)
        return self.datasets[part], index - (self._ends[part - 1] if part else 0)

    def fingerprint(self) -> str:
        """What tells these rows from others: the parts' own fingerprints, in order.

        Raises:
            NoFingerprint: a part has none.
        """
        return fingerprint([object_fingerprint(dataset) for dataset in self.datasets])

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def _joined(self, name: str) -> np.ndarray:
        return np.concatenate([getattr(dataset, name) for dataset in self.datasets])


_WORKED_OUT = ("costs", "trained_counts", "weight_sums")
"""What is worked out when it is first asked for, and again in each process that asks."""


def _is_packed(dataset: object) -> bool:
    return isinstance(dataset, PackedDataset) or (isinstance(dataset, ConcatDataset) and dataset.packed)


def _name(dataset: object) -> str:
    return str(getattr(dataset, "name", type(dataset).__name__))
