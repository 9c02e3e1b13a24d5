"""Rows of text and pictures: samples, batches, and what is refused."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from torchpipe.errors import ConfigError, DataError, MediaError
from torchpipe.pipeline import DatasetBuildContext, MultiModalCollator, MultiModalProcessor, TextSequence
from torchpipe.vision import Patches

RNG = np.random.default_rng(0)
IMAGE, VIDEO, START, END = 300, 301, 302, 303


class Tokenizer:
    """Bytes, and Qwen's tokens around pictures."""

    special_tokens = {"<|image_pad|>": IMAGE, "<|video_pad|>": VIDEO, "<|vision_start|>": START, "<|vision_end|>": END}  # noqa: RUF012
    bos_id, eos_id, pad_id = None, 304, 305

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True) -> list[int]:
        return [*text.encode(), *[self.eos_id] * add_eos]

    def decode(self, ids: list[int]) -> str:
        return "<end>" if ids == [self.eos_id] else bytes(ids).decode()


def context(**numbers: Any) -> DatasetBuildContext:
    numbers = {"max_context_length": 16, "num_tokens_per_batch": 20, **numbers}
    return DatasetBuildContext(tokenizer=Tokenizer(), **numbers)


def picture(value: float = 1.0, grid: tuple[int, int, int] = (1, 2, 4)) -> Patches:
    return Patches(values=torch.full((int(np.prod(grid)), 6), value), grid_thw=grid)


def row(text: str = "ab", *, pictures: int = 1) -> dict[str, Any]:
    """A row with pictures of two tokens each, then a text."""
    tokens = [token for _ in range(pictures) for token in (START, IMAGE, IMAGE, END)] + [
        *text.encode(),
        Tokenizer.eos_id,
    ]
    return {
        "input_ids": np.array(tokens[:-1]),
        "labels": np.array(tokens[1:]),
        "pixel_values": [picture(index) for index in range(pictures)],
    }


def processor(**settings: Any) -> MultiModalProcessor:
    return MultiModalProcessor.Config(**settings).build(context=context())


def collate(
    *rows: Any, numbers: Mapping[str, Any] | None = None, **settings: Any
) -> tuple[dict[str, Any], torch.Tensor]:
    return MultiModalCollator.Config(**settings).build(context=context(**(numbers or {})))(rows)


def test_a_row_of_ready_patches_is_a_sample_whose_vision_tokens_are_not_trained() -> None:
    made = processor()(row(), RNG)
    assert made is not None
    assert made["input_ids"].tolist() == [START, IMAGE, IMAGE, END, 97, 98]
    assert made["labels"].tolist() == [-100, -100, -100, 97, 98, Tokenizer.eos_id]
    assert made["positions"].tolist() == list(range(6))
    assert len(made["pixel_values"]) == 1


def test_a_row_of_text_is_a_sample_without_pictures() -> None:
    made = processor()({"text": "ab"}, RNG)
    assert made is not None
    assert (made["input_ids"].tolist(), made["labels"].tolist()) == ([97, 98], [98, Tokenizer.eos_id])
    assert "pixel_values" not in made
    assert processor().outcome({"text": ""}, RNG) == (None, "empty")


def test_a_function_of_the_user_is_given_the_settings_that_it_names() -> None:
    seen: dict[str, Any] = {}

    def of_caption(sample: dict[str, Any], tokenizer: Any, patch_size: int) -> dict[str, Any] | None:
        seen.update(tokenizer=type(tokenizer), patch_size=patch_size)
        return row(sample["caption"]) if sample["caption"] else None

    def with_all(sample: dict[str, Any], **settings: Any) -> dict[str, Any]:
        seen.update(settings)
        return row()

    made = processor(sample_processor=of_caption, patch_size=14)
    sample: Any = made({"caption": "xyz"}, RNG)
    assert sample["input_ids"].tolist()[-3:] == [120, 121, 122]
    assert made.outcome({"caption": ""}, RNG) == (None, "dropped")
    assert seen == {"tokenizer": Tokenizer, "patch_size": 14}
    processor(sample_processor=with_all)({}, RNG)
    assert seen["max_patches"] == 4096
    assert seen["image_mean"] == (0.5, 0.5, 0.5)


def test_a_sample_that_is_too_long_is_left_out_and_counted() -> None:
    assert processor().outcome(row("x" * 12), RNG).value is not None
    assert processor().outcome(row("x" * 13), RNG) == (None, "too_long")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"jpg": b"", "txt": "a"}, "The row has 'jpg', 'txt'.* decoding pictures comes with the multimodal data"),
        ({"text": "a", "image": b""}, "decoding pictures comes with the multimodal data sets. Give a sample_processor"),
        ({**row(), "pixel_values": [b"png"]}, "Entry 0 of pixel_values is a bytes; decoding pictures comes with"),
        ({**row(), "pixel_values": [np.zeros((4, 4, 3))]}, r"is a ndarray of shape \[4, 4, 3\]; decoding pictures"),
        ({**row(), "pixel_values": picture()}, "pixel_values is a Patches. Give a list with an entry for each picture"),
        ({"input_ids": [1]}, "A sample has input_ids and labels; this one lacks 'labels'"),
        ({"input_ids": [0.5], "labels": [1]}, r"input_ids are float64 \[1\]. Give integers"),
        ({**row(pictures=2), "pixel_values": [picture()]}, "has 4 tokens .* pixel_values, which have 8 patches, 4 to"),
        ({**row(), "pixel_values": None}, "has 2 tokens for parts of its pixel_values, which have 0 patches"),
    ],
)  # fmt: skip
def test_what_is_no_sample_is_refused(given: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        processor()(given, RNG)


def test_pixels_are_counted_and_cut_by_the_collator() -> None:
    sizes: dict[str, Any] = {"patch_size": 2, "temporal_patch_size": 2, "spatial_merge_size": 2}
    pixels = torch.arange(96.0).reshape(1, 4, 8, 3)
    made = processor(**sizes)({**row(), "pixel_values": [pixels]}, RNG)
    batch, _ = collate(made, **sizes)
    assert batch["pixel_values"].shape == (8, 24)
    assert batch["grid_thw"].tolist() == [[1, 2, 4]]


def test_a_batch_is_the_tokens_of_all_rows_and_the_patches_of_all_pictures() -> None:
    batch, labels = collate(processor()(row(pictures=2), RNG), processor()({"text": "abc"}, RNG))
    assert batch["input"].tolist() == [*[START, IMAGE, IMAGE, END] * 2, 97, 98, 97, 98, 99, *[Tokenizer.pad_id] * 7]
    assert labels.tolist()[-9:] == [99, Tokenizer.eos_id, *[-100] * 7]
    assert batch["positions"].tolist() == [*range(10), *range(3), *range(7)]
    assert batch["padding_mask"].sum() == 7
    assert batch["num_valid_tokens"] == int((labels != -100).sum()) == 6
    assert batch["pixel_values"][:, 0].tolist() == [0.0] * 8 + [1.0] * 8
    assert batch["grid_thw"].tolist() == [[1, 2, 4], [1, 2, 4]]
    assert batch["pixel_values_videos"] is batch["grid_thw_videos"] is None
    assert batch["special_tokens"] == {
        "image_id": IMAGE, "video_id": VIDEO, "vision_start_id": START, "vision_end_id": END,
    }  # fmt: skip
    assert "mrope_positions" not in batch


def test_a_packed_row_and_a_text_sequence_are_rows() -> None:
    packed = {
        "input_ids": np.array([97, 98, 99]),
        "labels": np.array([98, -100, -100]),
        "positions": np.array([0, 1, 0]),
        "padding_mask": np.array([False, False, True]),
        "pixel_values": [],
    }
    batch, _ = collate(
        packed, TextSequence(input_ids=np.array([7]), labels=np.array([8])), numbers={"num_tokens_per_batch": 4}
    )
    assert batch["positions"].tolist() == [0, 1, 0, 0]
    assert batch["padding_mask"].tolist() == [False, False, True, False]


def test_no_rows_are_a_batch_of_padding() -> None:
    batch, labels = collate(build_mrope_positions=True)
    assert batch["num_valid_tokens"] == 0
    assert (labels == -100).all()
    assert batch["pixel_values"] is None
    assert batch["mrope_positions"].tolist() == [[place] * 3 for place in [*range(16), *range(4)]]


def test_positions_of_three_counters_follow_the_merged_grids() -> None:
    batch, _ = collate(processor()(row(), RNG), build_mrope_positions=True)
    assert batch["mrope_positions"][:6].tolist() == [[0, 0, 0], [1, 1, 1], [1, 1, 2], [3, 3, 3], [4, 4, 4], [5, 5, 5]]


def test_more_tokens_than_a_batch_has_are_refused() -> None:
    with pytest.raises(ValueError, match="^multimodal rows exceed the configured token batch"):
        collate({"input_ids": np.zeros(21, int), "labels": np.zeros(21, int)})


def test_more_vision_entries_than_the_config_allows_are_refused() -> None:
    with pytest.raises(ValueError, match="^multimodal batch has 2 vision entries, exceeding max_images_per_batch=1"):
        collate(row(pictures=2), max_images_per_batch=1)
    video = {"input_ids": np.zeros(1, int), "labels": np.zeros(1, int), "pixel_values_videos": [np.zeros((8, 4, 4, 3))]}
    with pytest.raises(MediaError, match="has 4 vision entries"):
        collate(video, max_images_per_batch=3, patch_size=2)
    batch, _ = collate(video, max_images_per_batch=4, patch_size=2)
    assert batch["grid_thw_videos"].tolist() == [[4, 2, 2]]


def test_settings_that_can_not_be_are_refused() -> None:
    with pytest.raises(ValueError, match="^MRoPE requires patch_order='block', got 'raster'"):
        MultiModalCollator.Config(build_mrope_positions=True, patch_order="raster")
    with pytest.raises(ConfigError, match="patch_order is 'line'"):
        MultiModalCollator.Config(patch_order="line")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="max_images_per_batch is 0. Give a whole number"):
        MultiModalCollator.Config(max_images_per_batch=0)
    with pytest.raises(ConfigError, match="sample_processor is 3, which can't be called"):
        MultiModalProcessor.Config(sample_processor=3)  # pyright: ignore[reportArgumentType]
