import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import padded_collate_dpo
from torchpipe.errors import ColumnError, ConfigError, DataError


def pair(chosen: list[int], rejected: list[int]) -> dict[str, Any]:
    return {
        "chosen_input_ids": chosen,
        "chosen_labels": [-100, *chosen[1:]],
        "rejected_input_ids": rejected,
        "rejected_labels": [-100, *rejected[1:]],
    }


def test_chosen_rows_come_first_and_labels_are_not_shifted():
    tokens, labels = padded_collate_dpo([pair([1, 2, 3], [1, 4]), pair([5, 6], [5, 7, 8])], padding_idx=9)
    assert tokens.tolist() == [[1, 2, 3], [5, 6, 9], [1, 4, 9], [5, 7, 8]]
    assert labels.tolist() == [[-100, 2, 3], [-100, 6, -100], [-100, 4, -100], [-100, 7, 8]]
    assert tokens.dtype == labels.dtype == torch.int64


def test_arguments_can_be_given_by_position_and_an_exact_multiple_adds_nothing():
    tokens, labels = padded_collate_dpo([pair([1, 2, 3, 4], [1, 2])], 8, -1, 4)
    assert tokens.tolist() == [[1, 2, 3, 4], [1, 2, 8, 8]]
    assert labels.tolist() == [[-100, 2, 3, 4], [-100, 2, -1, -1]]
    assert padded_collate_dpo([pair([1, 2, 3, 4, 5], [1])], pad_to_multiple_of=4)[0].shape == (2, 8)


def test_arrays_of_short_integers_become_long():
    batch = [{key: np.array(row, dtype=np.int32) for key, row in pair([1, 2], [3, 4]).items()}]
    tokens, labels = padded_collate_dpo(batch)
    assert tokens.dtype == labels.dtype == torch.int64


@pytest.mark.parametrize(
    ("batch", "error", "sentence"),
    [
        ([], DataError, "The batch is empty"),
        (
            [{**pair([1], [2]), "chosen_labels": [1, 2]}],
            DataError,
            "1 in 'chosen_input_ids' and 2 in 'chosen_",
        ),
        ([pair([1], [2]), {**pair([1], [2]), "rejected_labels": []}], DataError, "Sample 1 .* 0 in 'rejected_labels'"),
        ([{"chosen_input_ids": [1]}], ColumnError, "Sample 0 of the batch has no 'rejected_input_ids'"),
        ([pair([1], [2.5])], DataError, "don't fit in one tensor"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(batch: Any, error: type[Exception], sentence: str):
    with pytest.raises(error, match=sentence):
        padded_collate_dpo(batch)


def test_a_multiple_below_one_is_refused():
    with pytest.raises(ConfigError, match="must be 1 or more"):
        padded_collate_dpo([pair([1], [2])], pad_to_multiple_of=0)


ids = st.lists(st.integers(0, 9999), min_size=1, max_size=9)


@settings(deadline=None)
@given(st.lists(st.tuples(ids, ids), min_size=1, max_size=5), st.integers(1, 8))
def test_every_row_is_there_once_and_the_samples_are_unchanged(rows: list[tuple[list[int], list[int]]], multiple: int):
    batch = [pair(*row) for row in rows]
    before = copy.deepcopy(batch)
    tokens, labels = padded_collate_dpo(batch, padding_idx=-1, ignore_idx=-200, pad_to_multiple_of=multiple)
    assert batch == before
    longest = max(len(ids) for row in rows for ids in row)
    width = next(number for number in range(longest, longest + multiple) if number % multiple == 0)
    assert tokens.shape == labels.shape == (2 * len(rows), width)
    expected = [row[0] for row in rows] + [row[1] for row in rows]
    for got, got_labels, own in zip(tokens.tolist(), labels.tolist(), expected, strict=True):
        assert got == own + [-1] * (width - len(own))
        assert got_labels == [-100, *own[1:]] + [-200] * (width - len(own))
