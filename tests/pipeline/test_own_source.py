"""A storage of one's own as a source: tokens that lie in memory-mapped files."""

import pickle
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

from torchpipe.config import instantiate
from torchpipe.pipeline import DatasetIterationPolicy, RandomAccessDataSource
from torchpipe.sources.identity import object_fingerprint

# What the user has in a file of their own, as it is written for torchtitan: a config that may be changed.
MODULE = """
import hashlib
from dataclasses import dataclass

import numpy as np

from torchpipe.pipeline import Configurable, DatasetIterationPolicy


class PretokenizedMemmapSource(Configurable):
    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        tokens_path: str
        offsets_path: str
        dtype: str = "uint16"

    def __init__(self, config: Config, *, dataset_iteration_policy: DatasetIterationPolicy):
        self.config = config
        self.tokens = np.memmap(config.tokens_path, dtype=config.dtype, mode="r")
        self.offsets = np.load(config.offsets_path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self.tokens[self.offsets[index] : self.offsets[index + 1]], dtype=np.int64)

    def fingerprint(self) -> str:  # so that what is made of the rows is kept, and found again
        return hashlib.blake2b(self.tokens.tobytes() + self.offsets.tobytes()).hexdigest()
"""
POLICY = DatasetIterationPolicy(
    seed=0, shuffle=True, repeat=False, dp_rank=0, dp_world_size=1, streaming_shuffle_buffer_size=100
)
DOCUMENTS = [[5, 6, 7], [8], [9, 10, 11, 12]]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    (tmp_path / "my_storage.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    np.concatenate([np.array(tokens, np.uint16) for tokens in DOCUMENTS]).tofile(tmp_path / "tokens.bin")
    np.save(tmp_path / "offsets.npy", np.cumsum([0, *map(len, DOCUMENTS)]))
    return {
        "_component_": "my_storage.PretokenizedMemmapSource.Config",
        "tokens_path": str(tmp_path / "tokens.bin"),
        "offsets_path": str(tmp_path / "offsets.npy"),
    }


def test_rows_of_a_storage_of_ones_own_are_read_by_number(settings: dict[str, Any]) -> None:
    config = instantiate(settings)
    source = config.build(dataset_iteration_policy=POLICY)
    assert isinstance(source, RandomAccessDataSource)
    assert [source[index].tolist() for index in range(len(source))] == DOCUMENTS
    sequence: Any = source
    rows = grain.MapDataset.source(sequence).map(lambda tokens: tokens.tolist())
    assert list(rows) == DOCUMENTS


def test_its_config_is_a_value_that_may_be_changed(settings: dict[str, Any]) -> None:
    config = instantiate(settings)
    assert config == instantiate(settings)
    built = config.build(dataset_iteration_policy=POLICY)
    config.dtype = "uint8"
    assert (built.config.dtype, config.to_dict()["dtype"]) == ("uint16", "uint8")
    assert pickle.loads(pickle.dumps(config)) == config


def test_what_it_holds_tells_it_from_others(settings: dict[str, Any], tmp_path: Path) -> None:
    def told() -> str:
        return object_fingerprint(instantiate(settings).build(dataset_iteration_policy=POLICY))

    first = told()
    assert told() == first
    np.array([1, 2, 3, 4, 5, 6, 7, 8], np.uint16).tofile(tmp_path / "tokens.bin")
    assert told() != first


def test_a_config_that_is_no_dataclass_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = MODULE.replace("    @dataclass(kw_only=True, slots=True)\n", "")
    (tmp_path / "plain_storage.py").write_text(plain, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"PretokenizedMemmapSource\.Config isn't decorated as a dataclass"):
        instantiate({"_component_": "plain_storage.PretokenizedMemmapSource.Config", "tokens_path": "a"})
