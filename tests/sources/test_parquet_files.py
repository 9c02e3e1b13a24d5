"""Parquet files: load_dataset reads them, and only what it reads faithfully."""

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from torchpipe.errors import SourceError
from torchpipe.sources import load_rows


def write(path: Path, **columns: Any) -> str:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def read(files: Any, **options: Any) -> list[Any]:
    rows = load_rows("parquet", data_files=files, split="train", **options)
    return [rows[index] for index in range(len(rows))]


def test_texts_and_nulls_are_those_of_the_file(tmp_path: Path) -> None:
    texts = ["a\r\n\tb\x00\u2028", None, "2024-01-01", ""]
    assert read(write(tmp_path / "a [1] é.parquet", t=texts)) == [{"t": text} for text in texts]


def test_keys_that_the_files_own_types_share_are_null_where_a_row_lacks_them(tmp_path: Path) -> None:
    """So it is written: who keeps tools in Parquet keeps them as JSON text."""
    tools: Any = [{"x": 1}, {"y": "s"}]
    file = write(tmp_path / "a.parquet", struct=pyarrow.array(tools), text=['{"x": 1}', '{"y": "s"}'])
    assert read(file) == [
        {"struct": {"x": 1, "y": None}, "text": '{"x": 1}'},
        {"struct": {"x": None, "y": "s"}, "text": '{"y": "s"}'},
    ]


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (
            {"t": ["y"], "more": [1]},
            r"b\.parquet has other columns than .*a\.parquet: 'more' .* int64, and there missing",
        ),
        ({"t": [1]}, r"b\.parquet has other columns .*: 't' \('t' is int64, and there string\)"),
    ],
)
def test_files_of_other_columns_are_refused(tmp_path: Path, second: dict[str, Any], sentence: str) -> None:
    files = [write(tmp_path / "a.parquet", t=["x"]), write(tmp_path / "b.parquet", **second)]
    with pytest.raises(SourceError, match=sentence):
        read(files)
    assert read(files, columns=["t"])[0] == {"t": "x"}


def test_files_without_rows_are_passed_over_and_refused_where_there_are_no_others(tmp_path: Path) -> None:
    none: Any = pyarrow.array([], pyarrow.string())
    empty, other = write(tmp_path / "b.parquet", t=none), write(tmp_path / "c.parquet", t=none)
    filled = write(tmp_path / "a.parquet", t=["x", "y"])
    with pytest.warns(UserWarning, match=r"1 of 2 files hold no rows: .*b\.parquet holds no rows\. They are passed"):
        assert read([empty, filled]) == [{"t": "x"}, {"t": "y"}]
    with pytest.raises(SourceError, match=r"b\.parquet holds no rows\. Give a file with at least one row"):
        read([empty, other])
    with pytest.raises(SourceError, match="holds no rows"):
        load_rows("parquet", data_files={"train": filled, "test": empty}, split="test")


@pytest.mark.parametrize("damage", ["end", "middle", "all"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "a.parquet"
    write(file, t=["some text that is long enough"] * 100)
    raw = bytearray(file.read_bytes())
    if damage == "middle":
        raw[4:40] = b"\xff" * 36
    file.write_bytes({"end": raw[:-20], "middle": raw, "all": b'{"t": 1}\n'}[damage])
    with pytest.raises(SourceError, match=r"a\.parquet can't be (read as Parquet|loaded)"):
        read(str(file))
