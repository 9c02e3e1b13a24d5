"""What load_dataset reads, and what is made sure of before it does."""

import os
from pathlib import Path
from typing import Any

import datasets
import pytest

from torchpipe.sources import describe_source, load_rows


def test_cells_of_a_csv_file_stay_as_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(b'q,a\n"two\r\nlines",007\nx,1.10\n"",NA\ny,1e3\n')
    rows = load_rows("csv", data_files=str(file), split="train")
    assert [rows[i]["a"] for i in range(4)] == ["007", "1.10", "NA", "1e3"]
    assert rows[0]["q"] == "two\r\nlines"


def test_features_of_ones_own_are_respected(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("a\n007\n")
    features = datasets.Features({"a": datasets.Value("int64")})
    assert load_rows("csv", data_files=str(file), split="train", features=features)[0] == {"a": 7}


def test_text_and_parquet_files_pass_through(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("one\ntwo\n")
    assert load_rows("text", data_files=str(tmp_path / "rows.txt"), split="train")[1] == {"text": "two"}
    datasets.Dataset.from_list([{"a": "x"}]).to_parquet(str(tmp_path / "rows.parquet"))
    assert load_rows("parquet", data_files=str(tmp_path / "rows.parquet"), split="train")[0] == {"a": "x"}


def test_a_file_that_was_replaced_by_one_of_the_same_time_and_size_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    read = []
    for text in ("q\none\n", "q\ntwo\n"):
        file.write_text(text)
        os.utime(file, ns=(10**18, 10**18))
        read.append(load_rows("csv", data_files=str(file), split="train")[0])
    assert read == [{"q": "one"}, {"q": "two"}]


def test_a_cache_dir_does_not_change_what_is_read(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"q": "2024-01-01 00:00:00"}\n{"q": "2024-01-02 00:00:00", "more": 1}\n')
    cases: list[dict[str, Any]] = [
        {},
        {"cache_dir": str(tmp_path / "cache")},
        {"num_proc": 2},
        {"keep_in_memory": True},
    ]
    for options in cases:
        rows = load_rows("json", data_files=str(file), split="train", **options)
        assert [rows[0], rows[1]] == [{"q": "2024-01-01 00:00:00"}, {"q": "2024-01-02 00:00:00", "more": 1}]


@pytest.mark.parametrize(
    ("source", "options", "name"),
    [
        ("someone/chats", {"split": "train"}, "someone/chats"),
        ("json", {"data_files": ["a.json", "b.json"]}, "a.json, b.json"),
        ("json", {"data_files": {"test": "t.json"}, "split": "test"}, "t.json"),
        ([{"a": 1}], {}, "list"),
    ],
)
def test_errors_call_a_source_by_the_name_the_user_knows(source: object, options: dict[str, object], name: str) -> None:
    assert describe_source(source, options) == name
