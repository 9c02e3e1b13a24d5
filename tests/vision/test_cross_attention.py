"""Which tokens attend to which image."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import ColumnError, ConfigError, DataError, MediaError
from torchpipe.vision import VisionCrossAttentionMask, patches_per_tile

IMAGE = 1


def sample(tokens: list[int], tiles: list[int]) -> dict[str, object]:
    return {"tokens": tokens, "encoder_input": {"images": [torch.zeros(n, 3, 4, 4) for n in tiles]}}


def test_images_are_seen_until_the_next_and_neighbours_to_the_same_end() -> None:
    out = VisionCrossAttentionMask(400, 40, IMAGE)(sample([IMAGE, IMAGE, 5, 5, 5, 5, 5, IMAGE, 5, 5], [1, 4, 2]))
    first, second, third = out["encoder_mask"]
    assert [mask.shape for mask in out["encoder_mask"]] == [(10, 101), (10, 404), (10, 202)]
    assert first.dtype == torch.bool
    assert first.all(1).tolist() == [True] * 7 + [False] * 3
    assert second.all(1).tolist() == [False] + [True] * 6 + [False] * 3
    assert third.all(1).tolist() == [False] * 7 + [True] * 3
    assert all(torch.equal(mask.all(1), mask.any(1)) for mask in out["encoder_mask"])


@given(st.lists(st.sampled_from([IMAGE, 5, 6]), max_size=12))
def test_every_token_from_the_first_image_on_sees_the_run_of_images_before_it(tokens: list[int]) -> None:
    num_images = tokens.count(IMAGE)
    masks = VisionCrossAttentionMask(4, 4, IMAGE)(sample(tokens, [1] * num_images))["encoder_mask"]
    for position in range(len(tokens)):
        # Go back over text, then over the images right before it.
        at = position
        while at >= 0 and tokens[at] != IMAGE:
            at -= 1
        expected = set()
        while at >= 0 and tokens[at] == IMAGE:
            expected.add(tokens[:at].count(IMAGE))
            at -= 1
        assert {image for image, mask in enumerate(masks) if mask[position].any()} == expected


def test_a_sample_without_images_has_no_masks_and_keeps_its_keys() -> None:
    given_sample = {**sample([5, 5], []), "mask": [True, False]}
    out = VisionCrossAttentionMask(4, 2, IMAGE)(given_sample, inference=True)
    assert out["encoder_mask"] == []
    assert out["mask"] == [True, False]
    assert "encoder_mask" not in given_sample


@pytest.mark.parametrize(
    ("tokens", "tiles", "cause"),
    [
        ([5, 5], [1], "1 images and 0 image tokens: was it cut to max_seq_len before an image"),
        ([IMAGE, IMAGE], [1], "1 images and 2 image tokens: was an image left out"),
    ],
)
def test_unequal_images_and_tokens_are_refused_with_both_counts(
    tokens: list[int], tiles: list[int], cause: str
) -> None:
    for kind in (MediaError, DataError, RuntimeError, ValueError):
        with pytest.raises(kind, match=cause):
            VisionCrossAttentionMask(4, 2, IMAGE)(sample(tokens, tiles))


def test_missing_columns_are_named() -> None:
    with pytest.raises(ColumnError, match=r"needs `tokens` and `encoder_input` with `images`; the sample has \['mask'"):
        VisionCrossAttentionMask(4, 2, IMAGE)({"mask": [], "tokens": []})


def test_patches_of_a_tile() -> None:
    assert patches_per_tile(336, 14) == 576
    assert VisionCrossAttentionMask(560, 14, IMAGE).patches_per_tile == 1600
    with pytest.raises(ConfigError, match="patch_size is 8 and tile_size 4. A patch must fit into a tile"):
        patches_per_tile(4, 8)


@pytest.mark.parametrize("image", ["a.png", torch.zeros(3, 4, 4), None])
def test_an_image_without_tiles_is_refused(image: object) -> None:
    given = {"tokens": [IMAGE], "encoder_input": {"images": [image]}}
    with pytest.raises(DataError, match=r"Image 0 of a sample is .*; it must be a tensor \[tiles, C, H, W\]"):
        VisionCrossAttentionMask(4, 2, IMAGE)(given)
    with pytest.raises(ColumnError, match="needs `tokens` and `encoder_input` with `images`"):
        VisionCrossAttentionMask(4, 2, IMAGE)({"tokens": [1], "encoder_input": None})
