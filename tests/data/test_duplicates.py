"""Rows of equal content: within a data set, and in two."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.duplicates import duplicate_rows, overlap
from torchpipe.data.row_content import content_digest
from torchpipe.errors import ColumnError


@given(st.lists(st.integers(0, 8)))
def test_every_row_but_the_first_of_its_content_is_a_duplicate(values: list[int]) -> None:
    rows = [{"value": value} for value in values]
    expected = [row for row, value in enumerate(values) if value in values[:row]]
    assert duplicate_rows(rows).tolist() == expected


@given(st.lists(st.integers(0, 8)), st.lists(st.integers(0, 8)))
def test_shared_rows_are_found_and_paired_with_the_first_equal_one(ours: list[int], theirs: list[int]) -> None:
    found = overlap([{"v": value} for value in ours], [{"v": value} for value in theirs], num_examples=100)
    assert list(found.examples) == [(row, theirs.index(value)) for row, value in enumerate(ours) if value in theirs]
    assert (found.num_rows, found.num_shared) == (len(ours), len(found.examples))


def test_one_changed_character_is_another_content_and_the_order_of_keys_is_none() -> None:
    row = {"messages": [{"role": "user", "content": "a\r\nb"}], "n": 1, "array": np.array([1, 2])}
    same = {"array": [1, 2], "n": 1, "messages": [{"content": "a\r\nb", "role": "user"}], "extra": None}
    assert content_digest(row) == content_digest(same)
    others: list[dict[str, Any]] = [
        row | {"messages": [{"role": "user", "content": "a\nb"}]},
        row | {"n": "1"},
        row | {"n": True},
        row | {"extra": ""},
    ]
    assert len({content_digest(other) for other in [row, *others]}) == 5


def test_chosen_columns_alone_are_compared_and_have_to_be_there() -> None:
    rows = [{"id": 1, "text": "a"}, {"id": 2, "text": "a"}, {"id": 2, "text": "b"}]
    assert duplicate_rows(rows).tolist() == []
    assert duplicate_rows(rows, columns=["text"]).tolist() == [1]
    with pytest.raises(
        ColumnError, match=r"Row 0: The row has no column 'txt'; it has 'id', 'text'\. Did you mean 'text'"
    ):
        duplicate_rows(rows, columns=["txt"])


def test_validation_rows_of_a_real_file_are_found_in_the_training_rows(shared_data: Path) -> None:
    rows = [json.loads(line) for line in (shared_data / "gsm8k" / "train.jsonl").read_text().splitlines()[:1000]]
    leaked = overlap(rows[600:700], [*rows[:600], rows[650]])
    assert leaked.examples == [(50, 600)]
    assert leaked.describe() == "1 of 100 rows (1.0%) is in the other data set too: row 50 is row 600 there"
    assert overlap(rows[600:], rows[:600]).describe() == f"none of {len(rows) - 600} rows is in the other data set"
