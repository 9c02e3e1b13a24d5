"""Stores of a few lines, and builders in processes of their own, for the tests of the store."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe.store import ShardData, TokenStore, publish_store, shard_folder, write_shard
from torchpipe.store.publishing import publish_json

SCRIPT = Path(__file__).with_name("toy_build.py")
"""The builder."""

Samples = Sequence[dict[str, Any]]
"""Each with ``tokens``, ``labels`` and, in all or none, ``loss_weights``: lists."""


def _shard_data(samples: Samples, *, first_row: int = 0, **options: Any) -> ShardData:
    def flat(name: str, dtype: Any) -> np.ndarray:
        return np.array([value for sample in samples for value in sample[name]], dtype)

    weighted = any("loss_weights" in sample for sample in samples)
    defaults = {
        "tokens": flat("tokens", np.int64),
        "labels": flat("labels", np.int64),
        "lengths": np.array([len(sample["tokens"]) for sample in samples], np.int64),
        "rows": first_row + np.arange(len(samples)),
        "first_row": first_row,
        "num_rows": len(samples),
        "loss_weights": flat("loss_weights", np.float32) if weighted else None,
    }
    return ShardData(**(defaults | options))


@pytest.fixture
def shard_data() -> Callable[..., ShardData]:
    """What a shard of some samples is written from: one row a sample, options in place of what follows from them."""
    return _shard_data


@pytest.fixture(scope="session")
def write_store() -> Callable[..., None]:
    """Writes a store whose shards hold the given samples into a folder."""

    def write(folder: Path, *shards: Samples, **options: Any) -> None:
        publish_json(folder / "key.json", {"source": "chats.json", "tokenizer": "bytes"})
        row = 0
        for number, samples in enumerate(shards):
            write_shard(shard_folder(folder, number), _shard_data(samples, first_row=row, **options))
            row += len(samples)
        publish_store(folder, num_shards=len(shards), ledger={"filtered": 2})

    return write


@pytest.fixture
def make_store(tmp_path: Path, write_store: Callable[..., None]) -> Callable[..., Path]:
    """As ``write_store``, in a folder of the test's own under its ``store``; returns it."""

    def make(*shards: Samples, name: str = "a" * 32, **options: Any) -> Path:
        folder = tmp_path / "store" / name
        write_store(folder, *shards, **options)
        return folder

    return make


@pytest.fixture
def chats() -> Callable[..., list[dict[str, Any]]]:
    """Random samples whose labels are their next tokens, or -100; the last of each is -100."""

    def make(num_samples: int, *, seed: int = 0, longest: int = 50, vocab_size: int = 1000) -> list[dict[str, Any]]:
        rng = np.random.default_rng(seed)
        samples = []
        for _ in range(num_samples):
            tokens = rng.integers(0, vocab_size, rng.integers(0, longest + 1))
            labels = np.where(rng.random(len(tokens)) < 0.6, np.roll(tokens, -1), -100)
            labels[-1:] = -100
            samples.append({"tokens": tokens.tolist(), "labels": labels.tolist()})
        return samples

    return make


@pytest.fixture
def read_all() -> Callable[[TokenStore], list[dict[str, list]]]:
    """All samples of a store, as lists."""

    def read(store: TokenStore) -> list[dict[str, list]]:
        return [{name: array.tolist() for name, array in store.sample(k).items()} for k in range(len(store))]

    return read


class Build(subprocess.Popen):
    """A process that builds the store of a toy recipe; what it says is kept in files."""

    def __init__(self, cache_dir: Path, log: Path, env: dict[str, str], options: dict[str, Any]) -> None:
        self.log = log
        with log.with_suffix(".out").open("w") as out, log.with_suffix(".err").open("w") as err:
            super().__init__(
                [sys.executable, str(SCRIPT), str(cache_dir), json.dumps(options)], stdout=out, stderr=err, env=env
            )

    def said(self) -> str:
        """What it has written to standard error."""
        return self.log.with_suffix(".err").read_text()

    def folder(self) -> Path:
        """The store that it has opened."""
        return Path(self.log.with_suffix(".out").read_text().split()[-1])


@pytest.fixture
def start_build(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Build]:
    """Function (cache_dir, **options) -> a process of its own that builds the store of a toy recipe."""
    logs = tmp_path_factory.mktemp("builds")
    numbers = count()

    def begin(cache_dir: Path, *, env: dict[str, str] | None = None, **options: Any) -> Build:
        whole = {**os.environ, "PYTHONPATH": str(repository), **(env or {})}
        return Build(cache_dir, logs / str(next(numbers)), whole, options)

    return begin


@pytest.fixture
def bytes_of() -> Callable[[Path], dict[str, str]]:
    """Function (folder) -> the hash of every file in it, by its path."""

    def hashes(folder: Path) -> dict[str, str]:
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    return hashes
