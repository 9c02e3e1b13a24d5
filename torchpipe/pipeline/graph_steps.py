"""The batches of a graph as a recipe takes them: step by step, each with the same rows on any number of ranks."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch.utils.data import Dataset

from torchpipe._counted import counted
from torchpipe.data.ledger import SampleCounts
from torchpipe.errors import ConfigError, LoaderStateError
from torchpipe.loading.loader import Step
from torchpipe.pipeline.collators import TrainerBatch
from torchpipe.pipeline.loader import GrainDataLoader
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.state import whole_number_of

Collate = Callable[[list[dict[str, torch.Tensor]]], Any]
"""Items of packs to a batch, such as :func:`~torchpipe.data.padded_collate_packed`."""


class GraphSteps:
    """The steps of a :class:`~torchpipe.pipeline.GrainDataLoader`; see :class:`torchpipe.loading.StepLoader`.

    Args:
        loader: of this rank.
        global_batch_size: rows of a step, over all ranks and micro-batches. It is kept in the state.
        collate_fn: makes what the model takes of packs (:func:`packed_item`).

    Raises:
        ConfigError: a step of a graph that Grain runs can't be divided among the ranks.
    """

    ended_epoch = None
    """A step may have rows of two epochs."""

    def __init__(self, loader: GrainDataLoader, *, global_batch_size: int, collate_fn: Collate) -> None:
        self._loader = loader
        self._collate = collate_fn
        self._size = global_batch_size
        self._done = 0
        self._numbers: list[list[int]] = []
        self._rows_a_turn = loader.policy.dp_world_size * loader.collator.num_rows_per_batch()
        self.accumulation = -(-global_batch_size // self._rows_a_turn)
        if not loader.is_planned and global_batch_size % self._rows_a_turn:
            raise ConfigError(
                f"A step has {global_batch_size} rows, and all ranks together take {self._rows_a_turn} at once. Grain "
                "runs this graph, and can't fill the rest with padding: choose a number of ranks that divides the step."
            )

    @property
    def steps_done(self) -> int:
        """The steps that were given out since the run began."""
        return self._done

    def num_steps(self, *, epochs: int = 1, max_steps: int | None = None) -> int | None:
        """The steps of the run, where its end is known.

        Args:
            epochs: has no meaning here: the loader's config says how many there are.
            max_steps: the most.
        """
        rows = self._loader.num_rows
        known = None if rows is None else -(-rows // self._size)
        return max_steps if known is None else known if max_steps is None else min(known, max_steps)

    def describe(self) -> str:
        """One line: how the rows of a step go to ranks and micro-batches."""
        policy, each = self._loader.policy, self._loader.collator.num_rows_per_batch()
        padding = self.accumulation * self._rows_a_turn - self._size
        return (
            f"{counted(self._size, 'row')} a step and {padding} of padding = world size "
            f"{policy.dp_world_size} x accumulation {self.accumulation} x rows a batch {each}"
        )

    def until(
        self,
        num_steps: int | None = None,
        *,
        epochs: int | None = None,
        wait: Callable[[int, int], bool] | None = None,
    ) -> Iterator[Step]:
        """The steps until ``num_steps`` were given out, or the rows end.

        Args:
            num_steps: None: no limit.
            epochs, wait: have no meaning here; nothing is waited for.
        """
        while num_steps is None or self._done < num_steps:
            source = self._loader.rows
            found = self._planned(source) if isinstance(source, PlannedBatches) else self._streamed(source)
            for step in found:
                self._done += 1
                yield step
                if num_steps is not None and self._done >= num_steps:
                    break
            else:
                return

    def _planned(self, source: PlannedBatches) -> Iterator[Step]:
        collate = partial(_for_model, self._collate)
        for numbers, micro_batches in source.steps(global_batch_size=self._size, then=collate):
            self._numbers = numbers[self._loader.policy.dp_rank].tolist()
            yield self._step(micro_batches, int((numbers >= 0).sum()))

    def _streamed(self, source: Any) -> Iterator[Step]:
        for micro_batches in source.steps(global_batch_size=self._size):
            self._numbers = [[] for _ in micro_batches]
            yield self._step(tuple(_for_model(self._collate, batch) for batch in micro_batches), self._size)

    def _step(self, micro_batches: tuple[Any, ...], num_rows: int) -> Step:
        return Step(
            epoch=0,
            number=self._done,
            micro_batches=micro_batches,
            num_packs=num_rows,
            trained_tokens=None,
            trained_weight=None,
        )

    def packs_of(self, step: Step) -> list[list[int]]:
        """The numbers of the rows of each micro-batch of the step that was given out last, where they have numbers."""
        return self._numbers

    def describe_rows(self, numbers: Sequence[int]) -> str:
        """Such rows in words: of which sources, and which rows of these."""
        source = self._loader.rows
        if isinstance(source, PlannedBatches):
            return source.describe_rows([number for number in numbers if number >= 0])
        return "rows of a graph that Grain runs, which have no numbers"

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands after the step that was given out last: the loader's state, and the steps until then.

        All ranks call it together, since each may read parts of the graph that the others don't.
        """
        return {**self._loader.state_dict(), "steps": self._done, "global_batch_size": self._size}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Lets the next iteration go on where the state says.

        Raises:
            LoaderStateError: the state is of other rows, or of steps of another number of them.
        """
        size = whole_number_of(state, "global_batch_size")
        if size != self._size:
            raise LoaderStateError(
                f"The loader's state is of steps of {size} rows, and they have {self._size}. Put global_batch_size "
                f"back to {size} to resume, or start anew."
            )
        done = whole_number_of(state, "steps")
        own = {name: value for name, value in state.items() if name not in ("steps", "global_batch_size")}
        self._loader.load_state_dict(own)
        self._done = done


class FirstRows(Dataset[dict[str, torch.Tensor]]):
    """The first rows of a graph's run as packs (:func:`packed_item`), the same on all ranks. Where the run stands is
    not changed.

    Args:
        loader: of the graph.
        number: the most rows, or batches of several; there is one at least.

    Attributes:
        counts: of all rows of a planned graph; a graph that Grain runs has no such attribute.
    """

    name = "the graph"
    counts: SampleCounts

    def __init__(self, loader: GrainDataLoader, number: int) -> None:
        self._longest = loader.context.max_context_length
        fresh = loader.alone()
        try:
            self._items = [packed_item(batch) for batch in islice(iter(fresh), max(1, number))]
        finally:
            fresh.close()
        if isinstance(loader.rows, PlannedBatches):
            self.counts = loader.rows.counts()

    @property
    def longest_document(self) -> dict[str, torch.Tensor]:
        """The ``tokens`` of the first row that one document may have at most."""
        return {"tokens": self._items[0]["tokens"][: self._longest]}

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return dict(self._items[index])


def packed_item(batch: TrainerBatch) -> dict[str, torch.Tensor]:
    """A batch of text as a pack: ``tokens``, ``labels`` and ``input_pos`` int64 [T], ``seq_lens`` int64 [documents].

    Raises:
        ConfigError: it has no ``input`` and ``positions``.

    >>> inputs = {"input": torch.tensor([5, 6, 7]), "positions": torch.tensor([0, 1, 0])}
    >>> packed_item((inputs, torch.tensor([6, -100, -100])))["seq_lens"].tolist()
    [2, 1]
    """
    inputs, labels = batch
    if missing := [name for name in ("input", "positions") if name not in inputs]:
        raise ConfigError(
            f"The collator gives batches without {missing[0]!r}. The recipe trains on those of TextCollator: 'input' "
            "and 'positions', flat, and labels."
        )
    begins = torch.nonzero(inputs["positions"] == 0).flatten()
    seq_lens = torch.diff(begins, append=torch.tensor([len(labels)]))
    return {"tokens": inputs["input"], "labels": labels, "input_pos": inputs["positions"], "seq_lens": seq_lens}


def _for_model(collate: Collate, batch: TrainerBatch) -> Any:
    return collate([packed_item(batch)])
