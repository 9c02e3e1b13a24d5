"""Pictures as patches, against loops that say the same one number at a time."""

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from torchpipe.errors import ConfigError, MediaError
from torchpipe.vision import Patches, joined_patches, vision_to_patches

SIZES: dict[str, Any] = {"patch_size": 2, "temporal_patch_size": 2, "merge_size": 2}


def pixels(*shape: int) -> torch.Tensor:
    return torch.arange(int(np.prod(shape)), dtype=torch.float32).reshape(shape)


@pytest.mark.parametrize("order", ["block", "raster"])
@pytest.mark.parametrize("shape", [(1, 4, 8, 3), (4, 8, 4, 1), (3, 4, 4, 2)])
def test_each_number_of_a_patch_is_the_pixel_it_should_be(shape: tuple[int, ...], order: Any) -> None:
    given = pixels(*shape)
    made = vision_to_patches(given, **SIZES, patch_order=order)
    frames, lines, columns = made.grid_thw
    assert made.grid_thw == (-(-shape[0] // 2), shape[1] // 2, shape[2] // 2)
    blocks = (
        [(2 * i + a, 2 * j + b) for i, j, a, b in product(range(lines // 2), range(columns // 2), (0, 1), (0, 1))]
        if order == "block"
        else list(product(range(lines), range(columns)))
    )
    wanted = [
        [
            given[min(2 * t + dt, shape[0] - 1), 2 * line + dy, 2 * column + dx, channel].item()
            for channel, dt, dy, dx in product(range(shape[3]), (0, 1), (0, 1), (0, 1))
        ]
        for t in range(frames)
        for line, column in blocks
    ]
    assert made.values.tolist() == wanted


def test_arrays_are_taken_and_the_type_is_kept() -> None:
    assert vision_to_patches(np.zeros((1, 4, 4, 3), np.float16), **SIZES).values.dtype == torch.float16
    assert vision_to_patches(torch.zeros(1, 4, 4, 3, dtype=torch.bfloat16), **SIZES).values.dtype == torch.bfloat16


@pytest.mark.parametrize("shape", [(1, 6, 4, 3), (1, 4, 6, 3), (4, 4, 3), (0, 4, 4, 3)])
def test_pixels_that_can_not_be_cut_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(MediaError, match="can't be cut into patches. Give .* multiples of patch_size . merge_size = 4"):
        vision_to_patches(torch.zeros(*shape), **SIZES)


def test_another_order_is_refused() -> None:
    with pytest.raises(ConfigError, match="patch_order is 'blocks'. It is one of .* Did you mean 'block'"):
        vision_to_patches(pixels(1, 4, 4, 3), **SIZES, patch_order="blocks")  # pyright: ignore[reportArgumentType]


def test_patches_that_lie_on_no_grid_are_refused() -> None:
    with pytest.raises(MediaError, match=r"Patches of shape \[5, 3\] don't lie on a grid of \(1, 2, 2\)"):
        Patches(values=torch.zeros(5, 3), grid_thw=(1, 2, 2))
    with pytest.raises(MediaError, match=r"don't lie on a grid of \(2, 2\)"):
        Patches(values=torch.zeros(4, 3), grid_thw=(2, 2))  # pyright: ignore[reportArgumentType]


def test_pictures_are_joined_and_their_grids_kept() -> None:
    pictures = [vision_to_patches(pixels(1, *size, 3), **SIZES) for size in ((4, 4), (8, 4))]
    values, grids = joined_patches(pictures)
    assert values.shape == (12, 24)
    assert grids.tolist() == [[1, 2, 2], [1, 4, 2]]
    with pytest.raises(MediaError, match="The pictures of a batch have patches of '3', '24' numbers|'24', '3'"):
        joined_patches([pictures[0], Patches(values=torch.zeros(1, 3), grid_thw=(1, 1, 1))])
