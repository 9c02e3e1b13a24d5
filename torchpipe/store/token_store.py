"""A store of tokenised samples on the disk, memory-mapped: any span of any sample, without holding tokens in memory."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import StoreError
from torchpipe.store.array_file import Verify
from torchpipe.store.manifest import (
    INDEX,
    MANIFEST_JSON,
    check_rows,
    digest_of,
    read_key,
    read_manifest,
    shard_folder,
)
from torchpipe.store.sample_index import SampleIndex, joined
from torchpipe.store.shard import Shard, open_shard


class TokenStore:
    """Tokenised samples. Made by :meth:`open` or, while it is still being built, by :meth:`open_shards`.

    Attributes:
        path: the folder.
        verify: how what is read is checked.
        key: what the store was made of.
        digest: a hash of all samples; equal where the same samples are in the same shards.
        ledger: what became of the source's rows, by reason; empty before the store is finished.
        lengths: uint32 [samples], tokens of each.
        trained_counts: uint32 [samples], labels of each that are not -100.
        offsets: int64 [samples + 1], where each begins in the store's tokens, as if its shards were one.
        num_samples, num_tokens, num_rows: totals; rows are those of the source, with and without samples.
        has_weights: whether the samples have loss weights.
        largest_token_id: which the model's vocabulary has to hold; -1 without tokens.
    """

    def __init__(
        self,
        path: Path,
        shards: Sequence[Shard],
        index: SampleIndex,
        *,
        verify: Verify,
        key: dict[str, Any],
        ledger: dict[str, int],
        numbers: Sequence[int] | None,
    ) -> None:
        self.path = path
        self.verify: Verify = verify
        self.key = key
        self.ledger = ledger
        self.digest = digest_of(shards)
        self.lengths, self.trained_counts, self.offsets = index.lengths, index.trained_counts, index.offsets
        self.num_samples = len(self.lengths)
        self.num_tokens = int(self.offsets[-1])
        self.num_rows = sum(len(shard.row_range) for shard in shards)
        self.has_weights = any(shard.has_weights for shard in shards)
        self.largest_token_id = max((shard.facts["largest_token_id"] for shard in shards), default=-1)
        self.shards = shards
        self._numbers = numbers
        self._first_samples = np.concatenate([[0], np.cumsum([s.num_samples for s in shards], dtype=np.int64)])
        self._first_tokens = self.offsets[self._first_samples]

    @classmethod
    def open(cls, path: str | Path, *, verify: Verify = "sizes") -> "TokenStore":
        """The finished store in a folder, in milliseconds."""
        folder = Path(path)
        manifest = read_manifest(folder)
        shards = [
            open_shard(shard_folder(folder, number), shard_hash=found) for number, found in enumerate(manifest.shards)
        ]
        files = SampleIndex.files(folder / INDEX, manifest.index)
        with suppress(OSError):  # a store that may only be read
            os.utime(folder / MANIFEST_JSON)
        return cls(
            folder,
            shards,
            SampleIndex.mapped(files),
            verify=verify,
            key=read_key(folder, key_hash=manifest.key),
            ledger=dict(manifest.ledger),
            numbers=None,
        )

    @classmethod
    def open_shards(cls, path: str | Path, numbers: Sequence[int], *, verify: Verify = "sizes") -> "TokenStore":
        """A store of some finished shards of a folder, in the order of their numbers, whether or not all are there."""
        folder = Path(path)
        shards = [open_shard(shard_folder(folder, number)) for number in sorted(numbers)]
        check_rows(shards)
        return cls(
            folder,
            shards,
            SampleIndex.of(shards),
            verify=verify,
            key=read_key(folder),
            ledger={},
            numbers=sorted(numbers),
        )

    @property
    def rows(self) -> np.ndarray:
        """The source row that each sample came from, int64 [samples]."""
        return joined(self.shards, "rows", np.int64)

    @property
    def left_out(self) -> np.ndarray:
        """The rows that have no sample, and the code of the reason, int64 [k, 2]."""
        return np.concatenate([np.zeros((0, 2), np.int64), *(shard.array("left_out") for shard in self.shards)])

    def __len__(self) -> int:
        return self.num_samples

    def sample(self, index: int) -> dict[str, np.ndarray]:
        """One sample: ``tokens`` and ``labels`` int64 [n], and ``loss_weights`` float32 [n] if the store has them."""
        if not 0 <= index < self.num_samples:
            raise IndexError(f"Sample {index}: the store has {self.num_samples} samples.")
        length = int(self.lengths[index])
        found = {"tokens": np.empty(length, np.int64), "labels": np.empty(length, np.int64)}
        if self.has_weights:
            found["loss_weights"] = np.empty(length, np.float32)
        self.gather(np.array([index]), np.array([0]), np.array([length]), **found)
        return found

    def gather(
        self,
        sample: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
        *,
        tokens: np.ndarray,
        labels: np.ndarray,
        loss_weights: np.ndarray | None = None,
    ) -> None:
        """Writes the spans ``[start, stop)`` of samples one after another into the given arrays."""
        shard_of = np.searchsorted(self._first_samples, sample, side="right") - 1
        at = 0
        for number, index, first, last in zip(
            shard_of.tolist(), np.asarray(sample).tolist(), start.tolist(), stop.tolist(), strict=True
        ):
            shard = self.shards[number]
            begin = int(self.offsets[index] - self._first_tokens[number])
            low, high = begin + first, begin + last
            flat = shard.array("tokens")
            tokens[at : at + high - low] = flat[low:high]
            out = labels[at : at + high - low]
            if "labels" in shard.files:
                out[:] = shard.array("labels")[low:high]
            elif high > low:
                out[:-1] = flat[low + 1 : high]
                if last < self.lengths[index]:
                    out[-1] = flat[high]
                elif "last_labels" in shard.files:
                    out[-1] = shard.array("last_labels")[index - self._first_samples[number]]
                bits = shard.array("trained")[low >> 3 : (high + 7) >> 3]
                out[np.unpackbits(bits, bitorder="little")[low & 7 :][: high - low] == 0] = IGNORE_INDEX
            if loss_weights is not None:
                weights = shard.array("loss_weights")[low:high] if shard.has_weights else 1.0
                loss_weights[at : at + high - low] = weights
            at += high - low

    def trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """How many labels of each span are not -100: int64 [spans]."""
        total = np.zeros(len(sample), np.int64)
        for k in range(len(sample)):
            length = int(stop[k] - start[k])
            labels = np.empty(length, np.int64)
            self.gather(
                sample[k : k + 1], start[k : k + 1], stop[k : k + 1], tokens=np.empty_like(labels), labels=labels
            )
            total[k] = (labels != IGNORE_INDEX).sum()
        return total

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (str(self.path), self.verify, self._numbers, self.digest)


def _reopened(path: str, verify: Verify, numbers: Sequence[int] | None, digest: str) -> TokenStore:
    """The store that was pickled."""
    opened = (
        TokenStore.open(path, verify=verify)
        if numbers is None
        else TokenStore.open_shards(path, numbers, verify=verify)
    )
    if opened.digest != digest:
        raise StoreError(f"{path} holds other samples than when it was sent here. Start again.")
    return opened
