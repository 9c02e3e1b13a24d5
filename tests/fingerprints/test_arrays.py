"""Arrays: by their bytes, and those that lie in a mapped file by that file, which is not read."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from torchpipe._fingerprint import fingerprint


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.bin"
    np.arange(300_000, dtype=np.uint16).tofile(path)
    return path


def mapped(path: Path, **options: object) -> np.ndarray:
    return np.memmap(path, **{"dtype": np.uint16, "mode": "r", **options})  # pyright: ignore


def test_a_mapped_file_is_told_by_its_path_size_time_and_ends(tokens: Path, tmp_path: Path) -> None:
    told = fingerprint(mapped(tokens))
    assert fingerprint(mapped(tokens)) == told
    content = tokens.read_bytes()
    (tmp_path / "other.bin").write_bytes(content)
    assert fingerprint(mapped(tmp_path / "other.bin")) != told
    before = mapped(tokens)
    tokens.write_bytes(content)  # the same bytes at another time
    assert fingerprint(mapped(tokens)) != told
    tokens.with_suffix(".new").write_bytes(bytes(len(content)))
    tokens.with_suffix(".new").replace(tokens)
    assert len({fingerprint(before), fingerprint(mapped(tokens)), told}) == 3


def test_parts_of_a_mapped_file_are_told_by_where_they_lie(tokens: Path) -> None:
    whole = mapped(tokens)
    parts = [
        whole,
        whole[:100],
        whole[50:150],
        whole[:200:2],
        whole[99::-1],
        whole[:100].view(np.int16),
        np.asarray(whole[:100]),
        whole[:100].reshape(10, 10).T,
        mapped(tokens, offset=40_000),
        mapped(tokens, offset=40_000)[50:150],
    ]
    assert len({fingerprint(part) for part in parts}) == len(parts)
    assert fingerprint(mapped(tokens, offset=100)[:100]) == fingerprint(whole[50:150])


def test_memory_that_may_be_written_is_told_by_its_bytes(tokens: Path, tmp_path: Path) -> None:
    told = {}
    for mode in ("r+", "c"):
        held = mapped(tokens, mode=mode)
        before = fingerprint(held)
        held[100_000] += 1
        told[mode] = (before, fingerprint(held))
    assert all(before != after for before, after in told.values())
    held = mapped(tokens)
    copied = np.array(held)
    tokens.unlink()
    assert fingerprint(held[:]) == fingerprint(held)
    assert fingerprint(copied) == fingerprint(copied.copy())
    assert fingerprint(held + np.uint16(1)) == fingerprint(np.memmap.__add__(held, np.uint16(1)))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4),
        np.arange(12).reshape(3, 4).T,
        np.arange(10)[::-2],
        np.zeros((0, 3)),
        np.array(5),
        np.array(["a", "bc"]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2024-01-01"], dtype="datetime64[D]"),
        np.float32(1.5),
    ],
    ids=repr,
)
def test_an_array_counts_by_what_it_holds_however_it_lies_in_memory(array: np.ndarray) -> None:
    assert fingerprint(array) == fingerprint(array.copy())
    changed = np.array(array)
    if changed.size:
        changed[...] = np.zeros((), changed.dtype)
        assert fingerprint(changed) != fingerprint(array)


def test_neither_a_large_array_nor_a_mapped_file_is_copied(tmp_path: Path) -> None:
    array = np.zeros(8_000_000, np.uint8)
    array.tofile(tmp_path / "large.bin")
    tracemalloc.start()
    fingerprint([array, mapped(tmp_path / "large.bin")])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
