"""Rows in one endless order, epoch after epoch, and which of them each rank has next."""

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

import numpy as np

from torchpipe.loading.balance import laid_out, num_micro_batches

ROW_BITS = 40
"""A row's number is ``epoch << 40 | its number in the epoch``: an epoch may have a trillion rows."""

MOST_EPOCHS = 1 << 62 - ROW_BITS
"""So many epochs have numbers for their rows."""

_MOST_EPOCHS_WITHOUT_ROWS = 16


class Cursor(NamedTuple):
    """A place between two rows: so many of the epoch's rows lie before it."""

    epoch: int
    row: int


class _Epoch(NamedTuple):
    """An epoch, and where its rows begin and end among those from the start on."""

    epoch: int
    begin: int
    end: int


class RowSteps:
    """Steps of ``global_batch_size`` rows from a place on, which go on over the ends of epochs.

    No row is left out or given twice where an epoch ends, whatever the number of ranks. To a
    :class:`~torchpipe.loading.StepLoader` all of it is one epoch, whose last step may have fewer rows.

    Args:
        num_rows: gives the rows of an epoch; asked once for each.
        start: where to begin.
        num_epochs: how many there are, counted from the very first; None: no end but where no epoch has a row any more.
        global_batch_size: rows of a step, over all ranks.
        costs: gives what rows of an epoch cost, by the epoch and their numbers in it: whole numbers, int64 [rows]. The
            rows of a step then go where they even the ranks out (``within_step`` of
            :data:`~torchpipe.loading.balance.Balance`); which rows a step has stays as it is. None: they go in order.

    >>> steps = RowSteps(lambda epoch: 3, start=Cursor(0, 2), num_epochs=2, global_batch_size=2)
    >>> [[divmod(int(row), 1 << ROW_BITS) for row in steps.packs(0, step)] for step in range(2)]
    [[(0, 2), (1, 0)], [(1, 1), (1, 2)]]
    >>> steps.has(0, 2), steps.cursor(1)
    (False, Cursor(epoch=1, row=1))
    """

    seed = 0
    is_complete = True

    def __init__(
        self,
        num_rows: Callable[[int], int],
        *,
        start: Cursor,
        num_epochs: int | None,
        global_batch_size: int,
        costs: Callable[[int, np.ndarray], np.ndarray] | None = None,
    ) -> None:
        self.global_batch_size = global_batch_size
        self._num_rows = num_rows
        self._costs = costs
        self._num_epochs = num_epochs
        # The epochs that were looked at: the number of each, and where its first row stands among the rows from
        # ``start`` on. The first one's may lie before 0. ``_end`` is where the last one's rows end, once it was asked.
        self._epochs: list[int] = [start.epoch]
        self._begins: list[int] = [-start.row]
        self._end: int | None = None
        self._latest = _Epoch(start.epoch, 0, 0)  # what was found last, which is mostly what is asked for next
        self._lock = Lock()  # the thread that reads ahead asks too

    @property
    def num_steps(self) -> int | None:
        """None: they are not counted beforehand."""
        return None

    def __len__(self) -> int:
        raise TypeError("An endless order of rows has no length.")

    def steps_before(self, epoch: int) -> int:
        """None: all steps are of epoch 0."""
        return 0

    def is_ready(self, epoch: int, step: int) -> bool:
        """True: every step is known at once."""
        return True

    def wait(self, epoch: int, step: int, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """True, at once."""
        return True

    def has(self, epoch: int, step: int) -> bool:
        """Whether a row is left for the step. All steps are of epoch 0."""
        return epoch == 0 and self._find(step * self.global_batch_size) is not None

    def packs(self, epoch: int, step: int) -> np.ndarray:
        """The rows of a step, int64; see ``ROW_BITS``."""
        first = step * self.global_batch_size
        stop, runs = first + self.global_batch_size, list[np.ndarray]()
        while first < stop and (found := self._epoch_at(first)) is not None:
            last = min(stop, found.end)
            begin = found.epoch << ROW_BITS | first - found.begin
            runs.append(np.arange(begin, begin + last - first))
            first = last
        return runs[0] if len(runs) == 1 else np.concatenate([np.zeros(0, np.int64), *runs])

    def layout(self, epoch: int, step: int, *, world_size: int, batch_size: int) -> np.ndarray:
        """Which rows each rank trains on, int64 [world_size, accumulation, batch_size]; -1 is a row of padding."""
        packs, size = self.packs(epoch, step), self.global_batch_size
        rows_a_rank = batch_size * num_micro_batches(size, world_size=world_size, batch_size=batch_size)
        has_choice = world_size > 1 and rows_a_rank > 1
        return laid_out(
            packs,
            self._costs_of(packs) if has_choice else None,
            balance="within_step",
            global_batch_size=size,
            world_size=world_size,
            batch_size=batch_size,
        )

    def cursor(self, num_steps: int) -> Cursor:
        """The place behind so many steps. Behind the last row it is the begin of the next epoch."""
        found = self._find(num_steps * self.global_batch_size)
        if found is not None:
            return found
        if self._num_epochs is not None:
            return Cursor(self._num_epochs, 0)
        with self._lock:
            return Cursor(self._epochs[self._begins.index(self._found_end())], 0)  # the first of those without a row

    def _costs_of(self, packs: np.ndarray) -> np.ndarray | None:
        if self._costs is None:
            return None
        epochs, rows = np.divmod(packs, 1 << ROW_BITS)
        costs = np.empty(len(packs), np.int64)
        for epoch in np.unique(epochs).tolist():
            costs[epochs == epoch] = self._costs(epoch, rows[epochs == epoch])
        return costs

    def _find(self, place: int) -> Cursor | None:
        """The row at a place from the start on; None behind the last."""
        found = self._epoch_at(place)
        return None if found is None else Cursor(found.epoch, place - found.begin)

    def _epoch_at(self, place: int) -> "_Epoch | None":
        """The epoch that a place is in; None behind the last row of all.

        A run without an end has one where mixes have given all that their ``max_epochs`` allow.
        """
        latest = self._latest
        if not latest.begin <= place < latest.end:
            latest = self._looked_up(place)
            self._latest = latest or self._latest
        return latest

    def _looked_up(self, place: int) -> "_Epoch | None":
        with self._lock:
            if self._num_epochs is not None and self._epochs[0] >= self._num_epochs:
                return None  # the start is the end
            while (end := self._found_end()) <= place:
                epoch = self._epochs[-1] + 1
                if self._num_epochs is not None and epoch >= self._num_epochs:
                    return None
                if len(self._epochs) > _MOST_EPOCHS_WITHOUT_ROWS and end == self._begins[-_MOST_EPOCHS_WITHOUT_ROWS]:
                    return None
                self._epochs.append(epoch)
                self._begins.append(end)
                self._end = None
            number = len(self._begins) - 1
            while self._begins[number] > place:
                end = self._begins[number]
                number -= 1
            return _Epoch(self._epochs[number], self._begins[number], end)

    def _found_end(self) -> int:
        if self._end is None:
            self._end = self._begins[-1] + self._num_rows(self._epochs[-1])
        return self._end
