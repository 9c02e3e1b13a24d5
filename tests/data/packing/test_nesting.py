"""Rows made of rows hold each token that they should, once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.packing import PackPlan, plan_packs
from torchpipe.data.packing.nesting import fitted_rows, joined_rows, rows_in_packs, rows_of_samples

Rows = list[list[int]]

row_lengths = st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=12)
"""The documents' lengths of each row."""


def rows_of(lengths: Rows) -> PackPlan:
    row_of = np.repeat(np.arange(len(lengths)), [len(row) for row in lengths])
    return rows_of_samples(np.array([length for row in lengths for length in row], np.int64), row_of)


def tokens_of(plan: PackPlan) -> list[list[tuple[int, int]]]:
    """Every token of each row, as sample and place."""
    return [
        [(sample, place) for sample, start, stop in plan.spans(row) for place in range(start, stop)]
        for row in range(len(plan))
    ]


def flat(rows: Sequence[Sequence[Any]]) -> list[Any]:
    return [token for row in rows for token in row]


@given(row_lengths, st.integers(1, 12))
def test_packs_of_rows_hold_the_tokens_of_the_rows_in_order(lengths: Rows, capacity: int) -> None:
    rows = rows_of(lengths)
    packs = plan_packs(rows.num_tokens, capacity, strategy="concat_then_split")
    nested = rows_in_packs(packs, rows)
    tokens = tokens_of(rows)
    expected = [flat([tokens[row][start:stop] for row, start, stop in packs.spans(pack)]) for pack in range(len(packs))]
    assert tokens_of(nested) == expected
    assert nested.pack_lens.tolist() == packs.pack_lens.tolist()


@given(row_lengths, st.integers(1, 9), st.integers(9, 20))
def test_split_rows_hold_every_token_once_and_none_is_too_long(lengths: Rows, longest: int, capacity: int) -> None:
    rows = rows_of(lengths)
    fitted = fitted_rows(rows, longest=longest, capacity=capacity, overflow="split").rows
    assert flat(tokens_of(fitted)) == flat(tokens_of(rows))
    assert (fitted.stop - fitted.start).max() <= longest
    assert fitted.num_tokens.max() <= capacity


@given(row_lengths, st.integers(1, 9), st.integers(9, 20))
def test_truncated_rows_keep_the_left_of_documents_and_rows(lengths: Rows, longest: int, capacity: int) -> None:
    rows = rows_of(lengths)
    fitted = fitted_rows(rows, longest=longest, capacity=capacity, overflow="truncate")
    expected = [
        flat(
            [[(sample, place) for place in range(start, min(stop, longest))] for sample, start, stop in rows.spans(row)]
        )[:capacity]
        for row in range(len(rows))
    ]
    assert tokens_of(fitted.rows) == expected
    assert fitted.num_truncated == len(flat(tokens_of(rows))) - len(flat(expected))


@given(row_lengths, st.integers(1, 9), st.integers(9, 20))
def test_dropped_rows_are_those_that_are_too_long(lengths: Rows, longest: int, capacity: int) -> None:
    rows = rows_of(lengths)
    fitted = fitted_rows(rows, longest=longest, capacity=capacity, overflow="drop")
    wrong = [row for row, own in enumerate(lengths) if max(own) > longest or sum(own) > capacity]
    assert fitted.dropped.tolist() == wrong
    assert fitted.num_dropped_tokens == sum(sum(lengths[row]) for row in wrong)
    assert tokens_of(fitted.rows) == [tokens for row, tokens in enumerate(tokens_of(rows)) if row not in wrong]


@given(row_lengths, st.integers(1, 9), st.integers(9, 20), st.integers(1, 4))
def test_split_rows_hold_no_more_documents_than_they_may(lengths: Rows, longest: int, capacity: int, most: int) -> None:
    rows = rows_of(lengths)
    fitted = fitted_rows(rows, longest=longest, capacity=capacity, overflow="split", max_documents=most).rows
    assert flat(tokens_of(fitted)) == flat(tokens_of(rows))
    assert (fitted.stop - fitted.start).max() <= longest
    assert fitted.num_tokens.max() <= capacity
    assert np.diff(fitted.pack_offsets).max() <= most


@given(row_lengths, st.integers(1, 9), st.integers(9, 20), st.integers(1, 4))
def test_rows_with_too_many_documents_are_dropped_or_cut(lengths: Rows, longest: int, capacity: int, most: int) -> None:
    rows, options = rows_of(lengths), {"longest": longest, "capacity": capacity, "max_documents": most}
    dropped, cut = (fitted_rows(rows, overflow=word, **options) for word in ("drop", "truncate"))  # pyright: ignore
    too_long = [row for row, own in enumerate(lengths) if max(own) > longest or sum(own) > capacity]
    over_cap = [row for row, own in enumerate(lengths) if len(own) > most and row not in too_long]
    assert dropped.dropped.tolist() == too_long
    assert dropped.over_cap.tolist() == over_cap
    assert dropped.num_over_cap_tokens == sum(sum(lengths[row]) for row in over_cap)
    own = [
        [[(sample, place) for place in range(stop)] for sample, _, stop in rows.spans(row)] for row in range(len(rows))
    ]
    assert tokens_of(cut.rows) == [flat([document[:longest] for document in row[:most]])[:capacity] for row in own]


def test_joined_rows_stand_one_after_the_other_under_numbers_of_their_own() -> None:
    one, two = rows_of([[2], [1, 1]]), rows_of([[3]])
    joined = joined_rows([one, two], [0, 10])
    assert [joined.spans(row) for row in range(3)] == [[(0, 0, 2)], [(1, 0, 1), (2, 0, 1)], [(10, 0, 3)]]


@pytest.mark.parametrize("overflow", ["drop", "truncate", "split", "error"])
def test_rows_that_fit_stay_as_they_are(overflow: Any) -> None:
    rows = rows_of([[2, 3], [4]])
    assert fitted_rows(rows, longest=4, capacity=5, overflow=overflow).rows is rows


def test_rows_of_nothing_are_no_rows() -> None:
    assert len(rows_of_samples(np.zeros(0, np.int64), np.zeros(0, np.int64))) == 0
