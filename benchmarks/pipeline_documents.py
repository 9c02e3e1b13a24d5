"""The documents that graphs are measured on, as a user's own storage: tokens in memory-mapped files.

    python pipeline_documents.py FOLDER NUM_DOCUMENTS [SHORTER]

Their lengths are lognormal (sigma 1, mean 298), clipped at 4,096, as web text's are about; all that so many times
shorter. Tokens are drawn below 50,000. Each document has a token more, the label of its last one.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe.pipeline import Configurable, DatasetIterationPolicy, SampleProcessor, TextSequence

CAPACITY = 4096
MEAN, SIGMA = 298, 1.0
_VOCABULARY = 50_000
_CHUNK = 1 << 22


def write_documents(folder: Path, num_documents: int, *, shorter: int = 1) -> int:
    """Writes tokens.npy (uint16) and offsets.npy (int64); says how many tokens are trained on."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    drawn = rng.lognormal(np.log(MEAN / shorter) - SIGMA**2 / 2, SIGMA, num_documents)
    lengths = np.clip(drawn.astype(np.int64), 1, CAPACITY // shorter)
    offsets = np.concatenate([[0], np.cumsum(lengths + 1)])
    np.save(folder / "offsets.npy", offsets)
    tokens = np.lib.format.open_memmap(folder / "tokens.npy", mode="w+", dtype=np.uint16, shape=(int(offsets[-1]),))
    for start in range(0, len(tokens), _CHUNK):
        some = tokens[start : start + _CHUNK]
        some[:] = rng.integers(0, _VOCABULARY, len(some), dtype=np.uint16)
    return int(lengths.sum())


class MemmapSource(Configurable):
    """Documents by number: int64 tokens [n + 1]."""

    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        """Where they are."""

        folder: str

    def __init__(self, config: Config, *, dataset_iteration_policy: DatasetIterationPolicy | None = None) -> None:
        self.config = config
        self._tokens = np.load(Path(config.folder) / "tokens.npy", mmap_mode="r")
        self._offsets = np.load(Path(config.folder) / "offsets.npy", mmap_mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return self._tokens[self._offsets[index] : self._offsets[index + 1]].astype(np.int64)

    def fingerprint(self) -> str:
        """What tells these documents from others."""
        return hashlib.blake2b(self._offsets.tobytes(), digest_size=16).hexdigest()


class TokensToTextSequence(SampleProcessor):
    """Tokens to input and labels."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        """No settings."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> TextSequence:
        return TextSequence(input_ids=sample[:-1], labels=sample[1:])


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    folder, num_documents, *shorter = arguments
    tokens = write_documents(Path(folder), int(num_documents), shorter=int(shorter[0]) if shorter else 1)
    print(json.dumps({"tokens": tokens}))


if __name__ == "__main__":
    main(sys.argv[1:])
