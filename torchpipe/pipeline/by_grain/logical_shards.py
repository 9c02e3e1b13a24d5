"""A graph that Grain runs, in a fixed number of parts: which batch stands where does not depend on the ranks.

Part s of L gives the batches s, s + L, s + 2 L, ... of the run. A rank reads the parts that its batches are of, and
passes over those batches of theirs that are other ranks'. With as many ranks as parts, each rank reads one.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, NamedTuple

from torchpipe.errors import LoaderStateError
from torchpipe.pipeline.by_grain.ledger import GraphLedger, graph_ledger
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.reading import as_stream
from torchpipe.pipeline.state import ShardPlace
from torchpipe.pipeline.too_long import warn_of_too_long
from torchpipe.pipeline.types import DatasetBuildContext, DatasetIterationPolicy


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What one rank, or one of its workers, reads.

    Attributes:
        dataset: the uppermost node of the graph.
        context, policy: what it is built with, but for rank and number of ranks.
        num_shards: parts, L.
        rows_a_batch: of each batch.
        first: the number of the first batch; step: how far the next one is from it.
        places: where parts stand that have been read before.
    """

    dataset: Any
    context: DatasetBuildContext
    policy: DatasetIterationPolicy
    num_shards: int
    rows_a_batch: int
    first: int
    step: int
    places: Mapping[int, ShardPlace]

    def shared_out(self, num_workers: int) -> list["Reading"]:
        """The same for several workers, none of which reads a part that another one reads; their batches take turns.

        There may be fewer than ``num_workers``.
        """
        period = self.num_shards // gcd(self.num_shards, self.step)
        number = max(size for size in range(1, num_workers + 1) if period % size == 0)
        return [replace(self, first=self.first + self.step * one, step=self.step * number) for one in range(number)]

    def shards(self) -> set[int]:
        """The parts that it reads."""
        period = self.num_shards // gcd(self.num_shards, self.step)
        return {(self.first + self.step * turn) % self.num_shards for turn in range(period)}


class ReadBatch(NamedTuple):
    """The rows of a batch.

    Attributes:
        number: of the batch in the run.
        rows: None where the part has ended.
        place: where the part stands behind it.
    """

    number: int
    rows: list[Any] | None
    place: ShardPlace


def read_batches(reading: Reading, ledgers: dict[int, GraphLedger] | None = None) -> Iterator[ReadBatch]:
    """The batches of a reading, without end: those of a part that has ended have no rows.

    Args:
        reading: which.
        ledgers: gets the counts of each part's nodes, by its number.
    """
    shards: dict[int, _Shard] = {}
    warned: set[str] = set()  # of all parts: they have the same nodes
    number = reading.first
    try:
        while True:
            turn, shard = divmod(number, reading.num_shards)
            if shard not in shards:
                shards[shard] = _Shard(reading, shard, warned)
                if ledgers is not None:
                    ledgers[shard] = shards[shard].ledger
            yield ReadBatch(number, shards[shard].batch(turn), shards[shard].place)
            number += reading.step
    finally:
        for one in shards.values():
            one.close()


class _Shard:
    """One part, as an iterator of Grain.

    Args:
        reading: what is read.
        shard: the number of the part.
        warned: nodes of which much is known to be left out; it gets those of this part.
    """

    def __init__(self, reading: Reading, shard: int, warned: set[str]) -> None:
        policy = replace(reading.policy, dp_rank=shard, dp_world_size=reading.num_shards)
        built = reading.dataset.build(context=reading.context, dataset_iteration_policy=policy)
        self.ledger = graph_ledger(built)
        self._rows: grain.DatasetIterator[Any] = iter(as_stream(built, reading.context))
        self._size = reading.rows_a_batch
        self._num_batches = 0
        self._has_ended = False
        self._warned = warned
        place = reading.places.get(shard)
        if place is not None:
            self._num_batches = place.num_batches
            try:
                self._rows.set_state(json.loads(place.state))
            except Exception as error:
                self.close()
                raise LoaderStateError(
                    f"Part {shard} of the graph can't go on from its state {place.state[:200]}: {error}. Start anew."
                ) from error

    def batch(self, turn: int) -> list[Any] | None:
        """The rows of its batch of that number; it may not be one before the last that was asked for."""
        while self._num_batches < turn and not self._has_ended:
            self._next()
        return self._next()

    def _next(self) -> list[Any] | None:
        rows: list[Any] = []
        while len(rows) < self._size and not self._has_ended:
            try:
                rows.append(next(self._rows))
            except StopIteration:
                self._has_ended = True
        self._num_batches += bool(rows)
        self._warn()
        return rows or None

    def _warn(self) -> None:
        """Warns once of each node that drops much for its length, when it has seen many rows or all that there are."""
        for node in self.ledger.nodes:
            if node.name in self._warned or not node.rows_left_out["too_long"]:
                continue
            if self._has_ended or node.rows_in >= _ROWS_TO_JUDGE:
                rows, tokens = node.rows_left_out["too_long"], node.tokens_left_out["too_long"]
                if warn_of_too_long(node.name, rows=(rows, node.rows_in), tokens=(tokens, node.tokens_in)):
                    self._warned.add(node.name)

    @property
    def place(self) -> ShardPlace:
        """Where it stands."""
        return ShardPlace(self._num_batches, json.dumps(self._rows.get_state(), default=_plain))

    def close(self) -> None:
        """Ends threads of Grain."""
        self._rows.close()


_ROWS_TO_JUDGE = 1000
"""Of fewer, while a part is read, the share that is left out says little."""


def _plain(value: Any) -> Any:
    """Numbers of numpy as Python's."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"A state of Grain holds a {type(value).__name__}, which JSON has not.")
