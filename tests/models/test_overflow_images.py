"""Rows with images that are too long: an image is there as a whole, with its tokens, or not at all."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from torchpipe.data import Message, mask_messages, padded_collate_tiled_images_and_mask
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.overflow import Fitted, OverflowPolicy
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.errors import DataError, MediaError
from torchpipe.models.llama3_2_vision import Llama3VisionTransform
from torchpipe.models.llama4 import Llama4Transform

IMAGE = 128_256
START, END = 200_080, 200_081


def image(height: int = 20, width: int = 20) -> dict[str, Any]:
    shades = torch.arange(height * width * 3, dtype=torch.int64).reshape(height, width, 3) % 251
    return {"type": "image", "content": Image.fromarray(shades.to(torch.uint8).numpy())}


def chat() -> list[Message]:
    text = {"type": "text", "content": "What is this?"}
    messages = [
        Message("user", [image(20, 20), text]),
        Message("assistant", "A pattern."),
        Message("user", [text, image(30, 90), image(90, 30)]),
        Message("assistant", "Stripes."),
    ]
    mask_messages(messages, "train_on_assistant")
    return messages


def fitted(transform: Any, **policy: Any) -> Fitted:
    return SFTTransform(model_transform=transform, overflow=OverflowPolicy(**policy)).fitted({"messages": chat()})


@pytest.fixture(scope="module")
def llama4_file(oracle_file: Callable[..., Path]) -> str:
    return str(oracle_file("llama_models", "llama4", "tokenizer.model"))


@lru_cache(maxsize=2)  # its tokenizer takes half a second to load
def llama3(path: Path, **options: Any) -> Llama3VisionTransform:
    return Llama3VisionTransform(str(path), tile_size=28, patch_size=14, **options)


@lru_cache(maxsize=2)  # its tokenizer takes half a second to load
def llama4(path: str, **options: Any) -> Llama4Transform:
    return Llama4Transform(path, tile_size=28, patch_size=14, **options)


def check_whole(sample: dict[str, Any], transform: Llama3VisionTransform) -> None:
    """The sample has as many images as places for them, and the mask that its tokens ask for."""
    num_images = sample["tokens"].count(IMAGE)
    kept = sample["encoder_input"]
    assert [len(kept[key]) for key in ("images", "aspect_ratio")] == [num_images] * 2
    again = transform.xattn_mask({"tokens": sample["tokens"], "encoder_input": kept}, False)["encoder_mask"]
    assert len(sample["encoder_mask"]) == num_images
    assert all(torch.equal(mask, other) for mask, other in zip(sample["encoder_mask"], again, strict=True))


@pytest.mark.parametrize("side", ["right", "left"])
def test_images_go_with_their_tokens_wherever_the_cut_falls(llama3_tokenizer_file: Path, side: Any) -> None:
    transform = llama3(llama3_tokenizer_file, max_seq_len=8, media_overflow="drop")
    num_tokens = fitted(transform, max_seq_len=10_000).num_tokens
    for limit in range(8, num_tokens):
        for sample in fitted(transform, max_seq_len=limit, overflow="truncate", truncation_type=side).samples:
            check_whole(sample, transform)
            assert sample.get("num_images_dropped", 0) == 3 - len(sample["encoder_input"]["images"])


def test_an_image_of_many_tokens_is_never_cut_in_two(llama4_file: str) -> None:
    transform = llama4(llama4_file, media_overflow="drop")
    whole = fitted(transform, max_seq_len=10_000).samples[0]["tokens"]
    inside = {place for place in range(1, len(whole)) if whole[:place].count(START) > whole[:place].count(END)}
    assert len(inside) > 10
    for limit in range(whole.index(END) + 20, len(whole)):
        (sample,) = fitted(transform, max_seq_len=limit, overflow="truncate").samples
        assert len(sample["tokens"]) == max(place for place in range(limit + 1) if place not in inside)
        assert sample["tokens"] == whole[: len(sample["tokens"])]
        assert len(sample["encoder_input"]["vision"]["images"]) == sample["tokens"].count(END)


def test_losing_an_image_is_an_error_unless_the_transform_drops_them(llama4_file: str) -> None:
    transform = llama4(llama4_file)
    num_tokens = fitted(transform, max_seq_len=10_000).num_tokens
    (sample,) = fitted(transform, max_seq_len=num_tokens - 2, overflow="truncate").samples
    assert len(sample["encoder_input"]["vision"]["images"]) == 3
    with pytest.raises(
        MediaError, match=r"Of the row's 3 images, 1 does not fit into max_seq_len=40\. Raise it, set med"
    ):
        fitted(transform, max_seq_len=40, overflow="truncate")


def test_turns_leave_with_their_images_and_these_are_counted(llama3_tokenizer_file: Path) -> None:
    transform = llama3(llama3_tokenizer_file)
    num_tokens = fitted(transform, max_seq_len=10_000).num_tokens
    (sample,) = fitted(transform, max_seq_len=num_tokens - 1, overflow="truncate", truncation_type="turns").samples
    check_whole(sample, transform)
    assert (len(sample["encoder_input"]["images"]), sample["num_images_dropped"]) == (2, 1)
    counts = SampleCounts()
    counts.add(sample)
    assert counts.dropped_images == 1


def test_split_gives_each_image_to_one_sample(llama4_file: str) -> None:
    transform = llama4(llama4_file)
    (whole,) = fitted(transform, max_seq_len=10_000).samples
    pieces = fitted(transform, max_seq_len=30, overflow="split").samples
    assert [token for piece in pieces for token in piece["tokens"]] == whole["tokens"]
    images = [image for piece in pieces for image in piece["encoder_input"]["vision"]["images"]]
    expected = whole["encoder_input"]["vision"]["images"]
    assert all(torch.equal(one, other) for one, other in zip(images, expected, strict=True))
    assert all(
        piece["tokens"].count(END) == piece["tokens"].count(START) == len(piece["encoder_input"]["vision"]["images"])
        for piece in pieces
    )
    with pytest.raises(MediaError, match="An image of the row has more tokens than max_seq_len=6 holds"):
        fitted(transform, max_seq_len=6, overflow="split")


def test_samples_that_were_cut_make_a_batch(llama3_tokenizer_file: Path) -> None:
    transform = llama3(llama3_tokenizer_file, media_overflow="drop")
    samples = [fitted(transform, max_seq_len=limit, overflow="truncate").samples[0] for limit in (25, 30, 1000)]
    batch = padded_collate_tiled_images_and_mask(samples, pad_direction="right", padding_idx=0)
    assert batch["tokens"].shape[0] == 3


def test_a_transform_that_does_not_tell_where_its_images_stand_cannot_be_cut(llama3_tokenizer_file: Path) -> None:
    inner = llama3(llama3_tokenizer_file)

    def untold(sample: Any) -> Any:
        return inner(sample)

    with pytest.raises(DataError, match="holds images, and function doesn't tell where their tokens stand"):
        fitted(untold, max_seq_len=30, overflow="truncate")
