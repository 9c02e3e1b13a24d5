"""The batches of one rank, step by step: the same ones wherever the run was stopped, on any number of ranks."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from torchpipe._counted import counted
from torchpipe._seeds import derive
from torchpipe.data.protocols import can_be_read_ahead
from torchpipe.errors import ConfigError
from torchpipe.loading.at_exit import closed_at_exit
from torchpipe.loading.epoch_steps import EpochSteps
from torchpipe.loading.micro_batches import MicroBatches
from torchpipe.loading.read_ahead import ReadAhead, close, is_torchpipes
from torchpipe.loading.sampler import StepSampler
from torchpipe.loading.shard_steps import ShardSteps
from torchpipe.loading.state import position_of, position_state
from torchpipe.loading.steps import GlobalSteps
from torchpipe.loading.workers import FromWorkers, start_worker, worker_context

_NONE = object()  # no batch, not even one that is None


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
            ``weight_sums`` (one number a pack; None: no weights) or ``of_packs(name, indices)``, which gives those of
            some, ``padding_pack()``, ``batch(indices)``, ``num_read_at_once``: how many items to read together, so
            that those of several micro-batches are, where no worker reads (not of packs of several ``pack_lens``).
        steps: its global steps; :class:`~torchpipe.loading.ShardSteps` where its packs are finished while it is
            trained on.
        batch_size: packs of a micro-batch.
        collate_fn: a list of items to a batch.
        collate_batch: what ``dataset.batch(indices)`` returns, a batch read at once, to the same batch that
            ``collate_fn`` makes; None: items are read one by one.
        rank, world_size: this process and how many train together.
        num_workers, pin_memory, prefetch_factor: as in torch's ``DataLoader``. A worker lets SIGTERM pass, so that a
            run that is asked to end can end its step first.
        read_ahead: steps whose micro-batches a thread of this process makes ready, or takes over from workers, while
            the caller trains; so many steps' batches more are in memory. 0: each batch is read when it is asked for.
            A number above 0 runs the code of ``dataset`` and ``collate_fn`` in the thread, where there are no workers.
            None: 1 where that changes no batch and no other random number: with workers, or if the data set says that
            it :func:`~torchpipe.data.protocols.can_be_read_ahead` and batches are made by
            :mod:`torchpipe.data.collate`; else 0.

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
        steps: GlobalSteps | ShardSteps | EpochSteps,
        *,
        batch_size: int,
        collate_fn: Callable[[list[Any]], Any],
        collate_batch: Callable[[Any], Any] | None = None,
        rank: int = 0,
        world_size: int = 1,
        num_workers: int = 0,
        pin_memory: bool = False,
        prefetch_factor: int | None = None,
        read_ahead: int | None = None,
    ) -> None:
        for name, value, least in (
            ("num_workers", num_workers, 0),
            ("prefetch_factor", 1 if prefetch_factor is None else prefetch_factor, 1),
            ("read_ahead", 0 if read_ahead is None else read_ahead, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ConfigError(f"{name} is {value!r}. Give a whole number, {least} or more.")
        if isinstance(steps, GlobalSteps | EpochSteps) and len(dataset) != steps.num_packs:
            raise ConfigError(f"The data set has {len(dataset):,} items and the steps {steps.num_packs:,} packs.")
        if prefetch_factor is not None and num_workers == 0:
            raise ConfigError("prefetch_factor has no effect without workers. Set num_workers too, or neither.")
        self._sampler = StepSampler(steps, batch_size=batch_size, rank=rank, world_size=world_size, waits=False)
        self._batches = MicroBatches(dataset, collate_fn, collate_batch)
        self._of_packs = _columns_of(dataset)
        self._says_weights = hasattr(dataset, "of_packs") or getattr(dataset, "weight_sums", ...) is None
        self._options: dict[str, Any] = {
            "num_workers": num_workers,
            "pin_memory": pin_memory,
            "prefetch_factor": prefetch_factor,
        }
        if read_ahead is None:
            is_safe = can_be_read_ahead(dataset) and is_torchpipes(collate_fn)
            is_safe = is_safe and (collate_batch is None or is_torchpipes(collate_batch))
            read_ahead = int(num_workers > 0 or is_safe)
        self._read_ahead = read_ahead
        self._position = (0, 0)

    @property
    def steps(self) -> GlobalSteps | ShardSteps | EpochSteps:
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
        return self.steps.steps_before(epoch) + step

    @property
    def ended_epoch(self) -> int | None:
        """The epoch that ended with the step that was given out last; None: there are more steps of it, or none yet."""
        epoch, step = self._position
        return epoch - 1 if epoch and step == 0 else None

    def describe(self) -> str:
        """One line: how the packs of a step go to ranks and micro-batches."""
        sampler, num_packs = self._sampler, self.steps.global_batch_size
        sizes = (sampler.world_size, sampler.accumulation, sampler.batch_size)
        padding = math.prod(sizes) - num_packs
        return (
            f"{counted(num_packs, 'pack')} a step and {counted(padding, 'padding pack')} = "
            f"world size {sizes[0]} x "
            f"accumulation {sizes[1]} x batch size {sizes[2]}"
        )

    def num_steps(self, *, epochs: int, max_steps: int | None = None) -> int | None:
        """The steps of so many epochs, or ``max_steps`` if that is fewer; None while it isn't known."""
        if self.steps.num_steps is None:
            return None
        of_epochs = self.steps.steps_before(epochs)
        return of_epochs if max_steps is None else min(of_epochs, max_steps)

    def __len__(self) -> int:
        """The steps that are left of the epoch."""
        epoch, step = self._position
        return self.steps.steps_before(epoch + 1) - self.steps.steps_before(epoch) - step

    def __iter__(self) -> Iterator[Step]:
        return self.until(epochs=self._position[0] + 1)

    @closed_at_exit
    def until(
        self,
        num_steps: int | None = None,
        *,
        epochs: int | None = None,
        wait: Callable[[int, int], bool] | None = None,
    ) -> Iterator[Step]:
        """The steps until ``num_steps`` were given out, or ``epochs`` epochs were done, since the first began.

        Args:
            num_steps, epochs: None: no limit.
            wait: called with the epoch and number of a step before it is given out, where packs are finished while the
                run trains. It returns when the step is known; False ends the iteration. None waits here.
        """
        wait = wait or self.steps.wait
        batches: Iterator[Any] = iter(())
        try:
            while (num_steps is None or self.steps_done < num_steps) and (epochs is None or self._position[0] < epochs):
                epoch, number = self._position
                if not wait(epoch, number):
                    return
                if not self.steps.has(epoch, number):
                    self._position = (epoch + 1, 0)
                    continue
                first = next(batches, _NONE)
                if first is _NONE:  # the last pass has read all that was ready
                    batches = self._read_on()
                    first = next(batches)
                micro_batches = (first, *(next(batches) for _ in range(self.accumulation - 1)))
                is_last = self.steps.is_ready(epoch, number + 1) and not self.steps.has(epoch, number + 1)
                self._position = (epoch + 1, 0) if is_last else (epoch, number + 1)
                yield self._step(epoch, number, micro_batches)
        finally:
            close(batches)

    def _read_on(self) -> Iterator[Any]:
        """This rank's micro-batches of the steps from here on that are known, of this epoch."""
        epoch, number = self._position
        self._sampler.seek(epoch, number)
        if not self._options["num_workers"] and not self._options["pin_memory"]:
            # What torch's loader would do, at a quarter of its time a batch.
            batches = self._batches.of_each(iter(self._sampler))
            return ReadAhead(batches, depth=self._read_ahead * self.accumulation) if self._read_ahead else batches
        # A generator of its own: the loader draws a base seed for its workers, and must not move the global stream.
        generator = torch.Generator().manual_seed(derive(self.steps.seed, "workers", epoch, self._sampler.rank) % 2**63)
        batches: Iterator[Any] = iter(
            DataLoader(
                self._batches,
                batch_size=None,
                sampler=self._sampler,  # pyright: ignore[reportArgumentType]  # of lists of indices
                collate_fn=_as_it_is,
                worker_init_fn=start_worker,
                generator=generator,
                multiprocessing_context=worker_context() if self._options["num_workers"] else None,
                **self._options,
            )
        )
        if self._options["num_workers"]:
            batches = FromWorkers(batches)
        if not self._read_ahead:
            return batches
        if self._options["pin_memory"] and not self._options["num_workers"] and torch.accelerator.is_available():
            batches = _read_with(batches, torch.accelerator.current_device_index())
        return ReadAhead(batches, depth=self._read_ahead * self.accumulation)

    def _step(self, epoch: int, number: int, micro_batches: tuple[Any, ...]) -> Step:
        packs = self.steps.packs(epoch, number)
        counts = self._of_packs("trained_counts", packs)
        sums = self._of_packs("weight_sums", packs)
        trained = None if counts is None else int(counts.sum(dtype=np.int64))
        weight = None if sums is None else float(sums.sum(dtype=np.float64))
        if sums is None and self._says_weights:  # that no token has one
            weight = None if trained is None else float(trained)
        return Step(
            epoch=epoch,
            number=number,
            micro_batches=micro_batches,
            num_packs=len(packs),
            trained_tokens=trained,
            trained_weight=weight,
        )

    def packs_of(self, step: Step) -> list[list[int]]:
        """The numbers of the packs of each of this rank's micro-batches of a step; -1 is a padding pack.

        For errors that name rows (:func:`torchpipe.datasets.describe_rows`): it is worked out when it is asked for.
        """
        sampler = self._sampler
        layout = self.steps.layout(
            step.epoch, step.number, world_size=sampler.world_size, batch_size=sampler.batch_size
        )
        return layout[sampler.rank].tolist()

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


def _read_with(batches: Iterator[Any], device: int) -> Iterator[Any]:
    """The batches, read by a thread that has the device as its own: each new thread has the first, and page-locked
    memory would take some of its memory for every rank.
    """
    torch.accelerator.set_device_index(device)
    yield from batches


def _as_it_is(batch: Any) -> Any:
    return batch


def _columns_of(dataset: Any) -> Callable[[str, np.ndarray], np.ndarray | None]:
    """A function (name, packs) -> what a data set knows of some packs; None where it does not know."""
    if isinstance(found := getattr(dataset, "of_packs", None), Callable):
        return found
    columns = {name: _one_a_pack(dataset, name) for name in ("trained_counts", "weight_sums")}
    return lambda name, packs: None if (values := columns[name]) is None else values[packs]


def _one_a_pack(dataset: Any, name: str) -> np.ndarray | None:
    values = getattr(dataset, name, None)
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (len(dataset),):
        raise ConfigError(f"The data set's {name} is an array {list(array.shape)}, and it has {len(dataset):,} items.")
    return array
