"""Rows that ``load_dataset`` gives one after another, shard by shard, from any place on."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

from torchpipe.errors import KindError, SourceError
from torchpipe.sources.huggingface import describe_source, loaded

_ROWS_OF_PARQUET = 1000
"""Rows of a Parquet file that are decoded at a time."""


def _options_of(path: str, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options that ``load_dataset`` is given.

    Unless it is told, it decodes as many rows of a Parquet file at a time as stand in the file's first group, and fails
    where that is empty, as it is in an empty file that pyarrow or pandas has written.
    """
    return {"batch_size": _ROWS_OF_PARQUET, **options} if path == "parquet" else options


def load_table(path: str, options: Mapping[str, Any]) -> Any:
    """The ``datasets.Dataset`` that ``load_dataset`` gives.

    Args:
        path: its first argument.
        options: its others.

    Raises:
        KindError: it gives something else, as for all splits at once.
        SourceError: it can't be loaded, or holds no rows.
        ConfigError: an option is refused.
    """
    import datasets

    name = describe_source(path, options)
    rows = loaded(path, {**_options_of(path, options), "streaming": False}, name=name)
    if not isinstance(rows, datasets.Dataset):
        raise KindError(
            f"random-access Hugging Face source requires one Dataset; got {type(rows).__name__}. Name one split of "
            f"{path}, such as split='train'."
        )
    if len(rows) == 0:
        raise SourceError(f"{name} holds no rows. Check the split and the file.")
    return rows


class RowStream:
    """A stream of ``load_dataset``: rows in shards, which are its files or parts of them.

    Args:
        path: first argument of ``load_dataset``.
        options: its others.

    Attributes:
        num_rows_of_epoch: rows that were read of it in the last epoch that ended; None before one did.

    Raises:
        KindError: it gives no one stream, or one that can't be read on from a place.
        SourceError: it can't be loaded.
        ConfigError: an option is refused.
    """

    def __init__(self, path: str, options: Mapping[str, Any]) -> None:
        import datasets

        self.name = describe_source(path, options)
        stream = loaded(path, {**_options_of(path, options), "streaming": True}, name=self.name)
        if not isinstance(stream, datasets.IterableDataset):
            raise KindError(
                f"streaming Hugging Face source requires one IterableDataset; got {type(stream).__name__}. Name one "
                f"split of {path}, such as split='train'."
            )
        if not (hasattr(stream, "state_dict") and hasattr(stream, "load_state_dict")):
            raise KindError(
                "Hugging Face streaming source does not support exact resume: this release of datasets gives streams "
                "without state_dict. Install a newer one."
            )
        self._stream: Any = stream
        self.num_rows_of_epoch: int | None = None

    @property
    def num_shards(self) -> int:
        """How many shards there are."""
        return self._stream.num_shards

    def shard(self, number: int, state: Mapping[str, Any] | None = None) -> "Shard":
        """The rows of a shard, from its beginning or from where a state of it was taken."""
        return Shard(self._stream.shard(num_shards=self.num_shards, index=number), self.name, state)


class Shard(Iterator[Mapping[str, Any]]):
    """The rows of one shard of a :class:`RowStream`.

    Raises:
        SourceError: when a row is asked for: it can't be read.
    """

    def __init__(self, rows: Any, name: str, state: Mapping[str, Any] | None) -> None:
        self._dataset = rows
        self._name = name
        self._begins_at = None if state is None else deepcopy(dict(state))
        if state is not None:
            rows.load_state_dict(deepcopy(state))
        self._rows = iter(rows)
        self._has_begun = False

    def __next__(self) -> Mapping[str, Any]:
        self._begins_at = None
        try:
            if self._has_begun:
                return next(self._rows)
            with _unseen_worker():
                self._has_begun = True
                return next(self._rows)
        except StopIteration:
            raise
        except Exception as error:
            why = (str(error.__cause__ or error).splitlines() or [""])[0] or type(error).__name__
            raise SourceError(
                f"{self._name}: the stream can't be read on: {why}. Correct or restore the file, and start the run "
                "again; IndexedJsonlSource names the line of a malformed row, and can leave it out."
            ) from error

    def state(self) -> dict[str, Any]:
        """Where the next row stands: plain values, for :meth:`RowStream.shard`."""
        # The library tells it only once a row was read.
        return self._dataset.state_dict() if self._begins_at is None else deepcopy(self._begins_at)


@contextmanager
def _unseen_worker() -> Iterator[None]:
    """Hides from ``datasets`` that this is a worker of a torch ``DataLoader``.

    It would take a part of the shards for the worker when the first row is asked for, and nothing of a single one for
    most of them. Here it is given the worker's part already.
    """
    worker: Any = sys.modules.get("torch.utils.data._utils.worker")
    if worker is None:
        yield
        return
    held, worker._worker_info = worker._worker_info, None
    try:
        yield
    finally:
        worker._worker_info = held
