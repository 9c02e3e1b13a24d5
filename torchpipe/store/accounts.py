"""What the shards of a store say of its rows: the ledger, and counts of samples."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from torchpipe.data.ledger import Ledger, SampleCounts
from torchpipe.data.ledger_summary import LedgerSummary
from torchpipe.errors import StoreError
from torchpipe.store.flat_samples import READ_FILE, REMARKS_FILE
from torchpipe.store.reading import REBUILD
from torchpipe.store.shard import Shard
from torchpipe.store.token_store import TokenStore

_TOTALS = ("truncated_tokens", "unproved_turns", "dropped_images")


def ledger_of(shards: Sequence[Shard]) -> Ledger:
    """The ledger of some shards, as their files stand on the disk."""
    return Ledger.joined(
        Ledger.of_columns(
            read=_ids(shard.array(READ_FILE)),
            rows=shard.array("rows"),
            left_out=shard.array("left_out"),
            remarks=shard.array(REMARKS_FILE),
        )
        for shard in shards
    )


def ledger_counts(shards: Sequence[Shard]) -> dict[str, int]:
    """How many rows each set of the ledger has, and what was counted beside; shard by shard, to take little memory.

    Raises:
        DataError: a shard's ids are not disjoint, or do not cover the rows that it is of.
    """
    counts: Counter[str] = Counter()
    for shard in shards:
        ledger = ledger_of([shard])
        ledger.check()
        if not np.array_equal(ledger.read, np.asarray(shard.row_range)):
            raise StoreError(f"{shard.folder} is of the rows {shard.row_range}, and others were read to make it.")
        counts.update(ledger.as_counts())
        counts.update(shard.facts["counts"])
    return dict(sorted(counts.items()))


def checked_ledger(store: TokenStore) -> dict[str, int]:
    """How many rows each set of a finished store's ledger has. The ids of all shards are read and compared.

    Raises:
        DataError: a row has no fate, or two.
        StoreError: the manifest counts otherwise.
    """
    ledger = ledger_of(store.shards)
    ledger.check(store.num_rows)
    sizes = ledger.as_counts()
    wrong = [name for name, size in sizes.items() if store.ledger and store.ledger.get(name, 0) != size]
    if wrong:
        raise StoreError(
            f"{store.path}: its manifest counts {store.ledger.get(wrong[0], 0):,} rows as {wrong[0]}, and its shards "
            f"have {sizes[wrong[0]]:,}. {REBUILD}"
        )
    return sizes


def sample_counts(store: TokenStore) -> SampleCounts:
    """What became of a store's rows and samples, without reading a token."""
    ledger = store.ledger or ledger_counts(store.shards)
    return SampleCounts.of_sets(
        ledger,
        rows=store.num_samples,
        tokens=store.num_tokens,
        trained_tokens=int(store.trained_counts.sum(dtype=np.int64)),
        untrained_rows=int((store.trained_counts == 0).sum()),
        longest=int(store.lengths.max(initial=0)),
        largest_token_id=store.largest_token_id,
        digest=store.digest,
        **{name: ledger.get(name, 0) for name in _TOTALS},
    )


def ledger_summary(store: TokenStore) -> LedgerSummary:
    """What became of a store's rows, for people."""
    return LedgerSummary.of_pairs(read=store.num_rows, left_out=store.left_out)


def _ids(ranges: np.ndarray) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=np.int64), *(np.arange(start, stop) for start, stop in ranges.tolist())])
