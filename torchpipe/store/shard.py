"""One shard of a store: the samples of a range of source rows, in a folder of ``.npy`` files."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe.errors import StoreError
from torchpipe.store.array_file import ArrayFacts, ArrayFile, write_array
from torchpipe.store.publishing import json_bytes, published_folder, write_bytes
from torchpipe.store.reading import REBUILD
from torchpipe.store.sealed_json import read_sealed, sealed
from torchpipe.store.shard_data import ShardData

SHARD_JSON = "shard.json"


def write_shard(folder: Path, data: ShardData) -> dict[str, Any]:
    """Writes a shard and returns what stands in its ``shard.json``. It is on the disk then, whole.

    The same data gives the same bytes: no times, sorted keys. What is at ``folder`` is replaced. ::

        tokens.npy          uint16 or uint32 [t]   the samples' tokens, one sample after another
        trained.npy         uint8 [ceil(t / 8)]    bit i (little bit order) is set where labels[i] is not -100
        lengths.npy         uint32 [s]             tokens of each sample
        trained_counts.npy  uint32 [s]             its labels that are not -100
        rows.npy            int64 [s]              the source row it came from
        left_out.npy        int64 [k, 2]           row and reason code of the rows without a sample
        last_labels.npy     int32 [s]              only if a last label is not -100 (a row split into several samples)
        labels.npy          int32 [t]              only if a label is not the next token
        loss_weights.npy    float32 [t]            only if the samples have them
        weight_sums.npy     float64 [s]            their sums over the labels that are not -100
        desirable.npy       uint8 [s]              only of labelled answers: 1 where it is a desirable one
        <name>.npy                                 what ``data.extra`` holds

    Raises:
        StoreError: the shard can't be written; nothing is left of it then.
    """
    with published_folder(folder) as temporary:
        arrays = data.arrays()
        files = {name: write_array(temporary / f"{name}.npy", array).as_json() for name, array in arrays.items()}
        facts = sealed(
            {
                "first_row": data.first_row,
                "num_rows": data.num_rows,
                "num_samples": len(data.lengths),
                "num_tokens": len(data.tokens),
                "num_trained": int(arrays["trained_counts"].sum(dtype=np.int64)),
                "largest_token_id": int(data.tokens.max()) if len(data.tokens) else -1,
                "longest": int(data.lengths.max(initial=0)),
                "counts": dict(data.counts),
                "digest": _digest(arrays),
                "files": files,
            }
        )
        write_bytes(temporary / SHARD_JSON, json_bytes(facts))
    return facts


def open_shard(folder: Path, *, shard_hash: str | None = None) -> "Shard":
    """The shard in a folder. The sizes of its files are checked, and its arrays are mapped when they are first used.

    Args:
        folder: where :func:`write_shard` wrote it.
        shard_hash: of its ``shard.json``, where it is known (see :attr:`Shard.hash`).

    Raises:
        StoreError: a file is missing, or not of its size, or ``shard.json`` is not what was written.
    """
    path = folder / SHARD_JSON
    facts = read_sealed(path, what="the description of a shard")
    if shard_hash is not None and facts["hash"] != shard_hash:
        raise StoreError(f"{path} is not the one that the store was made of: its hash differs. {REBUILD}")
    files = {
        name: ArrayFile(folder / f"{name}.npy", ArrayFacts.from_json(found)) for name, found in facts["files"].items()
    }
    for file in files.values():
        file.check_size()
    return Shard(folder=folder, facts=facts, files=files)


@dataclass(frozen=True, kw_only=True)
class Shard:
    """A shard on the disk.

    Attributes:
        folder: where it is.
        facts: what stands in ``shard.json``.
        files: its arrays by name.
    """

    folder: Path
    facts: Mapping[str, Any] = field(repr=False)
    files: Mapping[str, ArrayFile] = field(repr=False)

    @property
    def hash(self) -> str:
        """Of ``shard.json``, and so of everything that the checksums in it hold."""
        return self.facts["hash"]

    @property
    def num_samples(self) -> int:
        """Samples in the shard."""
        return self.facts["num_samples"]

    @property
    def num_tokens(self) -> int:
        """Tokens in the shard."""
        return self.facts["num_tokens"]

    @property
    def row_range(self) -> range:
        """The source rows that the shard accounts for: each has samples here, or stands in ``left_out``."""
        return range(self.facts["first_row"], self.facts["first_row"] + self.facts["num_rows"])

    @property
    def has_weights(self) -> bool:
        """Whether the samples have loss weights."""
        return "loss_weights" in self.files

    def array(self, name: str) -> np.ndarray:
        """One of the shard's arrays, memory-mapped (see :func:`write_shard`)."""
        return self.files[name].array()

    def check(self) -> None:
        """Reads every file and compares its checksums.

        Raises:
            StoreError: a file is not what was written; names it.
        """
        for file in self.files.values():
            file.check_all()


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """A hash of what is trained on: lengths, tokens, labels, weights, and the label of each answer."""
    total = hashlib.blake2b(digest_size=16)
    for name in ("lengths", "tokens", "trained", "last_labels", "labels", "loss_weights", "desirable"):
        if name in arrays:
            total.update(f"{name} {arrays[name].dtype.str} {arrays[name].shape}\n".encode())
            total.update(np.ascontiguousarray(arrays[name]).data)
    return total.hexdigest()
