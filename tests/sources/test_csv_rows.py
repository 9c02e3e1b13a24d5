"""CSV files: cells are text as written, whatever stands in them; rows that don't fit their header are named."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import ConfigError, MalformedRow, SourceError
from torchpipe.sources import CsvRows, load_rows

CELL = st.text(st.characters(codec="utf-8"), max_size=12)


def read(file: Path, **options: Any) -> list[dict[str, Any]]:
    rows = load_rows("csv", data_files=str(file), split="train", **options)
    return [dict(rows[index]) for index in range(len(rows))]


@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=6), st.sampled_from(["\n", "\r\n"]))
def test_any_cells_come_back(tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]], end: str) -> None:
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end)
    writer.writerows([("a", "b"), *cells])
    file.write_bytes(out.getvalue().encode())
    assert read(file) == [{"a": a, "b": b} for a, b in cells]


def test_quotes_newlines_and_empty_cells_are_content(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b'\xef\xbb\xbfq,a\r\n"two\r\nlines, ""quoted""\x00",007\r\n\r\n,NA\n')
    assert read(file) == [{"q": 'two\r\nlines, "quoted"\x00', "a": "007"}, {"q": "", "a": "NA"}]


def test_ragged_rows_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text('q,a\n"x\ny",1\nshort\nlong,2,3\n"a"b,4\nlast,5\n')
    rows = CsvRows([file])
    assert [rows[0], rows[4], len(rows)] == [{"q": "x\ny", "a": "1"}, {"q": "last", "a": "5"}, 5]
    with pytest.raises(MalformedRow, match=r"a\.csv, line 4 has 1 cells, and there are 2 columns \('q', 'a'\)"):
        rows[1]
    with pytest.raises(MalformedRow, match=r"line 5 has 3 cells.*Put a cell that holds a delimiter in quotes"):
        rows[2]
    with pytest.raises(MalformedRow, match=r"line 6 is not valid CSV: ',' expected after '\"' \(byte"):
        rows[3]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a,b,a\n1,2,3\n", r"names 'a' more than once in its header"),
        (b'a,b\n1,"2\n3,4\n', r"a quote that is opened at byte 4 or later is never closed"),
        (b"a,b\r1,2\r", r"no header that can be read: a carriage return stands outside quotes"),
        (b"a,caf\xe9\n1,2\n", r"line 1 is not UTF-8"),
        (b"a,b\n", r"holds no rows"),
        (b"", r"is empty"),
    ],
)
def test_a_file_whose_rows_cannot_be_told_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(SourceError, match=rf"a\.csv.* ?{sentence}"):
        read(tmp_path / "a.csv")


def test_other_delimiters_and_files_without_a_header(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\n1,5\t2\n")
    (tmp_path / "b.csv").write_text("1;2\n")
    assert read(tmp_path / "a.tsv") == [{"a": "1,5", "b": "2"}]
    assert read(tmp_path / "b.csv", delimiter=";", column_names=["x", "y"]) == [{"x": "1", "y": "2"}]
    with pytest.raises(ConfigError, match="delimiter is '; '. Give one character"):
        read(tmp_path / "b.csv", delimiter="; ")


def test_a_cell_may_be_longer_than_pythons_limit_and_columns_may_differ_between_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"q,a\n{'x' * 10**6},1\n")
    (tmp_path / "b.csv").write_text("other\n2\n")
    rows = load_rows(f"{tmp_path}/*.csv", split="train")
    assert [len(rows[0]["q"]), rows[1]] == [10**6, {"other": "2"}]


def test_a_json_file_is_not_read_as_csv(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(SourceError, match=r"a\.jsonl is no CSV file, by its name. Read it with source='json'"):
        read(tmp_path / "a.jsonl")


def test_options_of_load_dataset_alone_are_read_by_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("é\n007\n".encode("latin-1"))
    assert read(tmp_path / "a.csv", encoding="latin-1") == [{"é": "007"}]
