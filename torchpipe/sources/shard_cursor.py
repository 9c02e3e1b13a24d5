"""A place in a stream of shards, epoch after epoch: which rows a part of the ranks reads, and in which order."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe.errors import CheckpointError, DataError
from torchpipe.sources.streams import RowStream, Shard


class ShardCursor(Iterator[Mapping[str, Any]]):
    """The rows that one part of several reads of a stream.

    Args:
        stream: of shards.
        seed: of the shards' order, which is hashed for each epoch; None: they stay in the stream's order.
        repeat: whether an epoch follows the last one. A stream without any row ends either way.
        part: which one this is, from 0.
        num_parts: of how many, which together read each row once an epoch.
        epoch: which is read first.

    Attributes:
        epoch: of the next row.

    Raises:
        DataError: at the end of an epoch: there are fewer rows than parts.
    """

    def __init__(
        self, stream: RowStream, *, seed: int | None, repeat: bool, part: int, num_parts: int, epoch: int = 0
    ) -> None:
        self._stream = stream
        self._seed = seed
        self._repeat = repeat
        self._part, self._num_parts = part, num_parts
        self._shares_shards = stream.num_shards % num_parts == 0
        self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._order = self._shards_of(epoch)
        self._read: Shard | None = None
        self._at = 0  # in the order
        self._num_rows = 0  # that were read in this epoch

    def _shards_of(self, epoch: int) -> list[int]:
        """The shards that this part reads in an epoch, in order."""
        count = self._stream.num_shards
        order = np.arange(count)
        if self._seed is not None:
            order = hashed_permutation(count, derive(self._seed, "shards", epoch))
        return order[self._part :: self._num_parts].tolist() if self._shares_shards else order.tolist()

    def __next__(self) -> Mapping[str, Any]:
        while True:
            if self._at == len(self._order):
                self._end_epoch()
            if self._read is None:
                self._read = self._stream.shard(self._order[self._at])
            try:
                row = next(self._read)
            except StopIteration:
                self._read, self._at = None, self._at + 1
                continue
            number, self._num_rows = self._num_rows, self._num_rows + 1
            if self._shares_shards or number % self._num_parts == self._part:
                return row

    def _end_epoch(self) -> None:
        if not self._shares_shards and 0 < self._num_rows < self._num_parts:
            raise DataError(
                f"{self._stream.name} has {self._num_rows} rows, fewer than the {self._num_parts} ranks (and worker "
                "processes) that share it. Use fewer, or more rows."
            )
        if not self._repeat or not self._num_rows:
            raise StopIteration
        self._stream.num_rows_of_epoch = self._num_rows
        self._begin(self.epoch + 1)

    def place(self) -> dict[str, Any]:
        """Where the next row stands in the epoch, in plain values, and what that depends on."""
        return {
            "num_shards": self._stream.num_shards,
            "part": [self._part, self._num_parts],
            "at": self._at,
            "shard": self._order[self._at] if self._at < len(self._order) else None,
            "num_rows": self._num_rows,
            "state": None if self._read is None else self._read.state(),
        }

    def go_to(self, epoch: int, place: Mapping[str, Any]) -> None:
        """Makes the row that stood next at a place in an epoch the next one.

        Raises:
            CheckpointError: the place is one of another stream, seed or part.
        """
        name = self._stream.name
        if place["num_shards"] != self._stream.num_shards:
            raise CheckpointError(
                f"{name} had {place['num_shards']} shards when the state was saved, and has {self._stream.num_shards}. "
                "Resume with the files of then."
            )
        if list(place["part"]) != [self._part, self._num_parts]:
            part, num_parts = place["part"]
            raise CheckpointError(
                f"{name}: the state is one of part {part} of {num_parts}, and this is part {self._part} of "
                f"{self._num_parts}. Resume on as many ranks and worker processes, each with its own state."
            )
        self._begin(epoch)
        at = place["at"]
        if (self._order[at] if at < len(self._order) else None) != place["shard"]:
            raise CheckpointError(
                f"{name}: the state was saved in shard {place['shard']}, and the seed or the shuffling is another one "
                "now, which gives another order of shards. Resume with those of then."
            )
        self._at, self._num_rows = at, place["num_rows"]
        if place["state"] is not None:
            self._read = self._stream.shard(self._order[at], place["state"])
