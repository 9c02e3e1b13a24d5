"""Where each sample of a store is, over all shards."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from torchpipe.store.array_file import ArrayFacts, ArrayFile, write_array
from torchpipe.store.shard import Shard


@dataclass(frozen=True, kw_only=True)
class SampleIndex:
    """Arrays over all samples of a store, in the order of its shards.

    Attributes:
        lengths: uint32 [samples], tokens of each.
        trained_counts: uint32 [samples], labels of each that are not -100.
        offsets: int64 [samples + 1], where each begins in the store's tokens, as if its shards were one.
    """

    lengths: np.ndarray
    trained_counts: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, shards: Sequence[Shard], *, check: bool) -> "SampleIndex":
        """The index of some shards, in memory; with ``check``, the files that it is read from are checked first."""
        empty = np.zeros(0, np.uint32)
        lengths, trained_counts = (
            np.concatenate([empty, *(shard.files[name].read(check=check) for shard in shards)])
            for name in ("lengths", "trained_counts")
        )
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(lengths=lengths, trained_counts=trained_counts, offsets=offsets)

    @classmethod
    def files(cls, folder: Path, facts: Mapping[str, Mapping]) -> dict[str, ArrayFile]:
        """The files that :meth:`write` wrote to a folder, from the facts that it returned."""
        names = ("lengths", "trained_counts", "offsets")
        return {name: ArrayFile(folder / f"{name}.npy", ArrayFacts.from_json(facts[name])) for name in names}

    @classmethod
    def mapped(cls, files: Mapping[str, ArrayFile]) -> "SampleIndex":
        """The index in its files, memory-mapped: it takes no memory of the process."""
        return cls(**{name: file.array() for name, file in files.items()})

    def write(self, folder: Path) -> dict[str, dict]:
        """Writes one file an array to a folder, and returns the facts of each."""
        return {name: write_array(folder / f"{name}.npy", array).as_json() for name, array in vars(self).items()}
