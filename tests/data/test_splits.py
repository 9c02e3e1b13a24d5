"""Rows held out for validation: by content or group, for good."""

import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data.duplicates import duplicate_rows
from torchpipe.data.splits import Holdout, split_rows
from torchpipe.errors import ColumnError, ConfigError


def rows_of(num_rows: int) -> list[dict[str, Any]]:
    return [{"id": number, "group": f"g{number % 40}", "text": f"row {number}"} for number in range(num_rows)]


def test_the_parts_are_all_rows_and_share_none_and_the_share_is_met_on_average() -> None:
    train, validation = split_rows(rows_of(5000), share=0.1)
    assert sorted([*train.tolist(), *validation.tolist()]) == list(range(5000))
    assert 420 < len(validation) < 580


@settings(deadline=None)
@given(st.lists(st.integers(0, 300), unique=True, max_size=60), st.integers(0, 5))
def test_a_row_stays_in_its_part_whatever_rows_are_added_removed_or_moved(numbers: list[int], seed: int) -> None:
    rows = rows_of(301)
    _, held_out = split_rows(rows, share=0.3, seed=seed)
    _, of_some = split_rows([rows[number] for number in numbers], share=0.3, seed=seed)
    assert {numbers[place] for place in of_some.tolist()} == set(held_out.tolist()) & set(numbers)


def test_keys_that_arrow_fills_in_for_another_row_change_no_rows_part_and_hide_no_duplicate() -> None:
    turn = {"role": "user", "content": "?"}
    rows: list[dict[str, Any]] = [{"messages": [turn, {"role": "assistant", "content": str(n)}]} for n in range(60)]
    rows.append(dict(rows[0]))
    flagged = {"messages": [turn, {"role": "assistant", "content": "!", "weight": 0}], "meta": {"source": {"page": 1}}}
    in_arrow = pyarrow.Table.from_pylist([flagged, *rows]).to_pylist()[1:]
    assert in_arrow != rows
    parts = [[part.tolist() for part in split_rows(given, share=0.3)] for given in (rows, in_arrow)]
    assert parts[0] == parts[1]
    assert duplicate_rows(in_arrow).tolist() == [60]


def test_turns_of_one_group_never_land_on_both_sides() -> None:
    for seed in range(30):
        rows = [{"conversation": number // 4, "turn": number % 4} for number in range(16)]
        train, validation = split_rows(rows, share=0.5, group_column="conversation", seed=seed)
        groups = [{rows[row]["conversation"] for row in part.tolist()} for part in (train, validation)]
        assert not groups[0] & groups[1]


def test_a_larger_share_keeps_what_a_smaller_one_held_out_and_another_seed_does_not() -> None:
    rows = rows_of(1000)
    small, large, other = (
        set(split_rows(rows, share=s, seed=n)[1].tolist()) for s, n in [(0.1, 0), (0.2, 0), (0.2, 1)]
    )
    assert small < large
    assert large != other


def test_equal_rows_are_in_one_part_however_their_keys_are_ordered(shared_data: Path) -> None:
    rows = [json.loads(line) for line in (shared_data / "gsm8k" / "train.jsonl").read_text().splitlines()[:1000]]
    turned = [dict(reversed(row.items())) | {"null": None} for row in rows]
    train, validation = split_rows([*rows, *turned], share=0.05)
    first, second = (set(part.tolist()) for part in split_rows(rows, share=0.05))
    assert set(train.tolist()) == first | {row + len(rows) for row in first}
    assert set(validation.tolist()) == second | {row + len(rows) for row in second}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"share": 0}, "share of holdout is 0. Give the part of all rows to hold out, such as 0.05"),
        ({"share": 1.0}, "share of holdout is 1.0"),
        ({}, "holdout has no share"),
        ({"share": 0.1, "part": "val"}, r"part of holdout is 'val'\. It is one of 'train', 'validation'\."),
        ({"share": 0.1, "groups": "id"}, "holdout has the key 'groups'; it may have 'share'"),
        ({"share": 0.1, "group_column": 3}, "group_column of holdout is 3"),
        ({"share": 0.1, "seed": "a"}, "seed of holdout is 'a'"),
        (0.1, "holdout is a float. It is a mapping of 'share'"),
    ],
)
def test_a_split_that_can_not_be_is_refused(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Holdout.of(given)


def test_a_row_without_its_group_is_named() -> None:
    with pytest.raises(ColumnError, match=r"Row 1: The row has no column 'user'; it has 'usr'\. Did you mean 'usr'\?"):
        split_rows([{"user": 1}, {"usr": 2}], share=0.5, group_column="user")
    with pytest.raises(ColumnError, match="Row 0: Column 'user', the group by which rows are held out, is null"):
        split_rows([{"user": None}], share=0.5, group_column="user")
