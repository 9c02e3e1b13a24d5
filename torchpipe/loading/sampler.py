"""One rank's share of the global steps, as a batch sampler for a torch ``DataLoader``."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

from torchpipe.errors import ConfigError
from torchpipe.loading.balance import num_micro_batches
from torchpipe.loading.epoch_steps import EpochSteps
from torchpipe.loading.shard_steps import ShardSteps
from torchpipe.loading.state import position_of, position_state
from torchpipe.loading.steps import GlobalSteps


class StepSampler:
    """Iterates the numbers of the packs of each micro-batch of one rank; -1 is a padding pack.

    One pass is an epoch, or what is left of it; the next pass is the next epoch. It is given to a ``DataLoader`` as
    ``batch_sampler``, with the data set in :class:`~torchpipe.loading.WithPadding`. Every ``accumulation`` batches are
    one step.

    Args:
        steps: the global steps.
        batch_size: packs of a micro-batch.
        rank, world_size: this process and how many train together.
        waits: False ends a pass before a step that isn't known yet (see :class:`~torchpipe.loading.ShardSteps`), and
            the next pass goes on with it; True waits for it.

    Raises:
        ConfigError: a number is not possible.

    >>> sampler = StepSampler(GlobalSteps(num_packs=7, global_batch_size=4, shuffle=False), batch_size=2)
    >>> list(sampler)
    [[0, 1], [2, 3], [4, 5], [6, -1]]
    >>> state = sampler.state_dict(num_batches=3)  # the second step is half done, so it will be done anew
    >>> sampler.load_state_dict(state)
    >>> list(sampler)
    [[4, 5], [6, -1]]
    """

    def __init__(
        self,
        steps: GlobalSteps | ShardSteps | EpochSteps,
        *,
        batch_size: int,
        rank: int = 0,
        world_size: int = 1,
        waits: bool = True,
    ) -> None:
        for name, value in (("batch_size", batch_size), ("world_size", world_size)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigError(f"{name} is {value!r}. Give a whole number, 1 or more.")
        if not 0 <= rank < world_size:
            raise ConfigError(f"rank is {rank!r}. With {world_size} processes it is from 0 to {world_size - 1}.")
        self.steps = steps
        self.batch_size, self.rank, self.world_size = batch_size, rank, world_size
        self._waits = waits
        self._start = (0, 0)  # epoch and step at which the pass that was begun last started
        self._next = (0, 0)  # where the next one will

    @property
    def accumulation(self) -> int:
        """The micro-batches of each step, the same on every rank."""
        return num_micro_batches(self.steps.global_batch_size, world_size=self.world_size, batch_size=self.batch_size)

    @property
    def start(self) -> tuple[int, int]:
        """Epoch and step (of the epoch, from 0 on) at which the pass that was begun last started."""
        return self._start

    def __len__(self) -> int:
        """The batches of the next pass."""
        return (len(self.steps) - self._next[1]) * self.accumulation

    def __iter__(self) -> Iterator[list[int]]:
        self._start = self._next
        return self._batches(*self._start)

    def _batches(self, epoch: int, first: int) -> Iterator[list[int]]:
        for step in count(first):
            if not self._waits and not self.steps.is_ready(epoch, step):
                self._next = (epoch, step)
                return
            if not self.steps.has(epoch, step):
                break
            layout = self.steps.layout(epoch, step, world_size=self.world_size, batch_size=self.batch_size)
            yield from layout[self.rank].tolist()
        self._next = (epoch + 1, 0)

    def state_dict(self, *, num_batches: int) -> dict[str, Any]:
        """The state after ``num_batches`` batches of the present pass, see
        :func:`~torchpipe.loading.state.position_state`.

        The caller counts the batches that it has trained on, for a ``DataLoader`` with workers has taken more from here
        than it has given out. Those of a step that is not complete don't count: it will be done anew.
        """
        epoch, first = self._start
        return position_state(self.steps, epoch=epoch, step=first + num_batches // self.accumulation)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next pass start where the state says.

        Raises:
            CheckpointError: the state is of other steps, see :func:`~torchpipe.loading.state.position_of`.
        """
        self.seek(*position_of(state, self.steps))

    def seek(self, epoch: int, step: int) -> None:
        """Lets the next pass start with a step."""
        self._start = self._next = (epoch, step)
