"""The ledger: each row has one fate, and what is counted of it is said."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.ledger import REASONS, REMARKS, Ledger, SampleCounts
from torchpipe.errors import DataError


def ids(*rows: int) -> np.ndarray:
    return np.array(rows, dtype=np.int64)


def ledger(**changes: Any) -> Ledger:
    fields = {"read": ids(0, 1, 2, 3), "stored": ids(0, 2), "left_out": {"filtered": ids(1), "too_long": ids(3)}}
    return Ledger(**{**fields, "remarks": {"truncated": ids(2)}, **changes})


def test_a_ledger_that_covers_what_was_read_passes() -> None:
    ledger().check()
    ledger().check(num_rows=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"read": ids(0, 1, 2, 2, 3)}, "Row 2 was read twice"),
        ({"stored": ids(0, 1, 2)}, "Row 1 has two fates in the ledger"),
        ({"left_out": {"filtered": ids(1, 3), "too_long": ids(3)}}, "Row 3 has two fates in the ledger"),
        ({"left_out": {"filtered": ids(1)}}, "Row 3 was read, and is neither stored nor left out"),
        ({"stored": ids(0, 2, 9)}, "Row 9 has a fate, and was not read"),
        ({"remarks": {"truncated": ids(3)}}, "Row 3 is said to be truncated, and it is not stored"),
    ],
)
def test_a_row_with_no_fate_or_two_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        ledger(**changes).check()


def test_all_rows_of_the_source_have_to_be_read() -> None:
    with pytest.raises(DataError, match=r"The ledger of 6 rows has 4 as read; the first to differ is 4"):
        ledger().check(num_rows=6)


@given(fates=st.lists(st.integers(0, len(REASONS)), max_size=40), cuts=st.lists(st.integers(0, 40), max_size=3))
def test_joined_parts_are_the_whole(fates: list[int], cuts: list[int]) -> None:
    def part(first: int, stop: int) -> Ledger:
        rows = range(first, stop)
        stored = [row for row in rows if fates[row] == len(REASONS) for _ in range(1 + row % 2)]
        left_out = [(row, fates[row]) for row in rows if fates[row] < len(REASONS)]
        remarks = [(row, row % len(REMARKS)) for row in dict.fromkeys(stored)]
        return Ledger.of_columns(
            read=np.arange(first, stop),
            rows=ids(*stored),
            left_out=np.array(left_out, dtype=np.int64).reshape(-1, 2),
            remarks=np.array(remarks, dtype=np.int64).reshape(-1, 2),
        )

    whole = part(0, len(fates))
    edges = [0, *sorted(min(cut, len(fates)) for cut in cuts), len(fates)]
    parts = [part(first, stop) for first, stop in pairwise(edges)]
    joined = Ledger.joined(parts)
    joined.check(num_rows=len(fates))
    assert joined.as_counts() == whole.as_counts()
    assert sum(len(rows) for rows in joined.left_out.values()) + len(joined.stored) == len(fates)


def test_codes_on_disk_never_change() -> None:
    assert REASONS[:4] == ("filtered", "too_long", "nothing_trained", "unproved")
    assert REMARKS[:5] == ("truncated", "unstopped", "split", "partly_unproved", "images_dropped")


def test_it_says_how_many_rows_each_reason_left_out() -> None:
    assert ledger().describe() == ("4 rows read, 2 stored; 1 left out by filter_fn; 1 left out longer than max_seq_len")


def test_counts_of_samples_take_the_sizes_of_its_sets() -> None:
    counts = SampleCounts.of_sets(ledger().as_counts(), rows=2, tokens=10, trained_tokens=5, truncated_tokens=3)
    assert (counts.filtered_rows, counts.too_long_rows, counts.truncated_rows) == (1, 1, 1)
    assert counts.describe() == (
        "2 rows, 10 tokens, 5 trained (50%); longest 0; 1 more row left out by filter_fn; "
        "1 row cut to max_seq_len (3 tokens left out); 1 more row left out, longer than max_seq_len"
    )
