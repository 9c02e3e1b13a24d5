"""CLIPImageTransform: tiles, arrangement, dtype, and sentences for what can't be used."""

import pickle
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from torchpipe.errors import ColumnError, ConfigError, DataError
from torchpipe.models.clip import CLIP_IMAGE_MEAN, CLIP_IMAGE_STD, clip_vit_224_transform
from torchpipe.vision import CLIPImageTransform


def picture(height: int, width: int) -> Image.Image:
    return Image.fromarray((np.arange(height * width * 3).reshape(height, width, 3) % 251).astype(np.uint8))


@pytest.mark.parametrize(
    ("size", "to_max", "aspect_ratio"),
    [
        ((100, 400), False, [1, 2]),
        ((1000, 300), False, [4, 1]),
        ((200, 300), True, [2, 2]),
        ((100, 200), True, [1, 2]),
        ((60, 60), False, [1, 1]),
    ],
)
def test_a_picture_becomes_tiles_and_their_arrangement(
    size: tuple[int, int], to_max: bool, aspect_ratio: list[int]
) -> None:
    out = CLIPImageTransform(tile_size=224, max_num_tiles=4, resize_to_max_canvas=to_max)({"image": picture(*size)})
    assert out["aspect_ratio"].tolist() == aspect_ratio
    assert out["aspect_ratio"].dtype == torch.int64
    assert out["image"].shape == (aspect_ratio[0] * aspect_ratio[1], 3, 224, 224)
    assert out["image"].dtype == torch.bfloat16


def test_other_keys_stay_and_the_sample_is_not_changed() -> None:
    sample = {"image": picture(10, 10), "id": 3}
    out = CLIPImageTransform()(sample, inference=True)
    assert out["id"] == 3
    assert isinstance(sample["image"], Image.Image)
    assert "aspect_ratio" not in sample


def test_a_gray_tensor_becomes_three_channels() -> None:
    out = CLIPImageTransform(tile_size=32)({"image": torch.full((1, 40, 40), 128, dtype=torch.uint8)})
    assert out["image"].shape[1] == 3


def test_casting_comes_last() -> None:
    options: dict[str, Any] = {"tile_size": 64, "image_mean": CLIP_IMAGE_MEAN, "image_std": CLIP_IMAGE_STD}
    image = {"image": picture(150, 90)}
    exact = CLIPImageTransform(dtype=torch.float32, **options)(image)["image"]
    assert torch.equal(CLIPImageTransform(**options)(image)["image"], exact.to(torch.bfloat16))


def test_normalizing_covers_the_padding_too() -> None:
    white = torch.full((3, 32, 16), 255, dtype=torch.uint8)
    transform = CLIPImageTransform(
        tile_size=32, image_mean=(0.5, 0.4, 0.3), image_std=(0.5, 0.2, 0.1), dtype=torch.float32
    )
    tile = transform({"image": white})["image"][0]
    assert torch.allclose(tile[:, 0, 0], torch.tensor([1.0, 3.0, 7.0]))
    assert torch.allclose(tile[:, 0, -1], torch.tensor([-1.0, -2.0, -3.0]))


def test_the_clip_transform_gives_one_tile() -> None:
    transform = clip_vit_224_transform()
    for size in ((50, 500), (224, 224), (900, 640)):
        out = transform({"image": picture(*size)})
        assert out["image"].shape == (1, 3, 224, 224)
        assert out["aspect_ratio"].tolist() == [1, 1]
    assert transform.mean == list(CLIP_IMAGE_MEAN)


def test_canvases_can_be_given_and_resampling_be_an_enum() -> None:
    class Mode(Enum):
        BICUBIC = "bicubic"

    transform = CLIPImageTransform(tile_size=32, possible_resolutions=[(32, 96)], resample=Mode.BICUBIC)
    assert transform({"image": picture(20, 20)})["aspect_ratio"].tolist() == [1, 3]
    assert transform.resample == "bicubic"


def test_it_can_be_sent_to_a_worker() -> None:
    transform = pickle.loads(pickle.dumps(clip_vit_224_transform()))
    assert transform({"image": picture(9, 9)})["image"].shape == (1, 3, 224, 224)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_num_tiles": None}, "Neither possible_resolutions nor max_num_tiles is given"),
        ({"max_num_tiles": 0}, "max_num_tiles is 0"),
        ({"image_mean": (0.5, 0.5, 0.5)}, "Give three numbers for both"),
        ({"image_std": (0.5, 0.5, 0.5)}, "Give three numbers for both"),
        ({"image_mean": (0, 0, 0), "image_std": (1, 1, 0)}, "those of image_std above 0"),
        ({"image_mean": (0,), "image_std": (1,)}, "Give three numbers"),
        ({"possible_resolutions": [(224, 300)]}, r"possible_resolutions holds \(224, 300\).*multiples of tile_size"),
        ({"possible_resolutions": [("a", "b")]}, r"possible_resolutions holds \('a', 'b'\)"),
        ({"possible_resolutions": [224]}, "possible_resolutions holds 224"),
        ({"image_mean": 0.5, "image_std": 0.5}, "Give three numbers for both"),
        ({"image_mean": (0, 0, 0), "image_std": ("1", "1", "1")}, "Give three numbers for both"),
        ({"dtype": "bfloat16"}, "dtype is 'bfloat16'. It must be a torch.dtype of floats"),
        ({"dtype": torch.uint8}, "dtype is torch.uint8. It must be a torch.dtype of floats"),
        ({"resample": "cubic"}, "resample is 'cubic'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CLIPImageTransform(**options)


def test_what_is_no_picture_is_refused() -> None:
    with pytest.raises(ColumnError, match=r"needs `image`, and the sample has \['img'\]"):
        CLIPImageTransform()({"img": picture(4, 4)})
    with pytest.raises(DataError, match="An image is a str"):
        CLIPImageTransform()({"image": "text"})


def test_a_canvas_is_known_from_a_pictures_size() -> None:
    for to_max in (False, True):
        transform = CLIPImageTransform(tile_size=32, max_num_tiles=6, resize_to_max_canvas=to_max)
        for size in ((10, 10), (300, 20), (70, 100), (1, 500)):
            canvas = [side // 32 for side in transform.canvas(picture(*size))]
            assert canvas == transform({"image": picture(*size)})["aspect_ratio"].tolist()
