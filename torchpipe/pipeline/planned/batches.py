"""The batches of a planned graph."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from torchpipe.data.ledger import SampleCounts, sum_of_counts
from torchpipe.errors import DataError, LoaderStateError
from torchpipe.loading.at_exit import closed_at_exit
from torchpipe.loading.loader import Step, StepLoader
from torchpipe.loading.read_ahead import close
from torchpipe.pipeline.account import described_account
from torchpipe.pipeline.collators import Collator, TrainerBatch, collated
from torchpipe.pipeline.graph_text import graph_text
from torchpipe.pipeline.planned.compile import planned_graph
from torchpipe.pipeline.planned.graph import PlannedGraph
from torchpipe.pipeline.planned.row_steps import MOST_EPOCHS, ROW_BITS, Cursor, RowSteps
from torchpipe.pipeline.planned.rows import PlannedRows
from torchpipe.pipeline.state import STATE_VERSION, checked_state, whole_number_of
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy
from torchpipe.store.accounts import sample_counts
from torchpipe.store.refused_rows import first_error


class PlannedBatches:
    """Batches of rows that are known by number.

    Args:
        config: of the loader.
        context, policy: what the graph is built with.
        collator: rows to a batch.
        graph: the plan, where it was made already; None: it is made.

    Raises:
        CannotPlan: a part of the graph has no plan.
    """

    def __init__(
        self,
        config: Any,
        *,
        context: DatasetBuildContext,
        policy: DatasetIterationPolicy,
        collator: Collator,
        graph: PlannedGraph | None = None,
    ) -> None:
        self.graph = graph or planned_graph(
            config.dataset, context=context, policy=policy, cache_dir=config.cache_dir, num_proc=config.num_proc
        )
        self.dataset = PlannedRows(
            self.graph.rows,
            self.graph.run.samples,
            max_context_length=context.max_context_length,
            longest_row=context.num_tokens_per_batch,
        )
        self._config, self._context, self._policy, self._collator = config, context, policy, collator
        self._batch_size = collator.num_rows_per_batch()
        self._num_epochs: int | None = config.num_epochs or (None if config.repeat else 1)
        if not self.graph.num_rows(0):
            first = next((line for line in map(first_error, self.graph.stores) if line), "")
            raise DataError(
                f"No row is left of the graph ({self._said()}). Check its filters and limits, and whether its sources "
                f"have rows.{first and f' The first error: {first}'}"
            )
        self._begin(Cursor(0, 0), 1)

    def _begin(self, start: Cursor, global_batch_size: int) -> None:
        costs = partial(self.graph.costs, rows_a_batch=self._batch_size)
        self._steps = RowSteps(
            self.graph.num_rows,
            start=start,
            num_epochs=self._num_epochs,
            global_batch_size=global_batch_size,
            costs=costs if self._config.balance == "within_step" else None,
        )
        self._given = 0

    def anew(self, config: Any, *, policy: DatasetIterationPolicy, collator: Collator) -> "PlannedBatches":
        """The same rows from the first one on, for another rank or with other workers."""
        return PlannedBatches(config, context=self._context, policy=policy, collator=collator, graph=self.graph)

    @property
    def epoch(self) -> int:
        """The epoch of the next row."""
        return self._steps.cursor(self._given).epoch

    @property
    def has_next(self) -> bool:
        """Whether there is another batch."""
        return self._steps.has(0, self._given)

    def batches(self) -> Iterator[TrainerBatch]:
        """The batches from here on."""
        at_once = self._policy.dp_world_size * self._batch_size
        return (step.micro_batches[0] for step in self._steps_of(at_once, None))

    def steps(
        self, *, global_batch_size: int, then: Callable[[TrainerBatch], Any] | None = None
    ) -> Iterator[tuple[np.ndarray, tuple[Any, ...]]]:
        """The steps from here on: the numbers of the rows of a step, int64 [ranks, accumulation, rows a batch] (-1 is
        padding), and this rank's batches of it.

        Args:
            global_batch_size: rows of a step, over all ranks. Batches that they don't fill have padding alone.
            then: what becomes of each batch, in the worker that makes it.
        """
        for step in self._steps_of(global_batch_size, then):
            layout = self._steps.layout(
                0, step.number, world_size=self._policy.dp_world_size, batch_size=self._batch_size
            )
            yield layout, step.micro_batches

    @closed_at_exit
    def _steps_of(self, global_batch_size: int, then: Callable[[TrainerBatch], Any] | None) -> Iterator[Step]:
        self._begin(self._steps.cursor(self._given), global_batch_size)
        loader = StepLoader(
            self.dataset,
            self._steps,  # pyright: ignore[reportArgumentType]  # it has what a loader asks of global steps
            batch_size=self._batch_size,
            collate_fn=partial(_collated, self._collator, then),
            rank=self._policy.dp_rank,
            world_size=self._policy.dp_world_size,
            num_workers=self._config.num_workers,
            read_ahead=self._config.num_prefetch_batches,
        )
        each = loader.until(epochs=1)
        try:
            for step in each:
                self._given += 1
                yield step
        finally:
            close(each)

    def counts(self) -> SampleCounts:
        """What became of the rows of all sources; the longest is as long as a document may be."""
        found = sum_of_counts([sample_counts(store) for store in self.graph.stores])
        return replace(found, longest=min(found.longest, self._context.max_context_length))

    def describe_rows(self, numbers: Sequence[int]) -> str:
        """Rows in words: of which sources, and which rows of these."""
        return self.graph.describe_rows([divmod(number, 1 << ROW_BITS) for number in numbers])

    def num_rows(self, num_epochs: int) -> int:
        """The rows of so many epochs."""
        return sum(self.graph.num_rows(epoch) for epoch in range(num_epochs))

    def ledger(self) -> dict[str, Mapping[str, Any]]:
        """What became of the rows of an epoch at each node."""
        return self.graph.account(self._steps.cursor(self._given).epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands."""
        epoch, row = self._steps.cursor(self._given)
        return {
            "version": STATE_VERSION,
            "way": "planned",
            "epoch": epoch,
            "row": row,
            "graph": graph_text(self._identity),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state says."""
        checked_state(state, self._identity, way="planned", allow_changed=self._config.allow_changed)
        epoch, row = whole_number_of(state, "epoch"), whole_number_of(state, "row")
        last = self._num_epochs is not None and epoch >= self._num_epochs
        if (last and row) or epoch >= MOST_EPOCHS or (not last and row > self.graph.num_rows(epoch)):
            raise LoaderStateError(
                f"The loader's state stands before row {row} of epoch {epoch}, and there is no such row. Start anew."
            )
        self._begin(Cursor(epoch, row), 1)

    @cached_property
    def _identity(self) -> dict[str, str]:
        return self.graph.identity()

    def _said(self) -> str:
        """What became of the rows at each node but mixes."""
        accounts = {name: counts for name, counts in self.graph.account(0).items() if "rows_in" in counts}
        return ". ".join(
            f"{name}: {described_account(counts) if counts['rows_in'] else 'it has no rows'}"
            for name, counts in accounts.items()
        )


def _collated(collator: Collator, then: Callable[[TrainerBatch], Any] | None, rows: Sequence[Any]) -> Any:
    batch = collated(collator, [row for row in rows if row is not None])
    return batch if then is None else then(batch)
