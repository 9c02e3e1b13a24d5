"""Samples put as a whole into rows that have room: the streams of FirstFit- and MMSamplePackingConfig."""

from collections import deque
from dataclasses import dataclass
from typing import Any

from torchpipe.data.packing.bounded_fit import BestFit, BoundedFit, FirstFit
from torchpipe.data.packing.pack_plan import Span
from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline.by_grain.in_vain import InVain
from torchpipe.pipeline.by_grain.ledger import NodeLedger
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.packed_rows import MEDIA, Documents, packed_row
from torchpipe.pipeline.by_grain.reading import as_stream
from torchpipe.pipeline.by_grain.sample_fit import SampleFit
from torchpipe.pipeline.node_label import node_label
from torchpipe.pipeline.packing import FirstFitPackingConfig, MMSamplePackingConfig
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy

_ROWS_A_GROUP = 8
"""A group has so many rows for each of a config's bins. All are closed where it ends, and what is restored begins
with a group: longer groups lose less where they end, and take longer to restore."""


def built_fit_rows(
    config: FirstFitPackingConfig | MMSamplePackingConfig, context: DatasetBuildContext, policy: DatasetIterationPolicy
) -> "FitRows":
    """The data set of a packing config; see there."""
    dataset = as_stream(config.dataset.build(context=context, dataset_iteration_policy=policy), context)
    ledger = NodeLedger(node_label(config))
    if isinstance(config, FirstFitPackingConfig):
        fit = SampleFit(context=context, overflow=config.overflow, max_media=None, ledger=ledger)
        planner = FirstFit if config.strategy == "first_fit" else BestFit
        bins = config.num_packing_bins
        return FitRows(
            dataset,
            fit,
            planner=planner,
            num_open=1 if config.strategy == "next_fit" else bins,
            rows_a_group=bins * _ROWS_A_GROUP,
        )
    padding_id = getattr(context.tokenizer, "pad_id", None)
    if isinstance(padding_id, bool) or not isinstance(padding_id, int):
        raise ConfigError(
            f"MMSamplePackingConfig fills rows with the tokenizer's pad_id, and that of a "
            f"{type(context.tokenizer).__qualname__} is {padding_id!r}. Give the tokenizer one."
        )
    fit = SampleFit(context=context, overflow="drop", max_media=config.max_images_per_row, ledger=ledger)
    bins = config.num_packing_bins
    return FitRows(
        dataset,
        fit,
        planner=BestFit,
        num_open=bins,
        rows_a_group=bins * _ROWS_A_GROUP,
        media_padding_id=padding_id,
    )


class FitRows(grain.IterDataset[Any]):
    """Rows of ``num_tokens_per_batch`` tokens, given as soon as they are full or make room for another.

    Args:
        parent: the samples.
        fit: what of a sample is packed.
        planner: which of the open rows takes a sample.
        num_open: how many rows are open at a time.
        rows_a_group: so many rows after the begin of a group it ends, with the open ones.
        media_padding_id: fills rows that are dicts with media; None: rows are :class:`TextSequence`, filled with 0.
    """

    def __init__(
        self,
        parent: grain.IterDataset[Any],
        fit: SampleFit,
        *,
        planner: type[BoundedFit],
        num_open: int,
        rows_a_group: int,
        media_padding_id: int | None = None,
    ) -> None:
        super().__init__(parent)
        self._fit = fit
        self._planner = planner
        self._num_open = num_open
        self.rows_a_group = rows_a_group
        self._media_padding_id = media_padding_id

    @property
    def ledger(self) -> NodeLedger:
        """What became of the samples."""
        return self._fit.ledger

    def new_planner(self) -> BoundedFit:
        """A planner without an open row."""
        cap, max_media = self._fit.context.max_num_documents, self._fit.max_media
        return self._planner(
            self._fit.context.num_tokens_per_batch,
            max_open_packs=self._num_open,
            max_costs=[most for most in (cap, max_media) if most is not None],
            closing=() if cap is None else (0,),
        )

    def costs(self, unit: Documents) -> tuple[int, ...]:
        """What a unit needs of what a planner counts beside tokens."""
        needs = ((self._fit.context.max_num_documents, len(unit.lengths)), (self._fit.max_media, unit.num_media))
        return tuple(need for most, need in needs if most is not None)

    def row(self, parts: list[Documents]) -> Any:
        """The row that these samples make."""
        context = self._fit.context
        size = {"num_tokens": context.num_tokens_per_batch, "max_context_length": context.max_context_length}
        if self._media_padding_id is None:
            return packed_row(parts, **size)
        row = packed_row(parts, **size, padding_id=self._media_padding_id)
        media = {name: [one for part in parts for one in part.media.get(name, ())] for name in MEDIA}
        return {
            "input_ids": row.input_ids,
            "labels": row.labels,
            "positions": row.positions,
            "padding_mask": row.padding_mask,
            **media,
        }

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return _FitIterator(self, self._parent.__iter__(), self._fit, InVain(self._parent))

    def __str__(self) -> str:
        return f"FitRows({self.ledger.name})"


@dataclass(kw_only=True)
class _Group:
    """Rows that are planned from nothing, so that where they begin is all that a state need say.

    Attributes:
        before: the state in front of its first sample.
        planner: which says into which row a sample goes.
        first_sample: the number of its first sample in the stream.
        num_closed: rows that were closed.
        num_given: rows that were given.
        is_over: whether it takes no more samples.
    """

    before: dict[str, Any]
    planner: BoundedFit
    first_sample: int
    num_closed: int = 0
    num_given: int = 0
    is_over: bool = False


class _FitIterator(grain.DatasetIterator[Any]):
    """Its state is that in front of the group, and how many of the group's rows were given: they are made again."""

    def __init__(self, rows: FitRows, parent: grain.DatasetIterator[Any], fit: SampleFit, in_vain: InVain) -> None:
        super().__init__(parent)
        self._rows = rows
        self._fit = fit
        self._in_vain = in_vain
        self._group = self._new_group(self._parent.get_state(), 0)
        self._num_samples = 0
        self._open: dict[int, Documents] = {}  # what stands in rows that were not given yet, by its number
        self._num_units = 0
        self._ready: deque[list[Span]] = deque()
        self._has_ended = False
        self._num_to_skip = 0

    def __next__(self) -> Any:
        self._assert_not_closed()
        while True:
            parts = self._next_parts()
            self._group.num_given += 1
            used = sum(map(len, parts))
            self._fit.ledger.gave(tokens=used, padding=self._fit.context.num_tokens_per_batch - used)
            if not self._num_to_skip:
                return self._rows.row(parts)
            self._num_to_skip -= 1

    def _next_parts(self) -> list[Documents]:
        """What the next row holds."""
        while not self._ready:
            if self._has_ended:
                raise StopIteration
            if self._group.is_over:
                self._group = self._new_group(self._parent.get_state(), self._num_samples)
            self._read()
            if self._has_ended or self._group.num_closed >= self._rows.rows_a_group:
                self._group.is_over = True
                self._ready.extend(self._group.planner.flush())
        return [self._open.pop(span.sample) for span in self._ready.popleft()]

    def _read(self) -> None:
        """Takes a sample, and the rows that it closes."""
        try:
            sample = next(self._parent)
        except StopIteration:
            self._has_ended = True
            return
        self._num_samples += 1
        units = self._fit.units(sample, self._num_samples - 1)
        if units:
            self._in_vain.reset()
        elif self._in_vain.one_more():
            raise DataError(
                f"Each of the last {self._in_vain.count:,} samples was left out. {self._fit.ledger}. Raise "
                "max_context_length and what else a row may hold, or let overflow cut them."
            )
        for unit in units:
            self._open[self._num_units] = unit
            closed = self._group.planner.push(self._num_units, len(unit), self._rows.costs(unit))
            self._num_units += 1
            self._group.num_closed += len(closed)
            self._ready.extend(closed)

    def get_state(self) -> dict[str, Any]:
        group = self._group
        num_given = group.num_given + self._num_to_skip  # rows that are still to be made again were given too
        return {"parent": group.before, "num_given": num_given, "first_sample": group.first_sample}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["parent"])
        if held := sum(map(len, self._open.values())):
            self._fit.ledger.left_out("set_back", rows=0, tokens=held)
        self._num_samples = state["first_sample"]
        self._group = self._new_group(state["parent"], self._num_samples)
        self._open, self._num_units, self._has_ended = {}, 0, False
        self._ready.clear()
        self._num_to_skip = state["num_given"]

    def _new_group(self, before: dict[str, Any], first_sample: int) -> _Group:
        return _Group(before=before, planner=self._rows.new_planner(), first_sample=first_sample)

    def __str__(self) -> str:
        return f"FitIterator({self._fit.ledger.name})"
