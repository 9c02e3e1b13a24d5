"""The order of rows that are read by number: shuffled anew in each epoch, one part of it for each rank."""

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from torchpipe._counted import counted
from torchpipe._seeds import derive, hashed_permutation
from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline.by_grain.ledger import graph_ledger
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.reading import RowsInOrder
from torchpipe.pipeline.by_grain.when_given import when_given
from torchpipe.pipeline.child_policies import seed_32
from torchpipe.pipeline.types import DatasetIterationPolicy

_MOST_SORTED = 1 << 20
"""The order of an epoch of up to so many rows is held, 8 bytes a row. Grain's shuffle, which holds none, takes
milliseconds a row for a few rows: it goes over all numbers of 16 bits until it meets one of theirs."""


class TooFewRowsError(ConfigError):
    """There are fewer rows than ranks, so that one would have none."""


class EpochOrder(grain.MapDataset[Any]):
    """A rank's rows of an epoch, then those of the next.

    All rows are shuffled and then divided, so that a rank has other rows in each epoch. The first ranks have a row more
    where the number of ranks does not divide that of rows. Row ``i`` past the end is one of a later epoch, as in all
    data sets of Grain. An epoch's order is hashed from the seed and its number.

    Args:
        parent: the rows of an epoch; those past its end are of the next.
        policy: whether they are shuffled, divided and repeated.
        called: what errors call them.

    Raises:
        TooFewRowsError: there are fewer rows than ranks.
    """

    def __init__(self, parent: grain.MapDataset[Any], policy: DatasetIterationPolicy, *, called: str) -> None:
        super().__init__(parent)
        num_rows, world_size = len(parent), policy.dp_world_size
        if num_rows < world_size:
            raise TooFewRowsError(
                f"dataset has {counted(num_rows, 'row')}, fewer than dp_world_size={world_size}: {called}. Give it "
                "more rows, or train on fewer ranks."
            )
        self._num_rows = num_rows
        self._policy = policy
        self._called = called
        self._orders: dict[int, np.ndarray] = {}  # of the last epochs
        share, remainder = divmod(num_rows, world_size)
        self._first = policy.dp_rank * share + min(policy.dp_rank, remainder)
        self._share = share + (policy.dp_rank < remainder)
        # Where nothing was given yet: which rows have been asked for. All of them in vain is an endless loop.
        self._in_vain: np.ndarray | None = np.zeros(num_rows, np.bool_) if policy.repeat else None
        if not policy.shuffle and self._in_vain is not None:
            self._in_vain[: self._first] = self._in_vain[self._first + self._share :] = True

    @property
    def num_rows_of_epoch(self) -> int:
        """The rows of an epoch, of all ranks."""
        return self._num_rows

    def __len__(self) -> int:
        return sys.maxsize if self._policy.repeat else self._share

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        epoch, place = divmod(index, self._share)
        row = self._first + place
        if self._policy.shuffle:
            row = self._shuffled(row, epoch)
        element = self._parent[epoch * self._num_rows + row]
        if self._in_vain is not None:
            left_out = element is None
            when_given(lambda: self._look(row, left_out=left_out))
        return element

    def to_iter_dataset(
        self, read_options: grain.ReadOptions | None = None, *, allow_nones: bool = False
    ) -> grain.IterDataset[Any]:
        """The rows one after the other; without ``read_options`` by as many threads as help."""
        return RowsInOrder(self, read_options, allow_nones=allow_nones)

    def _shuffled(self, place: int, epoch: int) -> int:
        """The row at a place of an epoch."""
        if self._num_rows > _MOST_SORTED:
            seed = _epoch_seed(self._policy.seed, epoch)
            return grain.experimental.index_shuffle(place, max_index=self._num_rows - 1, seed=seed, rounds=4)
        orders = self._orders
        if epoch not in orders:
            order = hashed_permutation(self._num_rows, derive(self._policy.seed, "shuffle", epoch))
            last = dict(list(orders.items())[-1:])  # reading ahead goes to and fro where an epoch ends
            self._orders = orders = {**last, epoch: order}
        return int(orders[epoch][place])

    def _look(self, row: int, *, left_out: bool) -> None:
        in_vain = self._in_vain
        if not left_out:
            self._in_vain = None
        elif in_vain is not None:
            in_vain[row] = True
            if in_vain.all():
                raise none_left(self._called, self._num_rows, self)

    def __str__(self) -> str:
        return f"EpochOrder({self._called})"


def none_left(called: str, num_rows: int, dataset: Any) -> DataError:
    """The error of a data set all of whose rows are left out; it says why they were."""
    return DataError(
        f"{called}: none of its {num_rows:,} rows is left. Loosen its filters, or take it out.{why_none_left(dataset)}"
    )


def why_none_left(dataset: Any) -> str:
    """The end of a paragraph about a data set without rows: its counts, and its first error."""
    ledger = graph_ledger(dataset)
    return "".join(f" {node}." for node in ledger.nodes) + ledger.first_error


@lru_cache(maxsize=256)
def _epoch_seed(seed: int, epoch: int) -> int:
    return seed_32(seed, "shuffle", epoch)
