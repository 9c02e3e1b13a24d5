"""The rows of a planned graph, read from its stores by number."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, groupby
from operator import itemgetter

import numpy as np
from torch.utils.data import Dataset

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.packing import PackPlan
from torchpipe.data.packing.assembly import SampleTokens
from torchpipe.data.packing.ramps import ramps
from torchpipe.data.sequences import document_positions
from torchpipe.pipeline.planned.row_steps import ROW_BITS
from torchpipe.pipeline.sequences import FreshSequence

_MOST_AT_ONCE = 16
"""Rows that are read together: enough that what a call of numpy costs hardly counts beside the rows."""
_TOKENS_AT_ONCE = 1 << 15
"""Of rows that are read together: few enough that what is written stays in the processor's cache, and that a batch that
is kept for long keeps little else."""


class PlannedRows(Dataset[FreshSequence]):
    """Rows by the numbers that :class:`~torchpipe.pipeline.planned.row_steps.RowSteps` gives.

    Args:
        plan_of: gives the rows of an epoch, as spans.
        samples: where their tokens are.
        max_context_length: positions count up to it, and begin again.
        longest_row: tokens that a row has at most.

    Attributes:
        can_be_read_ahead: True, see :func:`~torchpipe.data.protocols.can_be_read_ahead`.
        num_read_at_once: rows that a loader should ask for together.
    """

    can_be_read_ahead = True

    def __init__(
        self,
        plan_of: Callable[[int], PackPlan],
        samples: SampleTokens,
        *,
        max_context_length: int,
        longest_row: int,
    ) -> None:
        self._plan_of = plan_of
        self._samples = samples
        self._max_context_length = max_context_length
        self.num_read_at_once = min(_MOST_AT_ONCE, max(1, _TOKENS_AT_ONCE // longest_row))

    def __len__(self) -> int:
        """Rows of the first epoch."""
        return len(self._plan_of(0))

    def __getitem__(self, number: int) -> FreshSequence:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[FreshSequence]:
        """Several rows, read at once. They are parts of a few arrays, each its own part."""
        found: list[FreshSequence] = []
        places = (divmod(int(number), 1 << ROW_BITS) for number in numbers)
        for epoch, of_epoch in groupby(places, key=itemgetter(0)):
            found += self._rows(self._plan_of(epoch), [row for _, row in of_epoch])
        return found

    def padding_pack(self) -> None:
        """What stands for a row where there is none; a collator is not given it."""

    def _rows(self, plan: PackPlan, rows: Sequence[int]) -> Iterator[FreshSequence]:
        spans = [slice(*plan.pack_offsets[row : row + 2].tolist()) for row in rows]
        sample, start, stop = (
            np.concatenate([column[own] for own in spans]) for column in (plan.sample, plan.start, plan.stop)
        )
        lengths = stop - start
        last_spans = list(accumulate(own.stop - own.start for own in spans))
        ends = np.cumsum(lengths)[[number - 1 for number in last_spans]].tolist()
        input_ids, labels = np.empty(ends[-1], np.int64), np.empty(ends[-1], np.int64)
        self._samples.gather(sample, start, stop, tokens=input_ids, labels=labels)
        positions = ramps(np.zeros_like(lengths), lengths)
        if lengths.max(initial=0) > self._max_context_length:  # packing leaves none; a row that isn't packed may be one
            positions %= self._max_context_length
        begin = 0
        for row, end in zip(rows, ends, strict=True):
            own = slice(begin, end)
            yield self._filled(input_ids[own], labels[own], positions[own], size=int(plan.pack_lens[row]))
            begin = end

    def _filled(self, input_ids: np.ndarray, labels: np.ndarray, positions: np.ndarray, *, size: int) -> FreshSequence:
        """The row of these tokens, filled up to its size."""
        used, rest = len(input_ids), size - len(input_ids)
        if not rest:
            return FreshSequence(input_ids=input_ids, labels=labels, positions=positions)
        return FreshSequence(
            input_ids=np.concatenate([input_ids, np.zeros(rest, np.int64)]),
            labels=np.concatenate([labels, np.full(rest, IGNORE_INDEX)]),
            positions=np.concatenate([positions, document_positions(rest, self._max_context_length)]),
            padding_mask=np.arange(size) >= used,
        )
