import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import padded_collate_tiled_images_and_mask
from torchpipe.errors import ColumnError, ConfigError, DataError

CHANNELS, HEIGHT, WIDTH = 1, 2, 3


def sample(
    num_tokens: int, tiles: list[int], *, tokens_per_tile: int = 2, seed: int = 0, **more: Any
) -> dict[str, Any]:
    """A sample whose pictures and masks hold random values, so that a misplaced one shows."""
    generator = torch.Generator().manual_seed(seed)
    made: dict[str, Any] = {
        "tokens": list(range(1, num_tokens + 1)),
        "labels": list(range(101, num_tokens + 101)),
        "encoder_input": {
            "images": [torch.rand(count, CHANNELS, HEIGHT, WIDTH, generator=generator) + 1 for count in tiles],
            "aspect_ratio": [torch.tensor([1, count]) for count in tiles],
        },
        "encoder_mask": [torch.rand(num_tokens, count * tokens_per_tile, generator=generator) < 0.5 for count in tiles],
    }
    return made | more


def by_hand(
    batch: list[dict[str, Any]], num_tiles: int, num_images: int, width: int, tokens_per_tile: int, left: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images, ratios and mask, value by value."""
    images = torch.zeros(len(batch), num_images, num_tiles, CHANNELS, HEIGHT, WIDTH)
    ratios = torch.ones(len(batch), num_images, 2, dtype=torch.int64)
    mask = torch.zeros(len(batch), width, num_images * num_tiles * tokens_per_tile, dtype=torch.bool)
    for row, each in enumerate(batch):
        shift = width - len(each["tokens"]) if left else 0
        media = each.get("encoder_input") or {}
        media = media.get("vision", media)
        for number, tiles in enumerate(media.get("images") or []):
            for tile in range(len(tiles)):
                images[row, number, tile] = tiles[tile]
                for token in range(len(each["tokens"])):
                    for part in range(tokens_per_tile):
                        column = (number * num_tiles + tile) * tokens_per_tile + part
                        held = each["encoder_mask"][number][token, tile * tokens_per_tile + part]
                        mask[row, token + shift, column] = held
            ratios[row, number] = media["aspect_ratio"][number]
    return images, ratios, mask


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[dict[str, Any]], int]:
    tokens_per_tile = draw(st.integers(1, 3))
    batch = []
    for number in range(draw(st.integers(1, 4))):
        tiles = draw(st.lists(st.integers(1, 3), max_size=3))
        made = sample(draw(st.integers(1, 6)), tiles, tokens_per_tile=tokens_per_tile, seed=draw(st.integers(0, 99)))
        if not tiles and draw(st.booleans()):
            made = {key: made[key] for key in ("tokens", "labels")}
        batch.append(made | {"id": number})
    return batch, tokens_per_tile


@settings(deadline=None, max_examples=150)
@given(batches(), st.booleans(), st.booleans(), st.integers(1, 5), st.integers(0, 2), st.integers(0, 2))
def test_any_mix_of_samples_equals_the_batch_made_by_hand(
    made: tuple[list[dict[str, Any]], int], left: bool, nested: bool, multiple: int, more_tiles: int, more_images: int
):
    batch, tokens_per_tile = made
    if nested:
        for each in batch:
            if "encoder_input" in each:
                each["encoder_input"] = {"vision": each["encoder_input"]}
    before = copy.deepcopy(batch)
    every = [
        (each["encoder_input"]["vision"] if nested else each["encoder_input"])["images"]
        for each in batch
        if "encoder_input" in each
    ]
    num_images = max(map(len, every), default=0)
    num_tiles = max((len(tiles) for images in every for tiles in images), default=0)
    multiple = 1 if left else multiple
    out = padded_collate_tiled_images_and_mask(
        batch,
        padding_idx=7,
        ignore_idx=-9,
        pad_direction="left" if left else "right",
        pad_max_tiles=num_tiles + more_tiles if more_tiles else None,
        pad_max_images=num_images + more_images if more_images else None,
        pad_to_multiple_of=multiple,
    )
    longest = max(len(each["tokens"]) for each in batch)
    width = next(number for number in range(longest, longest + multiple) if number % multiple == 0)
    for row, each in enumerate(batch):
        fill = width - len(each["tokens"])
        expected = [7] * fill + each["tokens"] if left else each["tokens"] + [7] * fill
        assert out["tokens"][row].tolist() == expected
        if not left:
            assert out["labels"][row].tolist() == each["labels"] + [-9] * fill
    assert ("labels" in out) != left
    assert out["tokens"].dtype == torch.int64
    if num_images == 0:
        assert not {"encoder_input", "encoder_mask"} & set(out)
        return
    images, ratios, mask = by_hand(
        batch, num_tiles + more_tiles, num_images + more_images, width, tokens_per_tile, left
    )
    media = out["encoder_input"]["vision"] if nested else out["encoder_input"]
    assert set(media) == {"images", "aspect_ratio"}
    assert torch.equal(media["images"], images)
    assert torch.equal(media["aspect_ratio"], ratios)
    assert torch.equal(out["encoder_mask"], mask)
    assert (media["images"].dtype, media["aspect_ratio"].dtype, out["encoder_mask"].dtype) == (
        torch.float32,
        torch.int64,
        torch.bool,
    )
    for own, old in zip(batch, before, strict=True):
        assert own.keys() == old.keys()
        assert all(map(torch.equal, own.get("encoder_mask", []), old.get("encoder_mask", [])))


def test_two_pictures_of_one_text_stand_side_by_side_in_its_rows():
    batch = [
        {
            "tokens": [1, 2, 3],
            "labels": [2, 3, -100],
            "encoder_input": {"images": [torch.ones(1, 1, 1, 1)] * 2},
            "encoder_mask": [torch.tensor([[0, 1], [2, 3], [4, 5]]), torch.tensor([[10, 11], [12, 13], [14, 15]])],
        }
    ]
    mask = padded_collate_tiled_images_and_mask(batch)["encoder_mask"]
    assert mask.tolist() == [[[0, 1, 10, 11], [2, 3, 12, 13], [4, 5, 14, 15]]]


def test_pictures_without_ratios_and_in_another_type_are_kept_so():
    made = sample(2, [1, 2])
    made["encoder_input"] = {"images": [tiles.bfloat16() for tiles in made["encoder_input"]["images"]]}
    out = padded_collate_tiled_images_and_mask([made, sample(3, [])])
    assert list(out["encoder_input"]) == ["images"]
    assert out["encoder_input"]["images"].dtype == torch.bfloat16


def test_positions_are_added_for_context_parallelism():
    out = padded_collate_tiled_images_and_mask([sample(2, [1]), sample(3, [])], cp_degree=2)
    assert out["input_pos"].tolist() == [[0, 1, 2], [0, 1, 2]]


def changed(key: str, value: Any) -> dict[str, Any]:
    """A sample with two pictures, of one and of two tiles, and another value under a key of it or of its pictures."""
    made = sample(3, [1, 2])
    (made if key in made else made["encoder_input"])[key] = value
    return made


ONE = torch.ones(1, CHANNELS, HEIGHT, WIDTH)
TWO = torch.ones(2, CHANNELS, HEIGHT, WIDTH)


@pytest.mark.parametrize(
    ("held", "error", "sentence"),
    [
        (changed("encoder_mask", None), ColumnError, "Sample 1 of the batch has pictures and no 'encoder_mask'"),
        (
            changed("encoder_mask", [torch.ones(3, 2)]),
            DataError,
            "Sample 1 .* has 2 images, 1 in encoder_mask and 2",
        ),
        (changed("aspect_ratio", [torch.ones(2)]), DataError, "2 images, 2 in encoder_mask and 1 aspect ratios"),
        (changed("aspect_ratio", [torch.ones(3)] * 2), DataError, r"Picture 0 of sample 1 .* ratio of the shape \[3\]"),
        (changed("images", [ONE[0], TWO]), DataError, r"Picture 0 of sample 1 of the batch has the shape \[1, 2, 3\]"),
        (changed("images", [ONE[:0], TWO]), DataError, r"the shape \[0, 1, 2, 3\]; it must be \[tiles, c, h, w\]"),
        (changed("images", [ONE, TWO[..., :1]]), DataError, r"Picture 1 .* has tiles of \[1, 2, 1\], and the first"),
        (
            changed("images", [ONE, TWO.half()]),
            DataError,
            r"tiles of torch.float16, and the first .*float32",
        ),
        (changed("encoder_mask", [torch.ones(2, 2)] * 2), DataError, r"shape \[2, 2\] for 3 text tokens"),
        (changed("encoder_mask", [torch.ones(3, 2), torch.ones(3, 3)]), DataError, r"2 tiles, and a mask .*\[3, 3\]"),
        (
            changed("encoder_mask", [torch.ones(3, 2) > 0, torch.ones(3, 6) > 0]),
            DataError,
            "tokens a tile: 3, and",
        ),
        (changed("encoder_mask", [torch.ones(3, 2), torch.ones(3, 4)]), DataError, "a mask of torch.float32"),
        (changed("aspect_ratio", None), DataError, "aspect ratio: False, and the first picture True"),
        (changed("labels", [1]), DataError, "Sample 1 of the batch has 3 in 'tokens' and 1 in 'labels'"),
        (changed("sound", torch.ones(1)), DataError, "Sample 1 .* has 'sound' in 'encoder_input', which would be lost"),
        ({"tokens": [1]}, ColumnError, "Sample 1 of the batch has no 'labels'"),
        (changed("images", ["a.png", TWO]), DataError, "The image of sample 1 of the batch can't become a tensor"),
        (changed("images", []), DataError, "Sample 1 of the batch has no images and 2 in encoder_mask"),
        (
            sample(3, [1], encoder_input={"vision": sample(3, [1])["encoder_input"]}),
            DataError,
            "Sample 1 of the batch has its pictures under 'vision'.* sample 0 has not",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(held: dict[str, Any], error: type[Exception], sentence: str):
    with pytest.raises(error, match=sentence):
        padded_collate_tiled_images_and_mask([sample(2, [1]), held])


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"pad_direction": "up"}, ConfigError, "Unknown pad_direction 'up'. It is one of 'right', 'left'"),
        ({"pad_direction": "left", "pad_to_multiple_of": 2}, ConfigError, "does not go with pad_direction='left'"),
        ({"pad_direction": "left", "cp_degree": 2}, ConfigError, "cp_degree=2 is for training"),
        ({"pad_max_tiles": "3"}, ConfigError, "pad_max_tiles='3' must be a whole number, or None"),
        ({"pad_max_images": 2.5}, ConfigError, "pad_max_images=2.5 must be a whole number, or None"),
        ({"pad_max_tiles": 2}, DataError, "Picture 1 of sample 0 .* room for 3 tiles, more than pad_max_tiles=2"),
        ({"pad_max_images": 1}, DataError, "Picture 1 of sample 0 .* room for 2 images, more than pad_max_images=1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(arguments: dict[str, Any], error: type[Exception], sentence: str):
    with pytest.raises(error, match=sentence):
        padded_collate_tiled_images_and_mask([sample(2, [1, 3])], **arguments)


def test_an_empty_batch_is_refused():
    with pytest.raises(DataError, match="The batch is empty"):
        padded_collate_tiled_images_and_mask([])
