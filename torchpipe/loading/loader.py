"""The batches of one rank, step by step: the same ones wherever the run was stopped, on any number of ranks."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from torchpipe._seeds import derive
from torchpipe.errors import ConfigError
from torchpipe.loading.balance import PADDING
from torchpipe.loading.sampler import StepSampler
from torchpipe.loading.state import position_of, position_state
from torchpipe.loading.steps import GlobalSteps
from torchpipe.loading.with_padding import WithPadding
from torchpipe.loading.workers import start_worker


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """One optimizer step, as one rank sees it.

    Attributes:
        epoch, number: which step it is; the number counts from 0 in each epoch.
        micro_batches: this rank's, as many as on every other rank. One may hold nothing but padding packs.
        num_packs: packs of the step over all ranks, without padding.
        trained_tokens: labels of the step over all ranks that are trained; None where the data set does not know them
            beforehand (``trained_counts``).
        trained_weight: what the sum of losses is divided by: the sum of their weights (``weight_sums``), or their
            number where the data set says that no token has one (``weight_sums`` is None); None where it does not know.
    """

    epoch: int
    number: int
    micro_batches: tuple[Any, ...]
    num_packs: int
    trained_tokens: int | None
    trained_weight: float | None


class StepLoader:
    """Iterates the steps of an epoch, or what is left of it, each with the micro-batches of this rank.

    Iterating again goes on with the next epoch. Every pack is given out exactly once an epoch over all ranks; each rank
    has the same number of micro-batches. The state counts steps that were given out, whatever workers have read ahead;
    with it another process goes on with the batches that would have come, bit for bit, on any number of ranks and
    workers: the packs of a step stay, and are shared out anew.

    Args:
        dataset: map-style: ``__len__`` and ``__getitem__``. Used where it has them: ``trained_counts`` and
            ``weight_sums`` (one number a pack; None: no weights), ``padding_pack()``, ``batch(indices)``.
        steps: its global steps.
        batch_size: packs of a micro-batch.
        collate_fn: a list of items to a batch.
        collate_batch: what ``dataset.batch(indices)`` returns, a batch read at once, to the same batch that
            ``collate_fn`` makes; None: items are read one by one.
        rank, world_size: this process and how many train together.
        num_workers, pin_memory, prefetch_factor: as in torch's ``DataLoader``. A worker lets SIGTERM pass, so that a
            run that is asked to end can end its step first.

    Raises:
        ConfigError: the arguments don't fit each other.

    >>> data = [{"labels": [number]} for number in range(5)]
    >>> steps = GlobalSteps.of(data, global_batch_size=2, shuffle=False)
    >>> loader = StepLoader(data, steps, batch_size=1, collate_fn=lambda items: items[0]["labels"][0])
    >>> for step in loader:
    ...     print(step.number, step.micro_batches)
    ...     state = loader.state_dict()
    ...     if step.number == 1:
    ...         break
    0 (0, 1)
    1 (2, 3)
    >>> again = StepLoader(data, steps, batch_size=1, world_size=2, rank=0, collate_fn=lambda items: items[0]["labels"])
    >>> again.load_state_dict(state)
    >>> [step.micro_batches for step in again]
    [([4],)]
    """

    def __init__(
        self,
        dataset: Any,
        steps: GlobalSteps,
        *,
        batch_size: int,
        collate_fn: Callable[[list[Any]], Any],
        collate_batch: Callable[[Any], Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
        num_workers: int = 0,
        pin_memory: bool = False,
        prefetch_factor: int | None = None,
    ) -> None:
        if len(dataset) != steps.num_packs:
            raise ConfigError(f"The data set has {len(dataset):,} items and the steps {steps.num_packs:,} packs.")
        if prefetch_factor is not None and num_workers == 0:
            raise ConfigError("prefetch_factor has no effect without workers. Set num_workers too, or neither.")
        self._sampler = StepSampler(steps, batch_size=batch_size, rank=rank, world_size=world_size)
        self._batches = _Batches(dataset, collate_fn, collate_batch)
        self._trained, self._weights = (_one_a_pack(dataset, name) for name in ("trained_counts", "weight_sums"))
        self._no_weights = getattr(dataset, "weight_sums", ...) is None
        self._options: dict[str, Any] = {
            "num_workers": num_workers,
            "pin_memory": pin_memory,
            "prefetch_factor": prefetch_factor,
        }
        self._position = (0, 0)

    @property
    def steps(self) -> GlobalSteps:
        """The global steps."""
        return self._sampler.steps

    @property
    def accumulation(self) -> int:
        """The micro-batches of each step."""
        return self._sampler.accumulation

    @property
    def steps_done(self) -> int:
        """The steps that were given out since the first epoch began."""
        epoch, step = self._position
        return epoch * len(self.steps) + step

    def describe(self) -> str:
        """One line: how the packs of a step go to ranks and micro-batches."""
        sampler, num_packs = self._sampler, self.steps.global_batch_size
        sizes = (sampler.world_size, sampler.accumulation, sampler.batch_size)
        return (
            f"{num_packs:,} packs a step and {math.prod(sizes) - num_packs} padding packs = world size {sizes[0]} x "
            f"accumulation {sizes[1]} x batch size {sizes[2]}"
        )

    def __len__(self) -> int:
        """The steps that are left of the epoch."""
        return len(self.steps) - self._position[1]

    def __iter__(self) -> Iterator[Step]:
        epoch, first = self._position
        self._sampler.load_state_dict(self.state_dict())
        # A generator of its own: the loader draws a base seed for its workers, and must not move the global stream.
        generator = torch.Generator().manual_seed(derive(self.steps.seed, "workers", epoch, self._sampler.rank) % 2**63)
        batches = iter(
            DataLoader(
                self._batches,
                batch_size=None,
                sampler=self._sampler,  # pyright: ignore[reportArgumentType]  # of lists of indices
                collate_fn=_as_it_is,
                worker_init_fn=start_worker,
                generator=generator,
                **self._options,
            )
        )
        for number in range(first, len(self.steps)):
            micro_batches = tuple(next(batches) for _ in range(self.accumulation))
            is_last = number + 1 == len(self.steps)
            self._position = (epoch + 1, 0) if is_last else (epoch, number + 1)
            yield self._step(epoch, number, micro_batches)

    def until(self, num_steps: int) -> Iterator[Step]:
        """The steps of as many epochs as it takes, until ``num_steps`` were given out since the first began."""
        while self.steps_done < num_steps:
            for step in self:
                yield step
                if self.steps_done >= num_steps:
                    break

    def _step(self, epoch: int, number: int, micro_batches: tuple[Any, ...]) -> Step:
        packs = self.steps.packs(epoch, number)
        trained = None if self._trained is None else int(self._trained[packs].sum(dtype=np.int64))
        weight = float(trained) if trained is not None and self._no_weights else None
        if self._weights is not None:
            weight = float(self._weights[packs].sum(dtype=np.float64))
        return Step(
            epoch=epoch,
            number=number,
            micro_batches=micro_batches,
            num_packs=len(packs),
            trained_tokens=trained,
            trained_weight=weight,
        )

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands after the step that was given out last, see
        :func:`~torchpipe.loading.state.position_state`.
        """
        epoch, step = self._position
        return position_state(self.steps, epoch=epoch, step=step)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration go on where the state says.

        Raises:
            CheckpointError: the state is of other steps, see :func:`~torchpipe.loading.state.position_of`.
        """
        self._position = position_of(state, self.steps)


class _Batches(Dataset[Any]):
    """A whole micro-batch for each list of indices, so that it is read and collated in the worker."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[list[Any]], Any], collate_batch: Callable[[Any], Any] | None
    ) -> None:
        if collate_batch is not None and not hasattr(dataset, "batch"):
            raise ConfigError(
                f"collate_batch is for a data set with batch(indices), and {type(dataset).__name__} has none. Leave it "
                "out."
            )
        self._items = WithPadding(dataset)
        self._collate_fn, self._collate_batch = collate_fn, collate_batch

    def __getitem__(self, indices: Sequence[int]) -> Any:
        if self._collate_batch is not None and PADDING not in indices:
            return self._collate_batch(self._items.dataset.batch(indices))
        return self._collate_fn(self._items.__getitems__(indices))


def _as_it_is(batch: Any) -> Any:
    return batch


def _one_a_pack(dataset: Any, name: str) -> np.ndarray | None:
    values = getattr(dataset, name, None)
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (len(dataset),):
        raise ConfigError(f"The data set's {name} is an array {list(array.shape)}, and it has {len(dataset):,} items.")
    return array
