"""Batches of packed pairs, of labelled answers, and of prompts."""

from typing import Any

import pytest
import torch

from torchpipe.data import (
    padded_collate_kto,
    padded_collate_packed_pairs,
    padded_collate_prompts,
    padded_collate_sft,
)
from torchpipe.errors import ColumnError, DataError

PACKS = [
    {
        "tokens": [1, 2, 3, 1, 2, 4, 0, 0],
        "labels": [-100, 3, -100, -100, 4, -100, -100, -100],
        "input_pos": [0, 1, 2, 0, 1, 2, 3, 4],
        "seq_lens": [3, 3, 2],
    },
    {
        "tokens": [5, 6, 5, 7, 8, 9, 8, 10],
        "labels": [6, -100, 7, -100, 9, -100, 10, -100],
        "input_pos": [0, 1, 0, 1, 0, 1, 0, 1],
        "seq_lens": [2, 2, 2, 2],
    },
]
KTO = [
    {"input_ids": [1, 2, 3, 4], "labels": [-100, -100, 3, 4], "desirable": True},
    {"input_ids": [5, 6], "labels": [-100, 6], "desirable": False},
    {"input_ids": [7, 8, 9], "labels": [-100, 8, 9], "desirable": True},
]


def test_documents_of_packed_pairs_are_numbered_through_the_batch() -> None:
    batch = padded_collate_packed_pairs(PACKS, mask="varlen")
    assert batch["num_pairs"] == 3
    assert batch["documents"].tolist() == [[0, 0, 0, 1, 1, 1, 6, 6], [2, 2, 3, 3, 4, 4, 5, 5]]


def test_sums_a_document_are_those_of_each_response() -> None:
    batch = padded_collate_packed_pairs(PACKS)
    values = torch.where(batch["labels"] == -100, 0, batch["labels"]).double()
    sums = torch.zeros(2 * batch["num_pairs"] + 1, dtype=torch.float64)
    sums.index_add_(0, batch["documents"].flatten(), values.flatten())
    assert sums[:-1:2].tolist() == [3, 6, 9]
    assert sums[1::2].tolist() == [4, 7, 10]


def test_labelled_answers_are_padded_on_the_right() -> None:
    batch = padded_collate_kto(KTO, padding_idx=99, pad_to_multiple_of=3)
    assert batch["tokens"].tolist() == [[1, 2, 3, 4, 99, 99], [5, 6, 99, 99, 99, 99], [7, 8, 9, 99, 99, 99]]
    assert batch["labels"][1].tolist() == [-100, 6, -100, -100, -100, -100]
    assert batch["desirable"].tolist() == [True, False, True]
    assert set(batch) == {"tokens", "labels", "desirable"}


def test_mismatched_answers_are_those_of_the_next_sample() -> None:
    batch = padded_collate_kto(KTO, mismatched=True)
    assert batch["kl_tokens"].tolist() == [[1, 2, 6], [5, 8, 9], [7, 3, 4]]
    assert batch["kl_labels"].tolist() == [[-100, -100, 6], [-100, 8, 9], [-100, 3, 4]]
    with pytest.raises(DataError, match="batch of one sample has no other answer"):
        padded_collate_kto(KTO[:1], mismatched=True)


def test_a_labelled_answer_without_its_label_is_named() -> None:
    with pytest.raises(ColumnError, match="Sample 1 of the batch has no 'desirable'"):
        padded_collate_kto([KTO[0], {"input_ids": [1], "labels": [-100]}])
    with pytest.raises(DataError, match="has 2 in 'input_ids' and 1 in 'labels'"):
        padded_collate_kto([{"input_ids": [1, 2], "labels": [-100], "desirable": True}])


def test_prompts_end_in_the_last_column() -> None:
    batch = padded_collate_prompts([{"tokens": [5, 6, 7]}, {"tokens": [8]}], padding_idx=9, pad_to_multiple_of=2)
    assert batch["tokens"].tolist() == [[9, 5, 6, 7], [9, 9, 9, 8]]
    assert batch["input_pos"].tolist() == [[0, 0, 1, 2], [0, 0, 0, 0]]
    assert batch["prompt_lens"].tolist() == [3, 1]


def test_columns_of_prompts_stay_as_they_are() -> None:
    batch = padded_collate_prompts([{"tokens": [5], "columns": {"id": "a"}}, {"tokens": [6], "columns": {"id": "b"}}])
    assert batch["columns"] == [{"id": "a"}, {"id": "b"}]


@pytest.mark.parametrize(
    ("item", "made_by"),
    [
        ({"input_ids": [1], "labels": [1], "desirable": True}, "padded_collate_kto"),
        ({"tokens": [1], "columns": {"id": 3}}, "padded_collate_prompts"),
        (
            {f"{side}_{what}": [1] for side in ("chosen", "rejected") for what in ("input_ids", "labels")},
            "padded_collate_dpo",
        ),
    ],
)
def test_the_usual_function_names_the_one_that_batches_the_items(item: dict[str, Any], made_by: str) -> None:
    with pytest.raises(ColumnError, match=rf"Batches of these are made by torchpipe\.data\.{made_by}\."):
        padded_collate_sft([item])
