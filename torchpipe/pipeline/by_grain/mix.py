"""A weighted mix of nodes as a data set of Grain: as a stream, and, where that can be, by number."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

from torchpipe.data.mix_turns import scales_of, tie_ranks, turn_at
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.mix_stream import MixChild, MixStream
from torchpipe.pipeline.by_grain.order import none_left
from torchpipe.pipeline.by_grain.reading import GrainDataset, RowsInOrder
from torchpipe.pipeline.child_policies import child_names, child_policies
from torchpipe.pipeline.dataset import DatasetMixConfig
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy


def built_mix(config: DatasetMixConfig, context: DatasetBuildContext, policy: DatasetIterationPolicy) -> GrainDataset:
    """The data set of a :class:`~torchpipe.pipeline.DatasetMixConfig`; see there."""
    names = child_names(config.datasets)
    children: list[MixChild] = []
    for weighted, name, own in zip(config.datasets, names, child_policies(names, policy), strict=True):
        is_endless = policy.repeat and weighted.max_epochs is None
        once = 1.0 if config.stop == "first" and not policy.repeat else None
        child = MixChild(
            name=name,
            dataset=weighted.named.build(context=context, dataset_iteration_policy=replace(own, repeat=is_endless)),
            weights=weighted.weights,
            max_passes=weighted.max_epochs or once,
            is_endless=is_endless,
            part=policy.dp_rank,
            num_parts=policy.dp_world_size,
        )
        children.append(child)
    by_number = config.by == "rows" and all(
        isinstance(child.dataset, grain.MapDataset) and len(child.weights) == 1 and weighted.max_epochs is None
        for child, weighted in zip(children, config.datasets, strict=True)
    )
    stream = MixStream(
        children,
        by=config.by,
        stop=None if policy.repeat else config.stop,
        seed=policy.seed,
        read_options=context.read_options,
    )
    if by_number and (policy.repeat or config.stop == "first"):
        return MixedRows(children, stream, seed=policy.seed)
    return stream


class MixedRows(grain.MapDataset[Any]):
    """The rows of children that are read by number, mixed by rows.

    Row ``i`` is the ``i``-th that the mix gives, so that what a child leaves out counts for nothing: to know it, the
    rows of such a child up to there are made once. Read one after the other, as by ``to_iter_dataset``, nothing is made
    twice. The length is that without anything left out; rows behind the end are None.

    Args:
        children: what is mixed.
        stream: the same rows one after the other.
        seed: of the order of rows whose turn is at the same time.
    """

    ends_early = True

    def __init__(self, children: Sequence[MixChild], stream: MixStream, *, seed: int) -> None:
        datasets: list[Any] = [child.dataset for child in children]
        super().__init__(datasets)
        self._stream = stream
        self._is_endless = children[0].is_endless
        self._scales = scales_of([child.weights[0] for child in children])
        self._ranks = tie_ranks([child.name for child in children], seed)
        self._kept = [_KeptRows(child) for child in children]
        # A child of n rows ends at the time 2 n scale; every item before the first end has its place.
        end = min(2 * len(dataset) * scale for dataset, scale in zip(datasets, self._scales, strict=True))
        counts = [((end - 1) // scale + 1) // 2 for scale in self._scales]
        self._length = sys.maxsize if self._is_endless else sum(counts)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        epoch, place = (0, index) if self._is_endless else divmod(index, self._length)
        turn, number = turn_at(place, self._scales, self._ranks)
        for kept, scale in zip(self._kept, self._scales, strict=True):
            if not kept.has(turn.time // (2 * scale) + 1, epoch):
                return None
        return self._kept[turn.source].row(number, epoch)

    def to_iter_dataset(
        self, read_options: grain.ReadOptions | None = None, *, allow_nones: bool = False
    ) -> grain.IterDataset[Any]:
        """The rows one after the other; its state is that of the children, so that no row before it is made again."""
        if allow_nones:
            return RowsInOrder(self, read_options, allow_nones=True)
        return self._stream

    def __str__(self) -> str:
        return f"MixedRows of {self._stream}"


class _KeptRows:
    """The rows of a child that are not left out, by their number among these."""

    def __init__(self, child: MixChild) -> None:
        self._child = child
        self._dataset: Any = child.dataset
        self._lock = Lock()
        self._epoch = 0
        self._kept: list[int] = []
        self._next = 0
        self._last: tuple[int, Any] | None = None

    def has(self, num_rows: int, epoch: int) -> bool:
        """Whether it has so many in an epoch."""
        with self._lock:
            return self._looked_for(num_rows, epoch)

    def row(self, number: int, epoch: int) -> Any:
        """The row of that number in an epoch, which it has."""
        with self._lock:
            self._looked_for(number + 1, epoch)  # again, where another thread asked for another epoch's since
            if self._last is not None and self._last[0] == number:
                return self._last[1]
            index = self._begin + self._kept[number]
        return self._dataset[index]

    def _looked_for(self, num_rows: int, epoch: int) -> bool:
        """Whether it has so many, with the lock held."""
        self._go_to(epoch)
        while len(self._kept) < num_rows:
            if not self._child.is_endless and self._next >= len(self._dataset):
                return False
            row = self._dataset[self._begin + self._next]
            if row is not None:
                self._kept.append(self._next)
                self._last = (len(self._kept) - 1, row)
            self._next += 1
        return True

    @property
    def _begin(self) -> int:
        return 0 if self._child.is_endless else self._epoch * len(self._dataset)

    def _go_to(self, epoch: int) -> None:
        if epoch != self._epoch:
            self._epoch, self._kept, self._next, self._last = epoch, [], 0, None
        if self._next and not self._kept and not self._child.is_endless and self._next >= len(self._dataset):
            raise none_left(self._child.name, len(self._dataset), self._dataset)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = Lock()
