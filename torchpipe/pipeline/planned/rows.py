"""The rows of a planned graph, read from its stores by number."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.packing import PackPlan
from torchpipe.data.packing.assembly import SampleTokens
from torchpipe.data.packing.ramps import ramps
from torchpipe.data.sequences import document_positions
from torchpipe.pipeline.planned.row_steps import ROW_BITS
from torchpipe.pipeline.sequences import FreshSequence


class PlannedRows(Dataset[FreshSequence]):
    """Rows by the numbers that :class:`~torchpipe.pipeline.planned.row_steps.RowSteps` gives.

    Args:
        plan_of: gives the rows of an epoch, as spans.
        samples: where their tokens are.
        max_context_length: positions count up to it, and begin again.
    """

    can_be_read_ahead = True

    def __init__(self, plan_of: Callable[[int], PackPlan], samples: SampleTokens, *, max_context_length: int) -> None:
        self._plan_of = plan_of
        self._samples = samples
        self._max_context_length = max_context_length

    def __len__(self) -> int:
        """Rows of the first epoch."""
        return len(self._plan_of(0))

    def __getitem__(self, number: int) -> FreshSequence:
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[FreshSequence]:
        """Several rows, read at once."""
        return [self._row(*divmod(int(number), 1 << ROW_BITS)) for number in numbers]

    def padding_pack(self) -> None:
        """What stands for a row where there is none; a collator is not given it."""

    def _row(self, epoch: int, row: int) -> FreshSequence:
        plan = self._plan_of(epoch)
        sample, start, stop = self._spans(plan, row)
        lengths = stop - start
        used, size = int(lengths.sum()), int(plan.pack_lens[row])
        arrays: dict[str, Any] = {name: np.empty(size, np.int64) for name in ("input_ids", "labels", "positions")}
        self._samples.gather(sample, start, stop, tokens=arrays["input_ids"][:used], labels=arrays["labels"][:used])
        # Packing leaves no longer document; a row that is not packed may be one, and is cut as a collator cuts it.
        np.remainder(ramps(np.zeros_like(lengths), lengths), self._max_context_length, out=arrays["positions"][:used])
        if size == used:
            return FreshSequence(**arrays)
        arrays["input_ids"][used:] = 0
        arrays["labels"][used:] = IGNORE_INDEX
        arrays["positions"][used:] = document_positions(size - used, self._max_context_length)
        padding_mask = np.zeros(size, np.bool_)
        padding_mask[used:] = True
        return FreshSequence(**arrays, padding_mask=padding_mask)

    @staticmethod
    def _spans(plan: PackPlan, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        spans = slice(int(plan.pack_offsets[row]), int(plan.pack_offsets[row + 1]))
        return plan.sample[spans], plan.start[spans], plan.stop[spans]
