"""Resizing keeps proportions, averages what a new pixel covers, and pads on the right and below."""

from enum import Enum
from fractions import Fraction
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import ConfigError, DataError
from torchpipe.vision import get_inscribed_size, resize_with_pad

SIDES = st.integers(1, 3000)


class InterpolationMode(Enum):
    """As torchvision has it."""

    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"


@pytest.mark.parametrize(
    ("image_size", "target_size", "max_size", "expected"),
    [
        ((300, 800), (448, 1344), None, (448, 1194)),
        ((300, 800), (448, 1344), 600, (300, 800)),
        ((500, 1000), (448, 488), 600, (244, 488)),
        ((200, 300), (450, 200), None, (133, 200)),
        ((800, 600), (450, 1300), None, (450, 337)),
        ((10, 20), (224, 448), 100, (50, 100)),
        ((55, 110), (224, 448), None, (224, 448)),
        ((1, 10_000), (224, 224), None, (1, 224)),
    ],
)
def test_a_picture_fits_in_its_proportions(
    image_size: tuple[int, int], target_size: tuple[int, int], max_size: int | None, expected: tuple[int, int]
) -> None:
    assert get_inscribed_size(image_size, target_size, max_size) == expected


@given(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES), st.none() | SIDES)
def test_the_size_is_the_exact_one_rounded_down(
    image_size: tuple[int, int], target_size: tuple[int, int], max_size: int | None
) -> None:
    limits = target_size
    if max_size is not None:
        limits = tuple(min(t, max(s, max_size)) for t, s in zip(target_size, image_size, strict=True))
    scale = min(Fraction(limit, side) for limit, side in zip(limits, image_size, strict=True))
    exact = tuple(max(1, int(side * scale)) for side in image_size)
    assert get_inscribed_size(image_size, target_size, max_size) == exact


@pytest.mark.parametrize("size", [(3,), (3, 4, 5), (0, 4), (3, 4.0)])
def test_sizes_that_are_no_pair_are_refused(size: Any) -> None:
    with pytest.raises(ConfigError, match="image_size is .* It must be a height and a width, whole numbers above 0"):
        get_inscribed_size(size, (4, 4), None)
    with pytest.raises(ConfigError, match="target_size is"):
        resize_with_pad(torch.zeros(3, 4, 4), size, "bilinear")


def triangle_average(line: torch.Tensor, new_length: int) -> torch.Tensor:
    """Antialiased bilinear along the last axis, written out: triangles as wide as two new pixels, of sum 1."""
    old_length = line.shape[-1]
    scale = old_length / new_length
    reach = max(scale, 1.0)
    centres = (torch.arange(new_length, dtype=torch.float64) + 0.5) * scale
    places = torch.arange(old_length, dtype=torch.float64) + 0.5
    weights = (1 - (places[None] - centres[:, None]).abs() / reach).clamp(min=0)
    weights /= weights.sum(1, keepdim=True)
    return line.double() @ weights.T


@pytest.mark.parametrize(("height", "width"), [(61, 97), (13, 20), (200, 64)])
def test_bilinear_is_the_antialiased_one(height: int, width: int) -> None:
    image = torch.rand(3, height, width, generator=torch.Generator().manual_seed(0))
    size = get_inscribed_size((height, width), (40, 50), None)
    expected = triangle_average(triangle_average(image, size[1]).mT, size[0]).mT
    resized = resize_with_pad(image, (40, 50), "bilinear")[:, : size[0], : size[1]]
    assert torch.allclose(resized.double(), expected, atol=1e-5)


def test_the_rest_of_the_canvas_is_zero_on_the_right_and_below() -> None:
    padded = resize_with_pad(torch.ones(3, 10, 10), (20, 30), "bilinear", max_size=10)
    assert padded.shape == (3, 20, 30)
    assert padded[:, :10, :10].eq(1).all()
    assert padded.sum() == 300


@pytest.mark.parametrize("resample", ["nearest", "nearest_exact", "nearest-exact", "bilinear", "BICUBIC"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.float32, torch.bfloat16])
def test_every_way_to_resize_keeps_the_dtype(resample: str, dtype: torch.dtype) -> None:
    image = (torch.rand(2, 3, 9, 7, generator=torch.Generator().manual_seed(1)) * 255).to(dtype)
    resized = resize_with_pad(image, (20, 20), resample)
    assert resized.dtype == dtype
    assert resized.shape == (2, 3, 20, 20)
    slack = 60 if resample == "BICUBIC" and dtype != torch.uint8 else 0  # bicubic overshoots, uint8 can't
    assert resized.float().min() >= -slack
    assert resized.float().max() <= 255 + slack


def test_an_enum_with_a_value_is_taken_for_its_name() -> None:
    image = torch.rand(1, 8, 8)
    for mode in InterpolationMode:
        by_name = resize_with_pad(image, (5, 5), mode.value)
        assert torch.equal(resize_with_pad(image, (5, 5), mode), by_name)


def test_an_unknown_way_to_resize_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"resample is 'bilinaer'\. It is one of .*Did you mean 'bilinear'\?"):
        resize_with_pad(torch.zeros(1, 2, 2), (2, 2), "bilinaer")
    with pytest.raises(ConfigError, match="resample is 2"):
        resize_with_pad(torch.zeros(1, 2, 2), (2, 2), 2)


@pytest.mark.parametrize("shape", [(4,), (3, 0, 4)])
def test_an_image_without_pixels_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match="can't be resized"):
        resize_with_pad(torch.zeros(shape), (2, 2), "bilinear")


@pytest.mark.parametrize("max_size", [0, -1, 2.5, "4"])
def test_a_largest_side_that_is_none_is_refused(max_size: Any) -> None:
    with pytest.raises(ConfigError, match="max_size is .* It must be a whole number above 0, or None"):
        get_inscribed_size((4, 4), (8, 8), max_size)
    with pytest.raises(ConfigError, match="target_size is 8. It must be a height and a width"):
        resize_with_pad(torch.zeros(3, 4, 4), 8, "bilinear")  # pyright: ignore[reportArgumentType]
