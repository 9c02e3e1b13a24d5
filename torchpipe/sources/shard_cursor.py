"""A place in a stream of shards, epoch after epoch: which rows a part of the ranks reads, and in which order."""

from collections.abc import Iterator, Mapping
from typing import Any

from torchpipe._seeds import derive, hashed_permutation
from torchpipe.errors import CheckpointError, DataError
from torchpipe.sources.shard_share import ShardShare, share_of
from torchpipe.sources.streams import RowStream, Shard

_PLACE = frozenset({"num_shards", "part", "at", "shard", "num_shared", "num_given", "state"})


class ShardCursor(Iterator[Mapping[str, Any]]):
    """The rows that one part of several reads of a stream.

    Which shards it reads of an epoch, and which rows of those that other parts read too, is
    :func:`~torchpipe.sources.shard_share.share_of` of the epoch's order, which all parts know.

    Args:
        stream: of shards.
        seed: of the shards' order, which is hashed for each epoch; None: they stay in the stream's order.
        repeat: whether an epoch follows the last one, and one with rows an epoch of which this part has none.
        part: which one this is, from 0.
        num_parts: of how many, which together read each row once an epoch.
        epoch: which is read first.

    Attributes:
        epoch: of the next row.

    Raises:
        DataError: at the end of an epoch, with ``repeat``: the stream has no rows, or too few for this part to get any.
    """

    def __init__(
        self, stream: RowStream, *, seed: int | None, repeat: bool, part: int, num_parts: int, epoch: int = 0
    ) -> None:
        self._stream = stream
        self._seed = seed
        self._repeat = repeat
        self._part, self._num_parts = part, num_parts
        self._sizes: dict[int, int] = {}  # of shards that gave this part no row
        self._begin(epoch)

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._share = self._share_of(epoch)
        self._shards = self._share.shards
        self._read: Shard | None = None
        self._at = 0  # in the shards
        self._num_of_shard = 0  # rows that were read of it, where all of it is read
        self._num_shared = 0  # rows that were read of shared shards
        self._num_given = 0

    def _share_of(self, epoch: int) -> ShardShare:
        count = self._stream.num_shards
        order = list(range(count))
        if self._seed is not None:
            order = hashed_permutation(count, derive(self._seed, "shards", epoch)).tolist()
        return share_of(order, part=self._part, num_parts=self._num_parts)

    def __next__(self) -> Mapping[str, Any]:
        while True:
            if self._at == len(self._shards):
                self._end_epoch()
            if self._read is None:
                self._read, self._num_of_shard = self._stream.shard(self._shards[self._at]), 0
            try:
                row = next(self._read)
            except StopIteration:
                if not self._num_given:
                    self._sizes[self._shards[self._at]] = self._num_of_shard
                self._read, self._at = None, self._at + 1
                continue
            self._num_of_shard += 1
            if self._is_kept():
                self._num_given += 1
                return row

    def _is_kept(self) -> bool:
        """Whether the row that was read last is this part's. Counts it where it is of a shared shard."""
        if self._at < len(self._share.whole):
            return True
        number, self._num_shared = self._num_shared, self._num_shared + 1
        return number % self._share.of == self._share.keeps

    def _end_epoch(self) -> None:
        if not self._repeat:
            raise StopIteration
        if not self._share.whole and self._share.of == self._num_parts and self._num_shared < self._num_parts:
            self._refuse(self._num_shared)  # it has read all of the stream
        if not self._num_given:
            self._look_for_rows()
        self._stream.num_rows_of_epoch = max(self._num_given, self._stream.num_rows_of_epoch or 0)
        self._begin(self.epoch + 1)

    def _look_for_rows(self) -> None:
        """Refuses to go on where no later epoch has a row for this part either."""
        if len(self._sizes) == self._stream.num_shards:
            sizes = sorted(self._sizes.values(), reverse=True)
            most = sum(sizes) if self._share.whole else sum(sizes[: len(self._share.shared)]) - self._share.keeps
            if most <= 0:
                self._refuse(sum(sizes))
        if self._seed is None:
            raise DataError(
                f"Part {self._part} of {self._num_parts} of {self._stream.name} has no row: its shards are "
                f"{list(self._shards)} in each epoch, which have too few. Shuffle, so that it has others in other "
                "epochs; use fewer ranks (or worker processes, or num_logical_shards); or leave out empty files."
            )

    def _refuse(self, num_rows: int) -> None:
        if not num_rows:
            raise DataError(f"{self._stream.name} holds no rows. Check the split and the files.")
        raise DataError(
            f"{self._stream.name} has {num_rows} rows, fewer than the {self._num_parts} ranks (and worker "
            "processes) that share it. Use fewer, or more rows."
        )

    def place(self) -> dict[str, Any]:
        """Where the next row stands in the epoch, in plain values, and what that depends on."""
        return {
            "num_shards": self._stream.num_shards,
            "part": [self._part, self._num_parts],
            "at": self._at,
            "shard": self._shards[self._at] if self._at < len(self._shards) else None,
            "num_shared": self._num_shared,
            "num_given": self._num_given,
            "state": None if self._read is None else self._read.state(),
        }

    def go_to(self, epoch: int, place: Mapping[str, Any]) -> None:
        """Makes the row that stood next at a place in an epoch the next one.

        Raises:
            CheckpointError: the place is one of another stream, seed or part, or of a release that shared shards out
                otherwise.
        """
        name = self._stream.name
        if set(place) != _PLACE:
            raise CheckpointError(
                f"{name}: the state is of another release of torchpipe, which shared shards out otherwise. Start anew, "
                "or resume with that one."
            )
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
        if (self._shards[at] if at < len(self._shards) else None) != place["shard"]:
            raise CheckpointError(
                f"{name}: the state was saved in shard {place['shard']}, and the seed or the shuffling is another one "
                "now, which gives another order of shards. Resume with those of then."
            )
        self._at, self._num_shared, self._num_given = at, place["num_shared"], place["num_given"]
        if place["state"] is not None:
            self._read = self._stream.shard(self._shards[at], place["state"])
