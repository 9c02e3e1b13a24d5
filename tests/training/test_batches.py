"""Order, batches and collaters: what a step holds follows from its number."""

from typing import Any, NamedTuple

import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.packing import PackedMask
from torchpipe.models.tiny import tiny_llama3
from torchpipe.training import collater, epoch_order, num_trained, step_batches, to_device


def steps_of(num_rows: int, **options: Any) -> list[list[Any]]:
    rows: Any = list(range(num_rows))
    defaults: dict[str, Any] = {"start_step": 0, "num_workers": 0, "collate_fn": list}
    return list(step_batches(rows, rows, **{**defaults, **options}))  # pyright: ignore[reportArgumentType]


@given(st.integers(0, 30), st.integers(1, 5), st.integers(1, 4))
def test_every_row_is_read_once_in_order(num_rows: int, batch_size: int, accumulation: int) -> None:
    steps = steps_of(num_rows, batch_size=batch_size, gradient_accumulation_steps=accumulation)
    assert [row for step in steps for batch in step for row in batch] == list(range(num_rows))
    assert all(len(step) == accumulation for step in steps[:-1])
    assert all(len(batch) == batch_size for step in steps[:-1] for batch in step)


def test_starting_at_a_step_gives_the_same_batches_as_never_stopping() -> None:
    whole = steps_of(23, batch_size=2, gradient_accumulation_steps=3)
    for start in range(len(whole) + 1):
        assert steps_of(23, batch_size=2, gradient_accumulation_steps=3, start_step=start) == whole[start:]


def test_workers_do_not_change_the_batches() -> None:
    options = {"batch_size": 2, "gradient_accumulation_steps": 2}
    assert steps_of(9, num_workers=2, **options) == steps_of(9, **options)


def test_reading_batches_leaves_the_random_stream_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    steps_of(5, batch_size=2, gradient_accumulation_steps=1)
    assert torch.equal(torch.rand(1), expected)


def test_an_epochs_order_is_a_permutation_of_its_own() -> None:
    orders = [epoch_order(100, seed=1, epoch=epoch, shuffle=True) for epoch in range(3)]
    assert all(sorted(order) == list(range(100)) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    assert epoch_order(100, seed=1, epoch=0, shuffle=True) == orders[0]
    assert epoch_order(100, seed=2, epoch=0, shuffle=True) != orders[0]


def test_an_order_does_not_change_between_versions() -> None:
    assert epoch_order(8, seed=0, epoch=0, shuffle=True) == [6, 2, 1, 5, 4, 0, 7, 3]


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
