"""Batches of text: one flat run of tokens, with what pads it."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import DataError
from torchpipe.pipeline import DatasetBuildContext, TextCollator, TextSequence
from torchpipe.pipeline.sequences import FreshSequence


def context(**settings: Any) -> DatasetBuildContext:
    return DatasetBuildContext(**{"tokenizer": None, "max_context_length": 4, "num_tokens_per_batch": 12, **settings})


def document(*tokens: int, **arrays: Any) -> TextSequence:
    ids = np.array(tokens, dtype=np.int64)
    return TextSequence(input_ids=ids, labels=arrays.pop("labels", ids + 1), **arrays)


def collate(*rows: TextSequence, **settings: Any) -> tuple[dict[str, Any], torch.Tensor]:
    return TextCollator.Config().build(context=context(**settings))(rows)


def test_a_batch_is_its_rows_in_order_and_then_padding() -> None:
    batch, labels = collate(document(5, 6), document(7, 8, 9))
    assert batch["input"].tolist() == [5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0, 0]
    assert labels.tolist() == [6, 7, 8, 9, 10, *[-100] * 7]
    assert batch["positions"].tolist() == [0, 1, 0, 1, 2, 0, 1, 2, 3, 0, 1, 2]
    assert batch["padding_mask"].tolist() == [False] * 5 + [True] * 7
    assert batch["num_valid_tokens"] == 5
    assert type(batch["num_valid_tokens"]) is int
    assert {key: value.dtype for key, value in batch.items() if isinstance(value, torch.Tensor)} == {
        "input": torch.int64,
        "positions": torch.int64,
        "padding_mask": torch.bool,
    }


def test_no_position_of_padding_is_beyond_the_longest_document() -> None:
    batch, _ = collate(document(1), max_context_length=9, num_tokens_per_batch=64)
    assert batch["positions"].max() == 8


def test_a_packed_row_keeps_its_positions_and_its_own_padding() -> None:
    row = document(
        5, 6, 7, 0, labels=np.array([6, -100, -100, -100]), positions=np.array([0, 1, 0, 0]),
        padding_mask=np.array([False, False, False, True]),
    )  # fmt: skip
    batch, _ = collate(row, num_tokens_per_batch=4)
    assert batch["positions"].tolist() == [0, 1, 0, 0]
    assert batch["padding_mask"].tolist() == [False, False, False, True]
    assert batch["num_valid_tokens"] == 1


def test_no_rows_are_a_batch_of_padding_that_trains_nothing() -> None:
    batch, labels = collate(max_num_documents=2)
    assert batch["input"].tolist() == [0] * 12
    assert labels.tolist() == [-100] * 12
    assert batch["padding_mask"].all()
    assert batch["num_valid_tokens"] == 0
    assert batch["cu_seqlens"].tolist() == [0, 4, 8, 12, 12, 12]


def test_more_tokens_than_a_batch_has_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^text rows exceed the configured token batch: 2 rows have 14 tokens, and"):
        collate(document(*range(10)), document(*range(4)))


def test_offsets_of_documents_have_one_length_whatever_a_batch_holds() -> None:
    few, _ = collate(document(1, 2, 3), max_num_documents=5)
    many, _ = collate(*[document(1, 2)] * 5, max_num_documents=5)
    full, _ = collate(*[document(1, 2, 3, 4)] * 3, max_num_documents=5)
    assert few["cu_seqlens"].tolist() == [0, 3, 7, 11, 12, 12, 12, 12, 12]
    assert many["cu_seqlens"].tolist() == [0, 2, 4, 6, 8, 10, 12, 12, 12]
    assert full["cu_seqlens"].tolist() == [0, 4, 8, 12, 12, 12, 12, 12, 12]
    assert few["cu_seqlens"].dtype == torch.int32


def test_more_documents_than_the_cap_are_refused() -> None:
    with pytest.raises(DataError, match="has 3 documents, and 2 of padding, where max_num_documents is 2"):
        collate(*[document(1, 2)] * 3, max_num_documents=2)


@given(st.lists(st.integers(1, 9), max_size=8), st.integers(1, 9), st.integers(0, 20))
def test_offsets_cut_a_batch_into_documents_that_hold_every_token_once(
    lengths: list[int], longest: int, spare: int
) -> None:
    rows = [document(*range(min(length, longest))) for length in lengths]
    total = sum(len(row.input_ids) for row in rows) + spare or 1
    batch, _ = collate(*rows, max_context_length=longest, num_tokens_per_batch=total, max_num_documents=len(rows) or 1)
    offsets = batch["cu_seqlens"].numpy()
    parts = [part for part in np.split(batch["positions"].numpy(), offsets[1:-1]) if len(part)]
    assert (offsets[0], offsets[-1]) == (0, total)
    assert all(part.tolist() == list(range(len(part))) for part in parts)
    assert max(map(len, parts)) <= longest


def test_a_batch_that_was_handed_out_is_not_written_again() -> None:
    collator = TextCollator.Config().build(context=context())
    first, labels = collator([document(5, 6)])
    kept = {key: value.clone() for key, value in first.items() if isinstance(value, torch.Tensor)}
    own = labels.clone()
    for _ in range(3):
        collator([document(*range(12))])
    assert all(torch.equal(first[key], value) for key, value in kept.items())
    assert torch.equal(labels, own)


@pytest.mark.parametrize("num_tokens", [3, 4])
def test_only_a_row_that_nothing_else_holds_and_that_fills_the_batch_becomes_it_without_a_copy(num_tokens: int) -> None:
    arrays = {name: np.arange(3) for name in ("input_ids", "labels", "positions")}
    for kind in (TextSequence, FreshSequence):
        batch, labels = collate(kind(**arrays), num_tokens_per_batch=num_tokens)
        expected = collate(document(0, 1, 2, labels=np.arange(3)), num_tokens_per_batch=num_tokens)
        assert labels.tolist() == expected[1].tolist()
        assert all(torch.equal(torch.as_tensor(batch[name]), torch.as_tensor(expected[0][name])) for name in batch)
        is_taken = np.shares_memory(batch["input"].numpy(), arrays["input_ids"])
        assert is_taken == (kind is FreshSequence and num_tokens == 3)


def test_rows_of_a_file_that_is_only_read_are_taken_as_they_are() -> None:
    ids = np.arange(3, dtype=np.uint32)
    ids.setflags(write=False)
    batch, _ = collate(TextSequence(input_ids=ids, labels=ids))
    assert batch["input"][:3].tolist() == [0, 1, 2]


def test_tokens_that_are_no_integers_are_refused() -> None:
    with pytest.raises(DataError, match=r"can't be joined to one row of torch.int64: \[2\] of float64"):
        collate(TextSequence(input_ids=np.array([0.5, 1.5]), labels=np.array([1, 2])))


def test_pinning_is_as_the_config_says_and_asked_of_the_machine_otherwise() -> None:
    assert TextCollator.Config(pin_memory=False).build(context=context()).pins_memory is False
    made = TextCollator.Config().build(context=context())
    assert made.pins_memory is torch.accelerator.is_available()
    assert made([])[0]["input"].is_pinned() is made.pins_memory


def test_a_batch_is_made_of_one_row_unless_a_collator_says_otherwise() -> None:
    assert TextCollator.Config().build(context=context()).num_rows_per_batch() == 1
