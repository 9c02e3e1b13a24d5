"""A store of tokenised samples on the disk, memory-mapped: any span of any sample, without holding tokens in memory."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, StoreError
from torchpipe.store.array_file import VERIFY, Verify
from torchpipe.store.in_use import hold
from torchpipe.store.manifest import (
    INDEX,
    MANIFEST_JSON,
    check_rows,
    digest_of,
    open_shards,
    read_key,
    read_manifest,
)
from torchpipe.store.reading import REBUILD
from torchpipe.store.rows import KIND_OF_PAIRS
from torchpipe.store.sample_index import SampleIndex
from torchpipe.store.shard import Shard
from torchpipe.store.span_reader import SpanReader


class TokenStore:
    """Tokenised samples. Made by :meth:`open` or, while it is still being built, by :meth:`open_shards`.

    It holds no tokens in memory: the shards are memory-mapped, so that all processes of a machine share their pages,
    and so are ``lengths``, ``trained_counts`` and ``offsets`` of a finished store. Pickled, it is its path; it opens
    again where it is unpickled, and says so where other samples are found there.

    Attributes:
        path: the folder.
        verify: how what is read is checked.
        key: what the store was made of.
        digest: a hash of all samples; equal where the same samples are in the same shards.
        ledger: what became of the source's rows, by reason; empty before the store is finished.
        libraries: the versions that built it; empty before the store is finished.
        shards: what it is read from.
        lengths: uint32 [samples], tokens of each.
        trained_counts: uint32 [samples], labels of each that are not -100.
        offsets: int64 [samples + 1], where each begins in the store's tokens, as if its shards were one.
        num_rows: rows of the source, with and without samples.
        num_samples, num_tokens: totals.
        has_weights: whether the samples have loss weights.
        largest_token_id: which the model's vocabulary has to hold; -1 without tokens.
    """

    def __init__(
        self,
        path: Path,
        *,
        shards: Sequence[Shard],
        index: SampleIndex,
        verify: Verify,
        key: Mapping[str, Any],
        ledger: Mapping[str, int],
        libraries: Mapping[str, str],
        numbers: Sequence[int] | None,
    ) -> None:
        self.path = path
        self.verify: Verify = verify
        self.key = dict(key)
        self.ledger = dict(ledger)
        self.libraries = dict(libraries)
        self.shards = tuple(shards)
        self.digest = digest_of(shards)
        self.lengths = index.lengths
        self.trained_counts = index.trained_counts
        self.offsets = index.offsets
        self.num_rows = sum(len(shard.row_range) for shard in shards)
        self.num_samples = len(index.lengths)
        self.num_tokens = int(index.offsets[-1])
        self.has_weights = any(shard.has_weights for shard in shards)
        self.largest_token_id = max((shard.facts["largest_token_id"] for shard in shards), default=-1)
        self._numbers = numbers
        self._reader = SpanReader(shards, index, lazy=verify == "lazy")

    @classmethod
    def open(cls, path: str | Path, *, verify: Verify = "sizes") -> "TokenStore":
        """The finished store in a folder, in milliseconds.

        Args:
            path: the store's folder.
            verify: beside the manifest, the index of samples, the tables of checksums and the sizes of all files, which
                are always checked: nothing ("sizes"); each block of a file when it is first read ("lazy"); every file,
                now ("full").

        Raises:
            StoreError: it is no finished store, of another format version, or not what was written.
            ConfigError: another ``verify``.
        """
        folder = Path(path)
        _check_word(verify)
        manifest = read_manifest(folder)
        key = read_key(folder, key_hash=manifest.key)
        shards = open_shards(folder, range(len(manifest.shards)), hashes=manifest.shards)
        files = SampleIndex.files(folder / INDEX, manifest.index)
        for file in files.values():
            file.check_all()  # some bytes a sample, and a wrong one would give other samples' tokens without a sign
        if verify == "full":
            for shard in shards:
                shard.check()
        store = cls(
            folder,
            shards=shards,
            index=SampleIndex.mapped(files),
            verify=verify,
            key=key,
            ledger=manifest.ledger,
            libraries=manifest.libraries,
            numbers=None,
        )
        if store.digest != manifest.digest or store.num_samples != manifest.num_samples:
            raise StoreError(f"{folder / MANIFEST_JSON} does not agree with the shards beside it. {REBUILD}")
        with suppress(OSError):  # of a store that may only be read, nobody learns when it was last used
            os.utime(folder / MANIFEST_JSON)
        hold(store, folder / MANIFEST_JSON)
        return store

    @classmethod
    def open_shards(cls, path: str | Path, numbers: Sequence[int], *, verify: Verify = "sizes") -> "TokenStore":
        """A store of some finished shards of a folder, in the order of their numbers, whether or not all are there.

        Its index is in memory: 16 bytes a sample.

        Raises:
            StoreError: a shard is missing or not what was written.
            ConfigError: another ``verify``.
        """
        folder = Path(path)
        _check_word(verify)
        shards = open_shards(folder, sorted(numbers))
        check_rows(shards)
        for shard in shards if verify == "full" else ():
            shard.check()
        return cls(
            folder,
            shards=shards,
            index=SampleIndex.of(shards, check=verify == "lazy"),
            verify=verify,
            key=read_key(folder),
            ledger={},
            libraries={},
            numbers=sorted(numbers),
        )

    @property
    def kind(self) -> str | None:
        """What kind of samples they are, as the recipe that made them says; None where the key doesn't tell."""
        return self.key.get("kind")

    @property
    def keeps_rows_whole(self) -> bool:
        """Whether samples of a row belong in one pack: whether they are pairs. A store without a key doesn't say."""
        return self.kind == KIND_OF_PAIRS

    @property
    def rows(self) -> np.ndarray:
        """The source row that each sample came from: int64 [samples], read anew each time."""
        return self._joined("rows", np.zeros(0, np.int64))

    @property
    def left_out(self) -> np.ndarray:
        """The rows that have no sample, and the code of the reason: int64 [rows left out, 2], read anew each time."""
        return self._joined("left_out", np.zeros((0, 2), np.int64))

    @property
    def weight_sums(self) -> np.ndarray:
        """The sum of each sample's loss weights over its labels that are not -100: float64 [samples].

        The trained counts where samples have no weights; read anew each time.
        """
        if not self.has_weights:
            return self.trained_counts.astype(np.float64)
        sums = [
            self._read(shard, "weight_sums" if shard.has_weights else "trained_counts").astype(np.float64)
            for shard in self.shards
        ]
        return np.concatenate(sums)

    @property
    def desirable(self) -> np.ndarray:
        """Whether each sample's answer is a desirable one: bool [samples], read anew each time.

        Raises:
            StoreError: the store is not of labelled answers.
        """
        labelled = [shard for shard in self.shards if "desirable" in shard.files or shard.num_samples]
        if any("desirable" not in shard.files for shard in labelled):
            raise StoreError(f"{self.path} holds samples without a label of their own. Build it of a kto_dataset.")
        return np.concatenate([np.zeros(0, np.bool_), *(self._read(shard, "desirable") != 0 for shard in labelled)])

    def __len__(self) -> int:
        return self.num_samples

    def __repr__(self) -> str:
        return f"TokenStore({str(self.path)!r}, {self.num_samples:,} samples, {self.num_tokens:,} tokens)"

    def sample(self, index: int) -> dict[str, np.ndarray]:
        """One sample: ``tokens`` and ``labels`` int64 [n], and ``loss_weights`` float32 [n] if the store has them.

        Raises:
            StoreError: there is no sample of that number, or its bytes are not what was written (``verify="lazy"``).
        """
        length = int(self.lengths[index]) if 0 <= index < self.num_samples else 0
        names = {"tokens": np.int64, "labels": np.int64} | ({"loss_weights": np.float32} if self.has_weights else {})
        found: dict[str, np.ndarray] = {name: np.empty(length, dtype) for name, dtype in names.items()}
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
        """Writes the spans ``[start, stop)`` of samples, one after another, into the given arrays.

        A span's labels are those of its sample: where it stops inside, its last label is the token that follows.

        Args:
            sample, start, stop: whole numbers [spans].
            tokens, labels: int64 [tokens of all spans], written to.
            loss_weights: float32 of the same length, written to; 1 where samples have no weights.

        Raises:
            StoreError: a span is not within its sample, an array is not of the spans' length, or what is read is not
                what was written (``verify="lazy"``).
        """
        self._reader.gather(sample, start, stop, tokens=tokens, labels=labels, loss_weights=loss_weights)

    def trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """How many labels of each span are not -100: int64 [spans].

        Args:
            sample, start, stop: whole numbers [spans]; see :meth:`gather`.

        Raises:
            StoreError: as :meth:`gather`.
        """
        return self._reader.trained_in(sample, start, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (str(self.path), self.verify, self._numbers, self.digest)

    def _joined(self, name: str, empty: np.ndarray) -> np.ndarray:
        return np.concatenate([empty, *(self._read(shard, name) for shard in self.shards)])

    def _read(self, shard: Shard, name: str) -> np.ndarray:
        return shard.files[name].read(check=self.verify == "lazy")


def _check_word(verify: str) -> None:
    if verify not in VERIFY:
        near = did_you_mean(verify, VERIFY)
        raise ConfigError(f"Unknown verify {verify!r}. It is one of {listed(VERIFY)}.{near}")


def _reopened(path: str, verify: Verify, numbers: Sequence[int] | None, digest: str) -> TokenStore:
    """The store that was pickled."""
    if numbers is None:
        store = TokenStore.open(path, verify=verify)
    else:
        store = TokenStore.open_shards(path, numbers, verify=verify)
    if store.digest != digest:
        raise StoreError(f"{path} was built anew while it was in use: it holds other samples. Start the run again.")
    return store
