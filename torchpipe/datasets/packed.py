"""Samples packed into rows of one length."""

from array import array
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from torchpipe._progress import track
from torchpipe._suggest import listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.loss_weights import weights_or_ones
from torchpipe.data.overflow import Fitted
from torchpipe.data.packing.assemble import assemble
from torchpipe.data.packing.plan import PackPlan, PackPlanner, Span, pack_planner
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.datasets.first_packs import asked_for
from torchpipe.datasets.row_number import row_number
from torchpipe.errors import ColumnError, ConfigError, DataError, located


class PackedDataset(Dataset[dict[str, torch.Tensor]]):
    """Rows of ``max_seq_len`` tokens, filled with samples in order (next-fit).

    All samples are read once, at construction, and held as 8 bytes a token; packs are assembled when asked for.

    Args:
        ds: any object with ``__len__`` and ``__getitem__`` that gives ``tokens`` and ``labels`` of equal length, and as
            many ``loss_weights``, where it has them. One with ``fitted`` (:class:`~torchpipe.datasets.SFTDataset`) may
            give several samples a row, or none.
        max_seq_len: tokens of a row, s.
        padding_idx: the token that fills a row.
        max_packs: stop after so many rows; samples beyond are left out and counted.
        split_across_pack: True cuts rows exactly at ``max_seq_len``, so that a sample may go on in the next row; False
            starts a new row where a sample does not fit.

    Each item holds ``tokens``, ``labels`` (-100 = not trained), ``input_pos``: int64 [s], and ``seq_lens``: int64
    [documents], which sums to s; padding is one more document, the last. Where any sample has ``loss_weights``, every
    item has them: float32 [s], 0 in the padding.

    Attributes:
        name: what errors call the samples.
        counts: what became of the samples.
        samples: what was packed, to look at it again (:mod:`torchpipe.audit`); None for a list, whose tokens need not
            be held twice, and in a copy for another process.

    Raises:
        DataError: a sample does not fit a row, or has no equal number of tokens and labels.
        ConfigError: max_seq_len or max_packs is not possible.
    """

    def __init__(
        self,
        ds: RandomAccessDataSource[Any],
        *,
        max_seq_len: int,
        padding_idx: int = 0,
        max_packs: int | None = None,
        split_across_pack: bool = False,
    ) -> None:
        if not isinstance(ds, RandomAccessDataSource):
            raise ConfigError(
                f"PackedDataset packs objects with __len__ and __getitem__, and got a {type(ds).__name__}."
            )
        if isinstance(max_seq_len, bool) or not isinstance(max_seq_len, int):
            raise ConfigError(f"max_seq_len is {max_seq_len!r}. Give a whole number of tokens.")
        if max_packs is not None and max_packs < 0:
            raise ConfigError(f"max_packs is {max_packs}. Give a whole number of rows, or None for all.")
        self.max_seq_len = max_seq_len
        self.padding_idx = padding_idx
        self.counts = SampleCounts(filtered_rows=getattr(ds, "num_filtered", 0))
        self.name = str(getattr(ds, "name", type(ds).__name__))
        self.samples = None if isinstance(ds, list | tuple) else ds
        self._tokens = array("i")
        self._labels = array("i")
        self._weights: array[float] | None = None  # from the first sample on that has weights
        self._offsets = array("q", [0])
        self._rows = array("q")  # of each sample
        self._plan = self._read_and_plan(ds, max_packs, "concat_then_split" if split_across_pack else "next_fit")

    def _read_and_plan(self, ds: RandomAccessDataSource[Any], max_packs: int | None, strategy: Any) -> PackPlan:
        planner = pack_planner(strategy, self.max_seq_len)
        asked = asked_for()
        max_packs = max_packs if asked is None else asked.at_most(max_packs)
        packs: list[list[Span]] = []
        for index in track(range(len(ds)), "Packing"):
            if max_packs is not None and len(packs) >= max_packs:
                break
            fitted = _fitted(ds, index)
            for sample in fitted.samples:
                packs += self._keep(sample, index, planner)
            self.counts.add_row(fitted)
        packs += planner.flush()
        if max_packs is None or len(packs) <= max_packs:
            return PackPlan.from_packs(packs)
        plan = PackPlan.from_packs(packs[:max_packs])
        self._count_what_is_left(plan, len(ds))
        if asked is not None:
            asked.unfinished.append(self)
        return plan

    def _keep(self, sample: Any, row: int, planner: PackPlanner) -> list[list[Span]]:
        """Keeps one sample; returns the packs that it closed."""
        number = len(self._rows)
        tokens, labels = (_as_ids(sample, key, number) for key in ("tokens", "labels"))
        if len(tokens) != len(labels):
            raise DataError(
                f"Sample {number} has {len(tokens)} tokens and {len(labels)} labels; they have to be as many."
            )
        try:
            closed = planner.push(number, len(tokens))
        except DataError as error:
            raise located(error, self.name) from None
        self._keep_weights(sample.get("loss_weights"), labels, number)
        self._tokens.extend(tokens)
        self._labels.extend(labels)
        self._offsets.append(len(self._tokens))
        self._rows.append(row)
        self.counts.add(sample)
        return closed

    def row_of(self, sample: int) -> tuple[int, int]:
        """The row that a sample (the first number of a span) was made of, and which of the row's samples it is."""
        row = self._rows[sample]
        return row, sample - bisect_left(self._rows, row)

    def _keep_weights(self, weights: Any, labels: "array[int]", index: int) -> None:
        """Keeps a sample's loss weights. Samples without have those that their labels stand for."""
        if weights is None and self._weights is None:
            return
        if weights is not None and len(weights) != len(labels):
            raise DataError(
                f"Sample {index} has {len(labels)} labels and {len(weights)} loss_weights; they have to be as many."
            )
        if self._weights is None:
            self._weights = array("f", weights_or_ones(self._labels, None))
        self._weights.extend(weights_or_ones(labels, weights))

    def _count_what_is_left(self, plan: PackPlan, num_rows: int) -> None:
        """Counts anew what the kept packs hold, of which the last sample may be a part."""
        spans = list(zip(plan.sample.tolist(), plan.start.tolist(), plan.stop.tolist(), strict=True))
        self.counts.rows = len({sample for sample, _, _ in spans})
        num_left_out = self.counts.too_long_rows + self.counts.emptied_rows
        self.counts.dropped_rows = num_rows - num_left_out - len({self._rows[sample] for sample, _, _ in spans})
        self.counts.tokens = sum(stop - start for _, start, stop in spans)
        labels = (self._read(Span(*span))[1] for span in spans)
        self.counts.trained_tokens = sum(int((part != IGNORE_INDEX).sum()) for part in labels)

    def __len__(self) -> int:
        return len(self._plan)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return assemble(self.spans(index), self._read, capacity=self.max_seq_len, padding_idx=self.padding_idx)

    def spans(self, index: int) -> list[Span]:
        """Which samples a pack holds, in order, and which of their tokens."""
        index = row_number(index)
        if not -len(self) <= index < len(self):
            raise IndexError(f"Pack {index} was asked for, and there are {len(self)} packs.")
        return self._plan.spans(index % len(self))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "samples": None}

    def _read(self, span: Span) -> tuple[np.ndarray, ...]:
        first = self._offsets[span.sample]
        rows = slice(first + span.start, first + span.stop)
        ids = np.frombuffer(self._tokens, dtype=np.int32)[rows], np.frombuffer(self._labels, dtype=np.int32)[rows]
        return ids if self._weights is None else (*ids, np.frombuffer(self._weights, dtype=np.float32)[rows])


def _fitted(ds: Any, index: int) -> Fitted:
    """The samples of a row: as many as the data set makes of it, or the one that it gives."""
    fitted: Any = getattr(ds, "fitted", None)
    return Fitted(samples=[ds[index]], num_tokens=0) if fitted is None else fitted(index)


def _as_ids(sample: Any, key: str, index: int) -> "array[int]":
    """The values as 32-bit integers."""
    if not isinstance(sample, Mapping) or key not in sample:
        held = listed(sample) if isinstance(sample, Mapping) else f"a {type(sample).__name__}"
        raise ColumnError(f"Sample {index} has no {key!r}; it has {held}. A packed sample needs tokens and labels.")
    values = sample[key]
    try:
        return array("i", values.tolist() if hasattr(values, "tolist") else values)
    except (TypeError, OverflowError) as error:
        raise DataError(f"Sample {index}: its {key} are not 32-bit integers ({error}).") from None
