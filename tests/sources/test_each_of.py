"""Many rows of files, read in pieces."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import MalformedRow, SourceError
from torchpipe.sources import JoinedRows, JsonRows, KeptRows, each_of
from torchpipe.sources.file_rows import _PIECE

NUMBERS = st.lists(st.integers(0, 29), max_size=40)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> JsonRows:
    """Thirty rows in three files: small ones, some of which are longer than a piece, and a list."""
    folder = tmp_path_factory.mktemp("rows")
    sizes = [3, _PIECE + 5, 7, _PIECE // 2, _PIECE // 2, 9, *range(10, 24)]
    texts = [json.dumps({"number": number, "text": "x" * size}) for number, size in enumerate(sizes)]
    (folder / "a.jsonl").write_text("\n".join(texts[:15]), encoding="utf-8")
    (folder / "b.jsonl").write_text("\n\n".join(texts[15:]) + "\n", encoding="utf-8")
    (folder / "c.json").write_text(json.dumps([{"number": number} for number in range(20, 30)], indent=1), "utf-8")
    return JsonRows([folder / name for name in ("a.jsonl", "b.jsonl", "c.json")])


@given(indices=NUMBERS)
def test_rows_of_any_numbers_are_those_read_alone(rows: JsonRows, indices: Sequence[int]) -> None:
    assert list(each_of(rows, indices)) == [rows[index] for index in indices]


@given(indices=NUMBERS, kept=st.permutations(range(30)))
def test_chosen_rows_are_those_read_alone(rows: JsonRows, indices: Sequence[int], kept: Sequence[int]) -> None:
    chosen = KeptRows(rows, np.array(kept))
    assert list(each_of(chosen, indices)) == [chosen[index] for index in indices]


def test_joined_rows_and_lists_are_read_too(rows: JsonRows) -> None:
    joined = JoinedRows([rows, KeptRows(rows, np.array([4]))])
    assert [row["number"] for row in each_of(joined, range(28, 31))] == [28, 29, 4]


def test_a_row_that_is_not_there_is_an_index_error(rows: JsonRows) -> None:
    with pytest.raises(IndexError, match="Row 30 was asked for, and there are 30 rows"):
        list(each_of(rows, [29, 30]))


def test_rows_before_a_malformed_one_come_first(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2,}\n{"a": 3}\n', encoding="utf-8")
    read = each_of(JsonRows([tmp_path / "a.jsonl"]), range(3))
    assert next(read) == {"a": 1}
    with pytest.raises(MalformedRow, match="line 2 is not valid JSON"):
        next(read)


def test_a_file_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2}\n', encoding="utf-8")
    rows = JsonRows([tmp_path / "a.jsonl"])
    os.utime(tmp_path / "a.jsonl", ns=(1, 1))
    with pytest.raises(SourceError, match="has changed since it was opened"):
        list(each_of(rows, range(2)))
