"""The batches of a graph that Grain runs: true streams, and processors that draw random numbers."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from torchpipe._progress import say
from torchpipe._seeds import derive
from torchpipe.errors import ConfigError, DataError, DistributedError, LoaderStateError
from torchpipe.loading.at_exit import closed_at_exit
from torchpipe.loading.parcel import in_a_parcel
from torchpipe.loading.read_ahead import ReadAhead, close
from torchpipe.loading.workers import FromWorkers, start_worker, worker_context
from torchpipe.pipeline.account import described_account
from torchpipe.pipeline.by_grain.agreement import Agreement, can_agree
from torchpipe.pipeline.by_grain.identity import graph_identity
from torchpipe.pipeline.by_grain.ledger import GraphLedger, summed_ledgers
from torchpipe.pipeline.by_grain.logical_shards import ReadBatch, Reading, read_batches
from torchpipe.pipeline.chat.first_sample import shared_notes
from torchpipe.pipeline.collators import Collator, TrainerBatch, collated
from torchpipe.pipeline.graph_text import graph_text
from torchpipe.pipeline.state import (
    PARTS,
    STATE_VERSION,
    ShardPlace,
    checked_state,
    merged_states,
    parts_of,
    parts_text,
    whole_number_of,
)
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy


class StreamBatches:
    """Batches of rows as they come.

    Batch k of the run is made of part k mod L of the graph, L being fixed when the run starts, so that it is the same
    for every number of ranks and workers.

    Args:
        config: of the loader.
        context, policy: what the graph is built with.
        collator: rows to a batch.

    Raises:
        ConfigError: an option has no meaning for such a graph.
    """

    epoch = None

    def __init__(
        self, config: Any, *, context: DatasetBuildContext, policy: DatasetIterationPolicy, collator: Collator
    ) -> None:
        if (config.num_epochs or 1) > 1 or (config.repeat and config.num_epochs):
            raise ConfigError(
                f"num_epochs={config.num_epochs} has no meaning for a graph that Grain runs, whose epochs have no "
                "known end. Leave it out: repeat=False goes through it once."
            )
        self._config, self._context, self._policy, self._collator = config, context, policy, collator
        self._num_shards: int = config.num_logical_shards or policy.dp_world_size
        self._batch = 0  # batches of the run, over all ranks, that were given out
        self._places: dict[int, ShardPlace] = {}
        self._ledgers: dict[int, GraphLedger] = {}

    def anew(self, config: Any, *, policy: DatasetIterationPolicy, collator: Collator) -> "StreamBatches":
        """The same rows from the first one on, for another rank or with other workers."""
        return StreamBatches(config, context=self._context, policy=policy, collator=collator)

    def batches(self) -> Iterator[TrainerBatch]:
        """The batches from here on."""
        at_once = self._policy.dp_world_size * self._collator.num_rows_per_batch()
        return (micro_batches[0] for micro_batches in self.steps(global_batch_size=at_once))

    def steps(self, *, global_batch_size: int) -> Iterator[tuple[TrainerBatch, ...]]:
        """The steps from here on: this rank's batches of each.

        A step has the same batches on any number of ranks. Where parts have ended before others, their batches are
        padding; a step of padding alone is left out.

        Args:
            global_batch_size: rows of a step, over all ranks: as many as they take at once, or a multiple of it.
        """
        at_once = self._policy.dp_world_size * self._collator.num_rows_per_batch()
        ranks = None if self._config.repeat else self._ranks
        reading = self._reading()
        missing = sum(shard not in self._places and self._turns_before(shard) > 0 for shard in reading.shards())
        if missing:
            parts = "1 part of the graph is" if missing == 1 else f"{missing} parts of the graph are"
            whose = "its" if missing == 1 else "their"
            say(f"{parts} read again up to batch {self._batch:,}: {whose} state isn't here.")
        return self._given_out(self._collated(reading), ranks, reading.shards(), global_batch_size // at_once)

    @closed_at_exit
    def _given_out(
        self, batches: Iterator[Any], ranks: Agreement | None, alive: set[int], accumulation: int
    ) -> Iterator[tuple[TrainerBatch, ...]]:
        try:
            while True:
                found = _next_of(batches, accumulation, ranks)
                ended = {number % self._num_shards for number, batch, _ in found if batch is None}
                has_batch = any(batch is not None for _, batch, _ in found)
                if ranks is not None:
                    alive -= ended
                    has_batch, is_alive, has_failed = ranks.any(has_batch, bool(alive), False)
                    if has_failed:
                        raise DistributedError("Another rank ended with an error. Its output says why.")
                    if not (has_batch or is_alive):
                        if not self._batch:
                            raise self._none_left()
                        return
                elif ended:
                    raise DataError(
                        f"Part {min(ended)} of {self._num_shards} of the graph has ended, and repeat is True. Its "
                        "source has to begin anew by itself where the policy that it is built with says repeat."
                    )
                for number, _, place in found:
                    self._places[number % self._num_shards] = place
                self._batch += accumulation * self._policy.dp_world_size
                if has_batch:
                    yield tuple(collated(self._collator, []) if batch is None else batch for _, batch, _ in found)
        finally:
            close(batches)

    def _none_left(self) -> DataError:
        ledgers = list(self._ledgers.values())
        told = ". ".join(f"{name}: {described_account(counts)}" for name, counts in summed_ledgers(ledgers).items())
        first = next((ledger.first_error for ledger in ledgers if ledger.first_error), "")
        return DataError(
            f"No row is left of the graph{told and f' ({told})'}. Check its filters, and whether its sources have "
            f"rows.{first}"
        )

    @cached_property
    def _ranks(self) -> Agreement:
        return Agreement(self._policy.dp_world_size)

    def _reading(self) -> Reading:
        return Reading(
            dataset=self._config.dataset,
            context=self._context,
            policy=self._policy,
            num_shards=self._num_shards,
            rows_a_batch=self._collator.num_rows_per_batch(),
            first=self._batch + self._policy.dp_rank,
            step=self._policy.dp_world_size,
            places=dict(self._places),
        )

    def _collated(self, reading: Reading) -> Iterator[Any]:
        """Numbers, batches, and places of parts."""
        num_workers, depth = self._config.num_workers, self._config.num_prefetch_batches
        if num_workers:
            parts = reading.shared_out(num_workers)
            generator = torch.Generator().manual_seed(derive(self._policy.seed, "workers", reading.first) % 2**63)
            batches: Iterator[Any] = FromWorkers(
                iter(
                    DataLoader(
                        _Parts(parts, self._collator),
                        batch_size=None,
                        num_workers=len(parts),
                        collate_fn=_as_it_is,
                        worker_init_fn=start_worker,
                        generator=generator,
                        multiprocessing_context=worker_context(),
                    )
                )
            )
        else:
            batches = _collated(reading, self._collator, self._ledgers)
        return ReadAhead(batches, depth=depth) if depth else batches

    def ledger(self) -> dict[str, Mapping[str, Any]]:
        """What became of the rows at each node in this process, over all parts that it reads; those that were made
        ready count. With workers, which count for themselves, there is nothing.
        """
        return dict(summed_ledgers(list(self._ledgers.values())))

    def state_dict(self) -> dict[str, Any]:
        """Where the run stands. All ranks ask together where they are processes of ``torch.distributed``; elsewhere
        the places of parts that this rank has not read are in other ranks' states.
        """
        mine = {
            "version": STATE_VERSION,
            "way": "grain",
            "batch": self._batch,
            "num_logical_shards": self._num_shards,
            "graph": graph_text(self._identity),
            PARTS: parts_text(self._places),
        }
        return merged_states(self._ranks.every(mine)) if can_agree(self._policy.dp_world_size) else mine

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where a state says."""
        checked_state(state, self._identity, way="grain", allow_changed=self._config.allow_changed)
        num_shards = whole_number_of(state, "num_logical_shards")
        if self._config.num_logical_shards not in (None, num_shards) or not num_shards:
            raise LoaderStateError(
                f"The loader's state is of {num_shards} logical shards, and num_logical_shards is "
                f"{self._config.num_logical_shards}. Leave it out, or put it back."
            )
        self._num_shards = num_shards
        self._batch = whole_number_of(state, "batch")
        self._places = {
            shard: place for shard, place in parts_of(state).items() if place.num_batches <= self._turns_before(shard)
        }

    def _turns_before(self, shard: int) -> int:
        """How many batches of a part stand before the next one of the run."""
        return max(0, -(-(self._batch - shard) // self._num_shards))

    @cached_property
    def _identity(self) -> dict[str, str]:
        return graph_identity(self._config.dataset, context=self._context, policy=self._policy)


class _Parts(IterableDataset[Any]):
    """What each worker reads and collates."""

    def __init__(self, parts: list[Reading], collator: Collator) -> None:
        self._parts, self._collator = parts, collator
        self._notes = shared_notes()  # a worker that is no fork gets them with this object

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        part = self._parts[0 if info is None else info.id]
        return map(in_a_parcel, _collated(part, self._collator))


def _collated(reading: Reading, collator: Collator, ledgers: dict[int, GraphLedger] | None = None) -> Iterator[Any]:
    batches: Iterator[ReadBatch] = read_batches(reading, ledgers)
    try:
        for number, rows, place in batches:
            yield number, None if rows is None else collator(rows), place
    finally:
        close(batches)


def _next_of(batches: Iterator[Any], number: int, ranks: Agreement | None) -> list[Any]:
    """The next batches. If there is an error, the other ranks are told, which would wait for this one."""
    try:
        return [next(batches) for _ in range(number)]
    except Exception as error:
        if ranks is not None:
            try:
                ranks.any(False, False, True)
            except DistributedError as lost:
                error.add_note(f"Other ranks could not be told: {lost}")
        raise


def _as_it_is(batch: Any) -> Any:
    return batch
