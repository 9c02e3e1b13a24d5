"""The steps of epochs that have rows of their own each, as a mix has that goes on where it ended."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate

import numpy as np

from torchpipe.loading.balance import PADDING
from torchpipe.loading.steps import GlobalSteps


class EpochSteps:
    """Steps of epochs one after the other, each of which has packs that no other has.

    Args:
        epochs: the steps of each epoch, over packs numbered from 0; of one size a step, and one seed.

    >>> epochs = [GlobalSteps(num_packs=number, global_batch_size=2, shuffle=False) for number in (3, 2)]
    >>> steps = EpochSteps(epochs)
    >>> [steps.packs(epoch, step).tolist() for epoch, step in ((0, 0), (0, 1), (1, 0))], steps.steps_before(2)
    ([[0, 1], [2], [3, 4]], 3)
    """

    is_complete = True

    def __init__(self, epochs: Sequence[GlobalSteps]) -> None:
        self.epochs = tuple(epochs)
        self.global_batch_size, self.seed = self.epochs[0].global_batch_size, self.epochs[0].seed
        self._first_packs = [0, *accumulate(one.num_packs for one in self.epochs)]
        self._first_steps = [0, *accumulate(map(len, self.epochs))]

    @property
    def num_packs(self) -> int:
        """Of all epochs."""
        return self._first_packs[-1]

    @property
    def num_steps(self) -> int:
        """The steps of the first epoch; the others may have some more or fewer."""
        return len(self.epochs[0])

    def __len__(self) -> int:
        """The steps of the first epoch."""
        return self.num_steps

    def steps_before(self, epoch: int) -> int:
        """The steps of all earlier epochs; of those beyond the last one there are none."""
        return self._first_steps[min(epoch, len(self.epochs))]

    def epoch_of(self, pack: int) -> int:
        """The epoch that a pack is of."""
        return bisect_right(self._first_packs, pack) - 1

    def is_ready(self, epoch: int, step: int) -> bool:
        """True: all steps are known."""
        return True

    def wait(self, epoch: int, step: int, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """True, at once."""
        return True

    def read_before(self, epoch: int, step: int) -> dict[str, str | int]:
        """Nothing that :meth:`identity` does not say."""
        return {}

    def has(self, epoch: int, step: int) -> bool:
        """Whether the epoch has a step of that number."""
        return epoch < len(self.epochs) and self.epochs[epoch].has(epoch, step)

    def packs(self, epoch: int, step: int) -> np.ndarray:
        """The packs of a step, int64; see :meth:`GlobalSteps.packs`."""
        return self.epochs[epoch].packs(epoch, step) + self._first_packs[epoch]

    def layout(self, epoch: int, step: int, *, world_size: int, batch_size: int) -> np.ndarray:
        """Which packs each rank trains on; see :meth:`GlobalSteps.layout`."""
        layout = self.epochs[epoch].layout(epoch, step, world_size=world_size, batch_size=batch_size)
        return np.where(layout == PADDING, PADDING, layout + self._first_packs[epoch])

    def identity(self) -> dict[str, str | int | bool]:
        """What decides the steps. More epochs than before are no other run."""
        return self.epochs[0].identity()
