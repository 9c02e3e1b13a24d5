"""CLIP's exportable image transform: the same tiles as the other one, and one program for pictures of every size."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from torchpipe.errors import ConfigError, DataError
from torchpipe.models.clip import CLIP_IMAGE_MEAN, CLIP_IMAGE_STD
from torchpipe.models.clip.inference import CLIPImageTransform
from torchpipe.vision import CLIPImageTransform as EagerCLIPImageTransform

SIZES = ((300, 800), (31, 57), (401, 60), (64, 128), (1, 90), (200, 200))


def picture(height: int, width: int) -> Image.Image:
    return Image.fromarray((np.arange(height * width * 3).reshape(height, width, 3) % 251).astype(np.uint8))


@pytest.mark.parametrize("resample", ["nearest", "nearest_exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("to_max", [False, True])
def test_tiles_are_those_of_the_other_transform(resample: str, to_max: bool) -> None:
    options: dict[str, Any] = {"tile_size": 64, "resample": resample, "resize_to_max_canvas": to_max}
    options |= {"image_mean": CLIP_IMAGE_MEAN, "image_std": CLIP_IMAGE_STD}
    exportable, eager = CLIPImageTransform(**options), EagerCLIPImageTransform(dtype=torch.float32, **options)
    for size in SIZES:
        ours, expected = exportable(image=picture(*size)), eager({"image": picture(*size)})
        assert ours["aspect_ratio"].tolist() == expected["aspect_ratio"].tolist(), size
        assert ours["image"].shape == expected["image"].shape
        assert torch.allclose(ours["image"], expected["image"], atol=1e-5), size


def test_one_exported_program_serves_pictures_of_every_size() -> None:
    transform = CLIPImageTransform([0.5, 0.4, 0.3], [0.3, 0.2, 0.5], tile_size=32)
    sides = {1: torch.export.Dim("height", min=2, max=4096), 2: torch.export.Dim("width", min=2, max=4096)}
    program = torch.export.export(
        transform.core_transform, transform.core_inputs(picture(50, 70)), dynamic_shapes=(sides, None, None)
    ).module()
    for size in ((300, 800), (31, 57), (401, 60), (32, 64), (2, 90)):
        tiles, aspect_ratio = program(*transform.core_inputs(picture(*size)))
        expected = transform(image=picture(*size))
        assert torch.equal(tiles, expected["image"]), size
        assert aspect_ratio.tolist() == expected["aspect_ratio"].tolist()


def test_other_keywords_stay_in_the_result() -> None:
    out = CLIPImageTransform(tile_size=32)(image=picture(20, 20), id=7, image_name="x")
    assert sorted(out) == ["aspect_ratio", "id", "image", "image_name"]
    assert out["image"].dtype == torch.float32


def test_antialias_decides_whether_pixels_are_averaged() -> None:
    stripes = torch.zeros(3, 64, 64)
    stripes[:, :, ::4] = 1.0
    options: dict[str, Any] = {"tile_size": 16, "max_num_tiles": 1}
    averaged = CLIPImageTransform(**options)(image=stripes)["image"]
    sampled = CLIPImageTransform(antialias=False, **options)(image=stripes)["image"]
    assert averaged.max() < 0.5
    assert not torch.allclose(averaged, sampled)


def test_canvases_may_have_more_tiles_than_max_num_tiles_says() -> None:
    transform = CLIPImageTransform(possible_resolutions=[(32, 192)], tile_size=32, max_num_tiles=None)
    assert transform(image=picture(30, 300))["aspect_ratio"].tolist() == [1, 6]


def test_it_can_be_sent_to_a_worker() -> None:
    transform = CLIPImageTransform(tile_size=32)
    again = pickle.loads(pickle.dumps(transform))
    assert torch.equal(again(image=picture(40, 90))["image"], transform(image=picture(40, 90))["image"])


def test_what_cant_be_used_is_refused_in_sentences() -> None:
    with pytest.raises(ConfigError, match="Neither possible_resolutions nor max_num_tiles is given"):
        CLIPImageTransform(max_num_tiles=None)
    with pytest.raises(ConfigError, match="resample is 'bilinaer'"):
        CLIPImageTransform(resample="bilinaer")
    with pytest.raises(DataError, match="An image is a str"):
        CLIPImageTransform()(image="dog.png")
