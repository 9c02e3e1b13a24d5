"""Rows from Hugging Face's ``load_dataset``: read by number, or as a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe._suggest import listed
from torchpipe.config.configurable import Configurable
from torchpipe.errors import ConfigError, NoFingerprint
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.types import DatasetIterationPolicy
from torchpipe.sources.fingerprint import source_fingerprint
from torchpipe.sources.huggingface import describe_source
from torchpipe.sources.identity import object_fingerprint
from torchpipe.sources.shard_cursor import ShardCursor
from torchpipe.sources.streams import RowStream, load_table

_FIRST_CLASS = ("name", "revision", "split", "streaming")


@dataclass(kw_only=True, slots=True)
class LoadDatasetConfig(Configurable.Config):
    """What ``load_dataset`` is asked for.

    Attributes:
        path: its first argument: a repository of the Hub, or a format such as "json".
        split: which part; exactly one.
        name: of the repository's configuration.
        revision: of the repository: a commit, a branch or a tag.
        load_dataset_kwargs: its other arguments, such as ``data_files``.

    Raises:
        ConfigError: ``load_dataset_kwargs`` holds what has a field here (a ValueError).
    """

    path: str
    split: str
    name: str | None = None
    revision: str | None = None
    load_dataset_kwargs: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        repeated = [key for key in _FIRST_CLASS if key in self.load_dataset_kwargs]
        if repeated:
            raise ConfigError(
                f"first-class Hugging Face fields repeated in kwargs: {repeated}. Set {listed(repeated)} beside "
                "load_dataset_kwargs, which has none of them; streaming is what HuggingFaceStreamingSource is for."
            )

    def describe(self) -> str:
        """The file's or data set's name, and a split that cuts it."""
        return describe_source(self.path, self.options())

    def options(self) -> dict[str, Any]:
        """The arguments of ``load_dataset`` but for its first."""
        given = {"name": self.name, "revision": self.revision}
        return {
            "split": self.split,
            **{key: value for key, value in given.items() if value is not None},
            **self.load_dataset_kwargs,
        }


class HuggingFaceRandomAccessSource(Configurable):
    """The rows of one split of a data set, by number.

    Args:
        config: what ``load_dataset`` is asked for.
        dataset_iteration_policy: not used: orders and shares of rows are the graph's.

    Raises:
        KindError: ``load_dataset`` gives no ``datasets.Dataset`` (a TypeError).
        SourceError: it can't be loaded, or holds no rows.
        ConfigError: an option is refused.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(LoadDatasetConfig):
        """What ``load_dataset`` is asked for; see :class:`LoadDatasetConfig`."""

    can_be_read_ahead = True

    def __init__(self, config: Config, *, dataset_iteration_policy: DatasetIterationPolicy | None = None) -> None:
        self.config = config
        self._rows = load_table(config.path, config.options())

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Mapping[str, Any]:
        return self._rows[int(index)]

    def describe(self) -> str:
        """The file's or data set's name, and a split that cuts it."""
        return describe_source(self.config.path, self.config.options())

    def fingerprint(self) -> str:
        """What tells these rows from others: the files, or the repository's commit; else all bytes of the table."""
        try:
            return fingerprint(source_fingerprint(self.config.path, self.config.options()))
        except NoFingerprint:
            return object_fingerprint(self._rows)


class HuggingFaceStreamingSource(Configurable, grain.IterDataset[Mapping[str, Any]]):
    """The rows of one split of a data set as a stream, of which each rank gets its share.

    Each epoch reads the shards (files, or what ``load_dataset`` makes of them) one after another, rows in their order:
    without shuffling in the stream's order, with it in an order that is hashed from the seed and the epoch. So shards
    are in another order in the first epoch too, and every rank knows the same one.

    Of that order each rank reads as many shards as can be dealt out whole, and no other rank reads them. What is left
    over is shared by as few ranks as can have equally many of it: each of them reads such a shard, and keeps every so
    many-th row. So one file alone is read by every rank, and nothing is read in vain where the number of shards is a
    multiple of the number of ranks.

    Args:
        config: what ``load_dataset`` is asked for.
        dataset_iteration_policy: seed, order, share, and whether another epoch begins after the last row.

    Raises:
        KindError: ``load_dataset`` gives no one stream that can be resumed (a TypeError).
        SourceError: it can't be loaded. When a row is asked for: the stream can't be read on.
        ConfigError: an option is refused.
        DataError: when a row is asked for, with ``repeat``: this rank would never have one, for there are fewer rows
            than ranks, or its shards are empty in every epoch.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(LoadDatasetConfig):
        """What ``load_dataset`` is asked for; see :class:`LoadDatasetConfig`."""

    def __init__(self, config: Config, *, dataset_iteration_policy: DatasetIterationPolicy) -> None:
        grain.IterDataset.__init__(self)
        self.config = config
        self._policy = dataset_iteration_policy
        self._part, self._num_parts = dataset_iteration_policy.dp_rank, dataset_iteration_policy.dp_world_size
        self._stream = RowStream(config.path, config.options())

    @property
    def num_rows_of_epoch(self) -> int | None:
        """The rows of an epoch at most; None before one was read."""
        return self._stream.num_rows_of_epoch

    def __iter__(self) -> "HuggingFaceCursorIterator":
        return HuggingFaceCursorIterator(
            ShardCursor(
                self._stream,
                seed=self._policy.seed if self._policy.shuffle else None,
                repeat=self._policy.repeat,
                part=self._part,
                num_parts=self._num_parts,
            )
        )

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Keeps every ``sl.step``-th part of this rank's share: Grain's processes share a stream so.

        Raises:
            ConfigError: the slice stops somewhere, or one part after the other is asked for.
        """
        start, step = sl.start or 0, sl.step or 1
        if sequential_slice or sl.stop is not None or not 0 <= start < step:
            raise ConfigError(
                f"A stream can't be cut to {sl}. Keep every so many-th row: slice(worker, None, workers)."
            )
        policy = self._policy
        self._part = policy.dp_rank + policy.dp_world_size * start
        self._num_parts = policy.dp_world_size * step

    def fingerprint(self) -> str:
        """What tells these rows from others: the files, or the repository's commit.

        Raises:
            NoFingerprint: no commit is known, or a server doesn't say when a file changed.
        """
        return fingerprint(source_fingerprint(self.config.path, self.config.options()))


class HuggingFaceCursorIterator(grain.DatasetIterator[Mapping[str, Any]]):
    """Reads a stream. Its state is ``{"epoch": int, "hf": where in the epoch}``, of plain values."""

    def __init__(self, cursor: ShardCursor) -> None:
        super().__init__()
        self._cursor = cursor

    def __next__(self) -> Mapping[str, Any]:
        self._assert_not_closed()
        return next(self._cursor)

    def get_state(self) -> dict[str, Any]:
        """Where the next row stands."""
        return {"epoch": self._cursor.epoch, "hf": self._cursor.place()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes to where a state was taken. The shard that was being read is read again up to there.

        Raises:
            CheckpointError: the state is of another stream, seed or share, or of another release.
        """
        self._cursor.go_to(state["epoch"], state["hf"])
