"""Collaters, and what is done to a batch."""

from typing import Any, NamedTuple

import pytest
import torch

from torchpipe.data import padded_collate_sft
from torchpipe.data.packing import PackedMask
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.training import collater, num_trained, to_device


def test_packed_samples_get_the_mask_that_the_model_names() -> None:
    sample = {
        "tokens": torch.tensor([1, 2]),
        "labels": torch.tensor([2, -100]),
        "input_pos": torch.tensor([0, 1]),
        "seq_lens": torch.tensor([2]),
    }
    model = tiny_llama3(10, num_layers=1, embed_dim=16, intermediate_dim=16, max_seq_len=8)
    batch = collater(sample, model, list, padding_idx=0)([sample])
    assert isinstance(batch["mask"], PackedMask)
    assert collater(sample, object(), list, padding_idx=0)([sample])["mask"].dtype == torch.bool


def test_a_collater_is_given_the_padding_that_it_takes() -> None:
    def mine(batch: list[Any], padding_idx: int = 0) -> tuple[int, int]:
        return len(batch), padding_idx

    assert collater({"tokens": [1]}, None, mine, padding_idx=7)([1, 2]) == (2, 7)
    assert collater({"tokens": [1]}, None, len, padding_idx=7)([1, 2]) == 2


def test_moving_and_counting_a_batch() -> None:
    batch = {"labels": torch.tensor([[1, -100], [2, 3]]), "name": "x"}
    assert num_trained(batch) == 3
    moved = to_device(batch, torch.device("cpu"))
    assert moved["name"] == "x"
    assert torch.equal(moved["labels"], batch["labels"])


class Sizes(NamedTuple):
    rows: torch.Tensor
    columns: int


def test_what_a_batch_holds_inside_is_moved_too() -> None:
    here, there = torch.ones(2), torch.device("meta")
    images = [[here], [here, here]]
    encoder_input = {"vision": {"images": images, "sizes": Sizes(here, 3)}, "pair": (here, "x"), "none": None}
    batch = {"tokens": here, "encoder_input": encoder_input}
    moved = to_device(batch, there)
    vision = moved["encoder_input"]["vision"]
    assert [[tensor.device for tensor in row] for row in vision["images"]] == [[there], [there, there]]
    assert isinstance(vision["sizes"], Sizes)
    assert (vision["sizes"].rows.device, vision["sizes"].columns) == (there, 3)
    assert (moved["encoder_input"]["pair"][0].device, moved["encoder_input"]["pair"][1]) == (there, "x")
    assert moved["encoder_input"]["none"] is None
    assert batch == {"tokens": here, "encoder_input": encoder_input}, "the batch is not changed"
    assert images[0][0] is here


def test_a_packed_mask_is_moved_as_one_thing() -> None:
    mask = PackedMask(torch.tensor([0, 2, 4], dtype=torch.int32), 2, (2, 2))
    moved = to_device({"mask": mask}, torch.device("meta"))["mask"]
    assert isinstance(moved, PackedMask)
    assert (moved.cu_seqlens.device, moved.lens) == (torch.device("meta"), (2, 2))


def test_batches_of_few_widths_are_wide_enough_for_the_widest_sample() -> None:
    samples = [{"tokens": [1] * length, "labels": [1] * length} for length in (3, 17, 40)]
    collate = collater(samples[0], None, padded_collate_sft, padding_idx=9, widest=40)
    batches = [collate([sample]) for sample in samples]
    assert [batch["tokens"].shape[1] for batch in batches] == [8, 24, 40]
    assert batches[0]["tokens"][0, 3:].tolist() == [9] * 5
    assert batches[0]["labels"][0, 3:].tolist() == [-100] * 5


def test_batches_of_few_widths_need_a_collater_that_can_pad() -> None:
    with pytest.raises(ConfigError, match="static_shapes needs a collate_fn with an argument pad_to_multiple_of"):
        collater({"tokens": [1]}, None, len, padding_idx=0, widest=4)
