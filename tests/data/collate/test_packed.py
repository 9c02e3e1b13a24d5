from typing import Any

import numpy as np
import pytest
import torch

from torchpipe.data import padded_collate_packed
from torchpipe.data.packing.masks import PackedMask
from torchpipe.errors import ColumnError, ConfigError, DataError

BATCH: list[dict[str, Any]] = [
    {"tokens": [1, 2, 3, 4], "labels": [2, -100, 4, -100], "input_pos": [0, 1, 0, 1], "seq_lens": [2, 2]},
    {"tokens": [5, 6, 7, 0], "labels": [6, 7, -100, -100], "input_pos": [0, 1, 2, 0], "seq_lens": [3, 1]},
]


def made(make: Any) -> list[dict[str, Any]]:
    return [{key: make(row) for key, row in each.items()} for each in BATCH]


@pytest.mark.parametrize("make", [torch.tensor, np.array, list, lambda row: np.array(row, dtype=np.int32)])
def test_the_four_keys_of_torchtune_with_a_dense_mask(make: Any):
    out = padded_collate_packed(made(make))
    assert list(out) == ["tokens", "labels", "input_pos", "mask"]
    for key in ("tokens", "labels", "input_pos"):
        assert out[key].dtype == torch.int64
        assert out[key].tolist() == [each[key] for each in BATCH]
    assert isinstance(out["mask"], torch.Tensor)
    assert out["mask"].dtype == torch.bool
    assert out["mask"].int().tolist() == [
        [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]],
        [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 0, 1]],
    ]


def test_the_varlen_mask_has_the_documents_of_all_rows():
    mask = padded_collate_packed(made(torch.tensor), mask="varlen")["mask"]
    assert isinstance(mask, PackedMask)
    assert mask.lens == (2, 2, 3, 1)
    assert mask.cu_seqlens.tolist() == [0, 2, 4, 7, 8]


def test_samples_that_are_not_packed_are_sent_to_the_other_function():
    with pytest.raises(
        ColumnError, match=r"Sample 0 of the batch has no 'seq_lens', so it is not packed. Use padded_collate_sft"
    ):
        padded_collate_packed([{"tokens": [1], "labels": [1]}])


def test_a_missing_key_is_named():
    with pytest.raises(ColumnError, match="Sample 0 of the batch has no 'input_pos'"):
        padded_collate_packed([{"tokens": [1], "labels": [1], "seq_lens": [1]}])


def test_packs_of_different_lengths_are_refused():
    short = {"tokens": [1], "labels": [1], "input_pos": [0], "seq_lens": [1]}
    with pytest.raises(DataError, match="The packs have 4, 1 tokens"):
        padded_collate_packed([BATCH[0], short])


def test_seq_lens_that_do_not_add_up_are_refused():
    with pytest.raises(DataError, match="Sample 0 of the batch has 4 tokens, but its seq_lens sum to 3"):
        padded_collate_packed([{**BATCH[0], "seq_lens": [2, 1]}])


def test_an_empty_batch_and_an_unknown_mask_are_refused():
    with pytest.raises(DataError, match="The batch is empty"):
        padded_collate_packed([])
    with pytest.raises(ConfigError, match=r"mask 'varlem'.*Did you mean 'varlen'"):
        padded_collate_packed(BATCH, mask="varlem")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("mask", [2, None, ["dense"]])
def test_a_mask_that_is_no_word_is_refused(mask: Any):
    with pytest.raises(ConfigError, match=r"Unknown mask .*It is one of 'dense', 'ids', 'varlen'"):
        padded_collate_packed(BATCH, mask=mask)


@pytest.mark.parametrize("key", ["labels", "input_pos"])
@pytest.mark.parametrize("mask", ["dense", "varlen"])
def test_as_many_labels_and_positions_as_tokens_are_needed(key: str, mask: Any):
    pack = {"tokens": [5, 6, 7], "labels": [6, 7, 8], "input_pos": [0, 1, 2], "seq_lens": [3], key: [1, 2]}
    with pytest.raises(DataError, match="3 tokens, .* there has to be one of each for every token"):
        padded_collate_packed([pack], mask)


@pytest.mark.parametrize("held", [[1.0, 2.0, 3.0], [[1, 2, 3]], 5])
def test_what_is_no_row_of_integers_is_refused(held: Any):
    pack = {"tokens": held, "labels": [6, 7, 8], "input_pos": [0, 1, 2], "seq_lens": [3]}
    with pytest.raises(DataError, match="The tokens of a pack are integers in one axis; these are "):
        padded_collate_packed([pack])


def test_weights_of_packs_are_stacked():
    pack = {"tokens": [5, 6], "labels": [6, -100], "input_pos": [0, 1], "seq_lens": [2]}
    weighted: dict[str, Any] = {**pack, "loss_weights": torch.tensor([0.5, 0.0])}
    batch: Any = padded_collate_packed([weighted, pack])
    assert batch["loss_weights"].tolist() == [[0.5, 0], [1, 0]]
    assert "loss_weights" not in padded_collate_packed([pack])
