"""What data sets made of several others have in common."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from torchpipe.data.ledger_summary import LedgerSummary
from torchpipe.data.protocols import RandomAccessDataSource, can_be_read_ahead
from torchpipe.datasets.growing import GrowingPackedDataset
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.row_number import row_number
from torchpipe.datasets.stored import StoredDataset
from torchpipe.errors import ConfigError
from torchpipe.store.chosen_samples import ChosenSamples
from torchpipe.store.rows import kind_of


class JoinedDataset(Dataset[Any], ABC):
    """Rows of several data sets under one number; the base of what joins them, which says where each row stands.

    Args:
        datasets: objects with ``__len__`` and ``__getitem__``; all of them packed, or none.

    Attributes:
        packed: whether the rows are packs.
        datasets: the parts.
        name: what errors call it: the names of its parts.
        num_filtered: rows that the parts' filters left out.
        num_left_out: rows that splits and duplicates left out of the parts, by reason.

    Raises:
        ConfigError: there are no data sets, one of them can't be indexed, or only some of them are packed.
    """

    def __init__(self, datasets: Sequence[RandomAccessDataSource[Any]]) -> None:
        kind = type(self).__name__
        if not isinstance(datasets, Sequence) or isinstance(datasets, str):
            raise ConfigError(f"{kind} takes a list of data sets, and got a {type(datasets).__name__}.")
        if len(datasets) == 0:
            raise ConfigError(f"{kind} was given an empty list. Give it at least one data set.")
        for place, dataset in enumerate(datasets):
            if not isinstance(dataset, RandomAccessDataSource):
                raise ConfigError(
                    f"{kind} joins objects with __len__ and __getitem__; number {place} is a {type(dataset).__name__}."
                )
            if isinstance(dataset, GrowingPackedDataset):
                raise ConfigError(
                    f"Data set number {place} ({dataset.name}) has start='by_shard', and joined data sets are complete "
                    "from the start. Set start='when_complete'."
                )
        packed = [is_packed(dataset) for dataset in datasets]
        names = [name_of(dataset) for dataset in datasets]
        if len(set(packed)) > 1:
            with_kinds = "; ".join(
                f"{place} ({name}) is {'packed' if one else 'not packed'}"
                for place, (name, one) in enumerate(zip(names, packed, strict=True))
            )
            raise ConfigError(f"Either all data sets of a {kind} are packed, or none: {with_kinds}.")
        self.packed = packed[0]
        self.name = " + ".join(names)
        self.num_filtered = sum(getattr(dataset, "num_filtered", 0) for dataset in datasets)
        self.num_left_out = dict(sum((Counter(getattr(one, "num_left_out", {})) for one in datasets), Counter[str]()))
        self.datasets: list[Any] = list(datasets)

    @abstractmethod
    def __len__(self) -> int:
        """How many rows there are."""

    @abstractmethod
    def locate(self, index: int) -> tuple[RandomAccessDataSource[Any], int]:
        """The part that a row stands in, and the row's number there.

        Raises:
            IndexError: there is no such row.
        """

    @abstractmethod
    def chosen(self, parts: Sequence[Any]) -> Any:
        """What arrays of one entry a row of each part give for the rows of the whole: [rows]."""

    @property
    def kind(self) -> str | None:
        """What kind of samples all parts have; None where they differ, or it isn't known."""
        kinds = {kind_of(dataset) for dataset in self.datasets}
        return kinds.pop() if len(kinds) == 1 else None

    @property
    def ledger(self) -> LedgerSummary:
        """What became of the rows of all parts together; there only where every part has it. The first rows of each
        reason stand in the parts' own.
        """
        return LedgerSummary.joined([dataset.ledger for dataset in self.datasets])

    @property
    def lengths(self) -> np.ndarray:
        """Tokens of each row, padding left out; there only where every part has it. So are the next three."""
        return self.chosen([lengths_of(dataset) for dataset in self.datasets])

    @property
    def side_lengths(self) -> np.ndarray:
        """Tokens of both sides of each pair: [pairs, 2]; there only where every part is of stored pairs."""
        return self.chosen([dataset.side_lengths for dataset in self.datasets])

    @cached_property
    def costs(self) -> np.ndarray:
        """What each pack costs to train on: int64 [packs]."""
        return self.chosen([dataset.costs for dataset in self.datasets])

    @cached_property
    def trained_counts(self) -> np.ndarray:
        """The labels of each item that are not -100."""
        return self.chosen([dataset.trained_counts for dataset in self.datasets])

    @cached_property
    def weight_sums(self) -> np.ndarray | None:
        """The sum of each item's loss weights, float64; None where no part has weights."""
        sums = [dataset.weight_sums for dataset in self.datasets]
        if all(one is None for one in sums):
            return None
        without = (
            dataset.trained_counts if one is None else one for one, dataset in zip(sums, self.datasets, strict=True)
        )
        return self.chosen([values.astype(np.float64) for values in without])

    def stored_samples(self) -> ChosenSamples | None:
        """The rows as samples of the parts' stores, to pack them without reading one; None where a part has none, or
        has pairs, whose two samples belong in one pack.
        """
        if not all(isinstance(dataset, StoredDataset) for dataset in self.datasets):
            return None
        stores = [dataset.store for dataset in self.datasets]
        if any(store.keeps_rows_whole for store in stores):
            return None
        firsts = np.cumsum([0, *(store.num_samples for store in stores)])
        numbers = [np.arange(first, first + store.num_samples) for first, store in zip(firsts, stores, strict=False)]
        return ChosenSamples(stores, self.chosen(numbers))

    def __getitem__(self, index: int) -> Any:
        dataset, row = self.locate(index)
        return dataset[row]

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key not in _WORKED_OUT}

    def _can_be_read_ahead(self) -> bool:
        return all(can_be_read_ahead(dataset) for dataset in self.datasets)

    def _row(self, index: int) -> int:
        """The row's number from the start on.

        Raises:
            IndexError: there is no such row.
        """
        index = row_number(index)
        if not -len(self) <= index < len(self):
            raise IndexError(
                f"Row {index} was asked for, and the {len(self.datasets)} data sets {self.name} have {len(self)} rows "
                f"({self._sizes()})."
            )
        return index % len(self)

    def _sizes(self) -> str:
        return " + ".join(str(len(dataset)) for dataset in self.datasets)


_WORKED_OUT = ("costs", "trained_counts", "weight_sums")
"""What is worked out when it is first asked for, and again in each process that asks."""


def is_packed(dataset: object) -> bool:
    """Whether a data set's rows are packs."""
    return isinstance(dataset, PackedDataset) or (isinstance(dataset, JoinedDataset) and dataset.packed)


def name_of(dataset: object) -> str:
    """What messages call a data set."""
    return str(getattr(dataset, "name", type(dataset).__name__))


def lengths_of(dataset: Any) -> np.ndarray:
    """Tokens of each row of a data set that knows them without reading it; of a pack, without its padding.

    Raises:
        AttributeError: the data set does not know them.
    """
    return dataset.plan.num_tokens if isinstance(dataset, PackedDataset) else dataset.lengths
