"""What is written of a shard, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe.errors import StoreError
from torchpipe.store import ShardData, open_shard, write_shard

SAMPLES = [
    {"tokens": [5, 6, 7], "labels": [6, -100, -100]},
    {"tokens": [], "labels": []},
    {"tokens": [8, 9], "labels": [9, -100]},
]

Make = Callable[..., ShardData]


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_the_same_data_gives_the_same_bytes(tmp_path: Path, shard_data: Make) -> None:
    for name in ("one", "two"):
        write_shard(tmp_path / name, shard_data(SAMPLES, counts={"b": 1, "a": 2}, extra={"cut": np.array([1])}))
    one = files_of(tmp_path / "one")
    assert one == files_of(tmp_path / "two")
    assert sorted(one) == [
        *("cut.npy", "left_out.npy", "lengths.npy", "rows.npy", "shard.json", "tokens.npy", "trained.npy"),
        "trained_counts.npy",
    ]


def test_labels_and_trained_flags_that_say_the_same_give_the_same_bytes(tmp_path: Path, shard_data: Make) -> None:
    write_shard(tmp_path / "labels", shard_data(SAMPLES))
    trained = np.array([True, False, False, True, False])
    write_shard(tmp_path / "trained", shard_data(SAMPLES, labels=None, trained=trained))
    assert files_of(tmp_path / "labels") == files_of(tmp_path / "trained")


def test_the_bytes_do_not_depend_on_the_dtypes_that_were_given(tmp_path: Path, shard_data: Make) -> None:
    write_shard(tmp_path / "wide", shard_data(SAMPLES))
    narrow = {name: getattr(shard_data(SAMPLES), name).astype(np.int32) for name in ("tokens", "lengths", "rows")}
    write_shard(tmp_path / "narrow", shard_data(SAMPLES, **narrow))
    unsigned = {"tokens": narrow["tokens"].astype(np.uint32), "lengths": narrow["lengths"].astype(np.uint32)}
    write_shard(tmp_path / "unsigned", shard_data(SAMPLES, **unsigned))
    assert files_of(tmp_path / "wide") == files_of(tmp_path / "narrow") == files_of(tmp_path / "unsigned")


def test_the_files_are_plain_numpy_files(tmp_path: Path, shard_data: Make) -> None:
    write_shard(tmp_path / "s", shard_data(SAMPLES, vocab_size=10))
    loaded = {file.stem: np.load(file, mmap_mode="r") for file in (tmp_path / "s").glob("*.npy")}
    assert loaded["tokens"].tolist() == [5, 6, 7, 8, 9]
    assert np.unpackbits(loaded["trained"], bitorder="little").tolist() == [1, 0, 0, 1, 0, 0, 0, 0]
    assert {name: array.dtype.str for name, array in loaded.items()} == {
        "tokens": "<u2",
        "trained": "|u1",
        "lengths": "<u4",
        "trained_counts": "<u4",
        "rows": "<i8",
        "left_out": "<i8",
    }
    assert loaded["lengths"].tolist() == [3, 0, 2]
    assert loaded["trained_counts"].tolist() == [1, 0, 1]


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, "<u2"), (65_537, "<u4"), (None, "<u4")])
def test_tokens_take_two_bytes_where_the_vocabulary_fits(
    tmp_path: Path, shard_data: Make, vocab_size: int | None, dtype: str
) -> None:
    facts = write_shard(tmp_path / "s", shard_data(SAMPLES, vocab_size=vocab_size))
    assert facts["files"]["tokens"]["dtype"] == dtype


def test_a_shard_without_samples_or_tokens_is_a_shard(tmp_path: Path, shard_data: Make) -> None:
    left_out = np.array([[0, 1], [1, 2]])
    facts = write_shard(tmp_path / "s", shard_data([], num_rows=2, left_out=left_out))
    assert (facts["num_samples"], facts["num_tokens"], facts["largest_token_id"]) == (0, 0, -1)
    shard = open_shard(tmp_path / "s")
    assert shard.row_range == range(2)
    assert shard.array("left_out").tolist() == left_out.tolist()
    assert shard.array("tokens").shape == (0,)


def test_a_shard_replaces_what_was_there(tmp_path: Path, shard_data: Make) -> None:
    write_shard(tmp_path / "s", shard_data(SAMPLES, extra={"cut": np.array([1])}))
    write_shard(tmp_path / "s", shard_data(SAMPLES[:1]))
    assert open_shard(tmp_path / "s").num_samples == 1
    assert not (tmp_path / "s" / "cut.npy").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_disk_use_stays_under_four_point_three_bytes_a_token(
    make_store: Callable[..., Path], chats: Callable[..., list]
) -> None:
    folder = make_store(chats(4000, longest=400, vocab_size=128_000))
    num_bytes = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    num_tokens = json.loads((folder / "manifest.json").read_text())["num_tokens"]
    assert num_tokens > 190 * 4000
    assert num_bytes <= 4.3 * num_tokens


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rows": np.arange(2)}, r"A shard's rows has shape \(2,\); it must be \(3,\)"),
        ({"lengths": np.array([3, 0, 3])}, "A shard has 5 tokens and lengths for 6"),
        ({"lengths": np.array([6, -1, 0])}, "A shard has 5 tokens and lengths for 5"),
        ({"labels": None}, "A shard needs either labels or trained, and not both"),
        ({"trained": np.zeros(5, bool)}, "A shard needs either labels or trained, and not both"),
        ({"last_labels": np.full(3, -100)}, "labels hold the last ones already"),
        ({"left_out": np.zeros(2, np.int64)}, r"left_out has shape \(2,\); it must be \(rows, 2\)"),
        ({"tokens": np.array([5, -6, 7, 8, 9])}, "A shard's tokens hold the id -6; ids are 0 to 2,147,483,647"),
        ({"tokens": np.array([5, 6, 7, 8, 2**31])}, "A shard's tokens hold the id 2147483648"),
        ({"tokens": np.array([5.0, 6, 7, 8, 9])}, "A shard's tokens are float64; ids are whole numbers"),
        ({"vocab_size": 9}, "A shard's tokens hold the id 9; ids are 0 to 8. Give the vocab_size"),
        ({"labels": np.array([6, -100, -100, -99, -100])}, "A shard's labels hold the id -99"),
        ({"rows": np.array([0, 2, 1])}, "A shard of the rows 0 to 2 has samples of others, or not in order"),
        ({"rows": np.array([0, 1, 3])}, "A shard of the rows 0 to 2 has samples of others, or not in order"),
        ({"left_out": np.array([[3, 1]])}, "A shard of the rows 0 to 2 leaves out others"),
        ({"left_out": np.array([[1, 1]])}, "Row 1 has samples and is left out"),
        ({"extra": {"rows": np.arange(3)}}, "extra may not hold 'rows'"),
    ],
)
def test_arrays_that_do_not_belong_together_are_refused(
    tmp_path: Path, shard_data: Make, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(StoreError, match=message):
        write_shard(tmp_path / "s", shard_data(SAMPLES, **wrong))
    assert list(tmp_path.iterdir()) == []


def test_a_trained_last_position_needs_its_label(tmp_path: Path, shard_data: Make) -> None:
    trained = np.array([True, False, True, True, False])
    for last_labels in (None, np.array([-100, -100, 3])):
        with pytest.raises(StoreError, match="last position is trained, and last_labels has no label for it"):
            write_shard(tmp_path / "s", shard_data(SAMPLES, labels=None, trained=trained, last_labels=last_labels))
