"""Packs of a store that is used while it is built: those of its finished shards, each planned on its own."""

import hashlib
import threading
import weakref
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.ledger_summary import LedgerSummary
from torchpipe.data.packing import Strategy, describe_packs, padding_pack
from torchpipe.datasets.packed import PackedDataset
from torchpipe.datasets.row_number import row_number
from torchpipe.store import TokenStore
from torchpipe.store.accounts import ledger_summary, sample_counts
from torchpipe.store.build_site import SHARD_ROWS
from torchpipe.store.by_shard import GrowingStore
from torchpipe.store.rows import StoreRecipe, keeps_rows_whole, kind_of, refuse_to_pack

_NUM_OPEN = 4
"""Shards that are kept open: a step reads one or two at a time, and workers are a few steps ahead."""


class GrowingPackedDataset(Dataset[dict[str, torch.Tensor]]):
    """Packs as those of :class:`~torchpipe.datasets.PackedDataset`, of each shard of a store as soon as it is finished.

    A process in the background builds the store, if it isn't there yet; it ends with this one, and what it has finished
    is kept. Each shard is planned on its own, so that its packs depend on its rows and the options alone, and none has
    samples of two shards. Packs are numbered through all shards. :class:`~torchpipe.loading.ShardSteps` makes steps of
    them that are the same whether the store was finished or not.

    Args:
        recipe: of the samples.
        max_seq_len, padding_idx, split_across_pack, strategy, max_documents: as for ``PackedDataset``.
        cache_dir, num_proc: as for ``PackedDataset``.
        shard_rows: rows of the source a shard.

    Attributes:
        name: what errors call the samples; kind: which kind they are, None where it isn't known.
        max_seq_len: tokens of a pack.
        can_be_read_ahead: True, see :func:`~torchpipe.data.protocols.can_be_read_ahead`.

    Raises:
        ConfigError: an option is not possible.
    """

    can_be_read_ahead = True

    def __init__(
        self,
        recipe: StoreRecipe,
        *,
        max_seq_len: int,
        padding_idx: int = 0,
        split_across_pack: bool = False,
        strategy: Strategy | str | Callable[..., Any] | None = None,
        max_documents: int | None = None,
        cache_dir: str | Path | None = None,
        num_proc: int | None = None,
        shard_rows: int = SHARD_ROWS,
    ) -> None:
        self.name, self.kind = recipe.name, kind_of(recipe)
        refuse_to_pack(self.kind)
        self.max_seq_len = max_seq_len
        self._lock = threading.RLock()  # of what is known of the shards, which a loader's thread asks for too
        self._checks: list[Callable[[SampleCounts], None]] = []
        self._padding_idx = padding_idx
        self._options = {
            "max_seq_len": max_seq_len,
            "padding_idx": padding_idx,
            "split_across_pack": split_across_pack,
            "strategy": strategy,
            "max_documents": max_documents,
            "by_row": keeps_rows_whole(recipe),
        }
        # What a data set of packs refuses is refused now, not when the first shard is there.
        PackedDataset([{"tokens": [0], "labels": [IGNORE_INDEX]}], **self._options)
        self._store: GrowingStore | None = GrowingStore(
            recipe, cache_dir=cache_dir, num_proc=num_proc, shard_rows=shard_rows
        )
        weakref.finalize(self, self._store.close).atexit = False  # at exit the store sees to it itself
        self._folder = self._store.folder
        self._whole: TokenStore | None = None
        self._error: Exception | None = None
        # Of the shards that are known, in order: where their packs end, and a hash of them.
        self._ends: list[int] = []
        self._digests: list[str] = []
        self._counts: list[SampleCounts] = []
        self._num_documents = self._num_tokens = 0
        self._open: dict[int, PackedDataset | None] = {}

    @property
    def num_rows(self) -> int:
        """Rows of the source; waits until it is known."""
        assert self._store is not None
        return self._store.num_rows

    @property
    def num_shards(self) -> int | None:
        """Shards of the store; None before it is finished."""
        return None if self._whole is None else len(self._whole.shards)

    @property
    def counts(self) -> SampleCounts | None:
        """What became of the rows; None before the store is finished."""
        return None if self._whole is None else sample_counts(self._whole)

    @property
    def ledger(self) -> LedgerSummary | None:
        """What became of the rows, with the first of each reason; None before the store is finished."""
        return None if self._whole is None else ledger_summary(self._whole)

    @property
    def first_part(self) -> PackedDataset:
        """The packs of the first shard that has any; waits for it."""
        return self.part_of(0)[0]

    def describe(self) -> str:
        """One line on the packs that are there."""
        return describe_packs(
            num_packs=self._num_packs,
            num_documents=self._num_documents,
            num_tokens=self._num_tokens,
            capacity=self._num_packs * self.max_seq_len,
        )

    def check_with(self, check: Callable[[SampleCounts], None]) -> None:
        """Calls a function with what became of the rows of each shard, now for those that are there, and for the others
        before they are trained on: what it raises then, :meth:`wait_for` raises.
        """
        with self._lock:
            for counts in self._counts:
                check(counts)
            self._checks.append(check)

    def is_there(self, shard: int | None) -> bool:
        """Whether a shard and those before it can be read, or it is known that there are none of that number.

        Args:
            shard: None: all of them, and the store is finished.
        """
        with self._lock:
            while shard is None or shard >= len(self._ends):
                store = self._store
                if self._error is not None or store is None:
                    return False
                if self._whole is None and store.is_published:
                    self._whole = store.whole()
                if len(self._ends) == self.num_shards:
                    return True
                if not store.has_shard(len(self._ends)):
                    return False
                try:
                    self._add_shard()
                except Exception as error:  # raised where the shard is waited for: those before it can be trained on
                    self._error = error
            return True

    def wait_for(self, shard: int | None, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Waits until :meth:`is_there` is true, or ``stop()``; returns which of the two it was.

        Raises:
            Exception: a row's error, that of the builder, that of a plan, or what a check raises.
        """
        if self._store is None:  # in a worker, which is asked for packs of finished shards alone
            while shard is not None and shard >= len(self._ends):
                self._add_shard()
            return True
        there = self._store.wait_until(lambda: self.is_there(shard) or self._error is not None, stop=stop)
        if self._error is not None and not self.is_there(shard):
            raise self._error
        return there

    def packs_of(self, shard: int) -> range:
        """The numbers of the packs of a shard that is there."""
        return range(self._ends[shard - 1] if shard else 0, self._ends[shard])

    def of_packs(self, name: str, packs: np.ndarray) -> np.ndarray | None:
        """``trained_counts`` or ``costs`` int64 [packs], or ``weight_sums`` float64 [packs]; None: none has weights.

        Args:
            packs: their numbers, int64 [packs].
        """
        shards = np.searchsorted(self._ends, packs, side="right")
        parts = {shard: self._part(shard) for shard in np.unique(shards).tolist()}
        columns = {shard: getattr(part, name) for shard, part in parts.items()}
        if all(column is None for column in columns.values()):
            return None
        found = np.empty(len(packs), np.float64 if name == "weight_sums" else np.int64)
        for shard, column in columns.items():
            here = shards == shard
            values = parts[shard].trained_counts if column is None else column  # without weights, each token weighs 1
            found[here] = values[packs[here] - self.packs_of(shard).start]
        return found

    def digest_of(self, num_shards: int) -> str:
        """A hash of all packs of the first shards, which are there: 32 hexadecimal digits."""
        return hashlib.blake2b("".join(self._digests[:num_shards]).encode(), digest_size=16).hexdigest()

    def __len__(self) -> int:
        """The packs of the whole store; waits until it is finished."""
        self.wait_for(None)
        return self._num_packs

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """A pack; waits for its shard. A negative number waits for the whole store."""
        index = row_number(index)
        part, place = self.part_of(index if index >= 0 else index + len(self))
        return part[place]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, torch.Tensor]]:
        """Several packs: what torch's ``DataLoader`` asks for."""
        places = [self.part_of(row_number(index)) for index in indices]
        parts = {id(part): part for part, _ in places}
        read = {
            key: iter(part.__getitems__([place for one, place in places if one is part])) for key, part in parts.items()
        }
        return [next(read[id(part)]) for part, _ in places]

    def padding_pack(self) -> dict[str, torch.Tensor]:
        """An item of padding alone, which trains nothing."""
        return padding_pack(self.max_seq_len, padding_idx=self._padding_idx, has_weights=False)

    def close(self) -> None:
        """Ends the process that builds, if this object has started one."""
        if self._store is not None:
            self._store.close()

    @property
    def _num_packs(self) -> int:
        return self._ends[-1] if self._ends else 0

    def part_of(self, pack: int) -> tuple[PackedDataset, int]:
        """The packs of a pack's shard, and its number there."""
        while pack >= self._num_packs:
            if len(self._ends) == self.num_shards:
                raise IndexError(f"Pack {pack} was asked for, and there are {self._num_packs} packs.")
            self.wait_for(len(self._ends))
        shard = bisect_right(self._ends, pack)
        return self._part(shard), pack - self.packs_of(shard).start

    def _add_shard(self) -> None:
        """Plans the next shard, which is finished."""
        shard = len(self._ends)
        part = self._opened(shard)
        num_packs, digest = 0, "no packs"
        if part is not None:
            for check in self._checks:
                check(part.counts)
            self._counts.append(part.counts)
            num_packs = len(part)
            digest = hashlib.blake2b(part.fingerprint.encode() + part.costs.tobytes(), digest_size=16).hexdigest()
            self._num_documents += len(part.plan.sample)
            self._num_tokens += int(part.plan.num_tokens.sum())
        self._ends.append(self._num_packs + num_packs)
        self._digests.append(digest)

    def _part(self, shard: int) -> PackedDataset:
        part = self._opened(shard)
        assert part is not None, "a shard without tokens has no pack to ask for"
        return part

    def _opened(self, shard: int) -> PackedDataset | None:
        """The packs of a shard; None where it has no token."""
        with self._lock:
            if shard not in self._open:
                while len(self._open) >= _NUM_OPEN:
                    del self._open[next(iter(self._open))]
                store = TokenStore.open_shards(self._folder, [shard], verify="lazy")
                self._open[shard] = PackedDataset(store, **self._options) if store.num_tokens else None
            return self._open[shard]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, **_OF_THE_PROCESS, "_open": {}, "_checks": []}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


_OF_THE_PROCESS = dict.fromkeys(("_store", "_whole", "_error", "_lock"))
"""What a copy for another process has not."""
