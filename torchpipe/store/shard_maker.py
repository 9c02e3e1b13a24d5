"""Makes the shards of a store from its rows, one after the other."""

import pickle
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchpipe.errors import StoreError
from torchpipe.store.flat_samples import FlatSamples
from torchpipe.store.manifest import shard_folder
from torchpipe.store.refused_rows import TooManyRefusedError
from torchpipe.store.rows import Made, RowSamples, StoreRecipe, policy_of
from torchpipe.store.shard import write_shard
from torchpipe.store.shard_data import ShardData

_ROWS_AT_ONCE = 256


@dataclass(kw_only=True)
class ShardMaker:
    """Makes shards, in this process or, sent there, in another, which opens the rows anew.

    Attributes:
        recipe: of the samples.
        folder: of the store.
        shard_rows: rows a shard.
        row: the one being made into samples; None between shards.
    """

    recipe: StoreRecipe
    folder: Path
    shard_rows: int
    row: int | None = None
    _rows: RowSamples | None = field(default=None, repr=False)

    @property
    def rows(self) -> RowSamples:
        """The rows, opened when they are first asked for."""
        if self._rows is None:
            self._rows = self.recipe.open()
        return self._rows

    @property
    def num_shards(self) -> int:
        """Shards of the whole store."""
        return -(-self.rows.num_rows // self.shard_rows)

    def rows_of(self, shard: int) -> range:
        """The rows of a shard."""
        first = shard * self.shard_rows
        return range(first, min(first + self.shard_rows, self.rows.num_rows))

    def samples_of(self, shard: int, advance: Callable[[int], None]) -> ShardData:
        """The samples of a shard.

        Args:
            shard: its number.
            advance: called with the number of rows done since it was last called.

        Raises:
            TooManyRefusedError: so many of its rows can't be used that the whole store can't be built.
            Exception: a row's own error, which names it.
        """
        rows = self.rows_of(shard)
        allowed = policy_of(self.recipe).num_allowed(self.rows.num_rows)
        flat = FlatSamples(name=self.rows.name, vocab_size=self.rows.vocab_size, samples_a_row=self.rows.samples_a_row)
        for start in range(rows.start, rows.stop, _ROWS_AT_ONCE):
            some = range(start, min(start + _ROWS_AT_ONCE, rows.stop))
            for row, made in zip(some, self._made(some), strict=True):
                self.row = row
                flat.add_row(row, made)
                if flat.num_refused > allowed:
                    raise TooManyRefusedError(lines=flat.refused)
            advance(len(some))
        self.row = None
        return flat.finished(first_row=rows.start, num_rows=len(rows))

    def _made(self, rows: range) -> Iterable[Made]:
        try:
            return self.rows.samples_of_rows(rows)
        except Exception:
            return self._one_by_one(rows)  # which meets the error again, and says at which row

    def _one_by_one(self, rows: range) -> Iterator[Made]:
        for row in rows:
            self.row = row
            yield self.rows.samples_of(row)

    def error_of(self, row: int | None, sent: bytes) -> Exception:
        """The error that another process met, with the traceback of this one where the row can be tried again.

        Args:
            row: where it was met; None: not at a row.
            sent: what :func:`as_sent` made of it.
        """
        if row is not None:
            try:
                self.rows.samples_of(row)
            except Exception as error:
                return error
        return pickle.loads(sent)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_rows": None}


class ShardWriter:
    """Writes a shard in a thread while the next one is made: most of writing is waiting for the disk.

    Attributes:
        shard: the number of the one being written; None: none is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future[Any] | None = None
        self.shard: int | None = None

    def begin(self, shard: int, data: ShardData) -> None:
        """Begins to write a shard; the one before is finished."""
        assert self._writing is None
        self.shard = shard
        self._writing = self._thread.submit(write_shard, shard_folder(self._folder, shard), data)

    def finished(self) -> int | None:
        """Waits, and returns the number of the shard that was being written, if one was.

        Raises:
            StoreError: it can't be written.
        """
        if self._writing is None:
            return None
        writing, self._writing = self._writing, None
        writing.result()
        return self.shard

    def __enter__(self) -> "ShardWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        """Waits for what is being written, so that nothing is written once the lock is gone."""
        self._thread.shutdown(wait=True)


def as_sent(error: Exception) -> bytes:
    """The error in a form that another process can read: itself, or a StoreError with its words."""
    try:
        sent = pickle.dumps(error)
        if str(pickle.loads(sent)) == str(error):
            return sent
    except Exception:  # whatever a user's exception does when it is copied
        pass
    return pickle.dumps(StoreError(f"A worker process met {type(error).__name__}: {error}"))
