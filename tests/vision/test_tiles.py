"""Canvases of tiles: the choice for a picture, cutting, and padding one axis."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.errors import ConfigError, DataError
from torchpipe.vision import find_supported_resolutions, get_canvas_best_fit, pad_dim_to_size, tile_crop

CANVASES = [(224, 896), (448, 448), (224, 224), (896, 224), (224, 672), (672, 224), (224, 448), (448, 224)]


def test_resolutions_are_all_rectangles_of_at_most_so_many_tiles() -> None:
    assert find_supported_resolutions(4, 224) == CANVASES
    assert len(find_supported_resolutions(16, 336)) == sum(16 // rows for rows in range(1, 17))


@pytest.mark.parametrize(("tiles", "size"), [(0, 224), (4, 0), (4, 2.0)])
def test_resolutions_of_no_tiles_are_refused(tiles: int, size: int) -> None:
    with pytest.raises(ConfigError, match="It must be a whole number above 0"):
        find_supported_resolutions(tiles, size)


@pytest.mark.parametrize(
    ("height", "width", "to_max", "expected"),
    [
        (200, 300, False, (224, 448)),
        (200, 300, True, (448, 448)),  # enlarges by 1.49 where (224, 448) does by 1.12
        (200, 500, False, (224, 672)),
        (200, 200, False, (224, 224)),
        (200, 100, True, (448, 224)),
        (1000, 300, False, (896, 224)),
        (1000, 1000, True, (448, 448)),
        (224, 224, False, (224, 224)),
    ],
)
def test_the_canvas_that_a_picture_loses_least_in(
    height: int, width: int, to_max: bool, expected: tuple[int, int]
) -> None:
    image = torch.zeros(3, height, width)
    assert get_canvas_best_fit(image, torch.tensor(CANVASES), to_max) == expected
    assert get_canvas_best_fit(image, CANVASES, to_max) == expected


def test_no_canvas_is_refused() -> None:
    with pytest.raises(ConfigError, match="possible_resolutions is .* It must hold at least one canvas"):
        get_canvas_best_fit(torch.zeros(3, 2, 2), torch.zeros(0, 2), False)
    with pytest.raises(ConfigError, match="each a height and a width"):
        get_canvas_best_fit(torch.zeros(3, 2, 2), [(2, 2, 2)], False)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(1, 3))
def test_tiles_are_the_picture_row_by_row(rows: int, columns: int, size: int, channels: int) -> None:
    image = torch.arange(channels * rows * columns * size * size).reshape(channels, rows * size, columns * size)
    tiles = tile_crop(image, size)
    assert tiles.shape == (rows * columns, channels, size, size)
    for number, tile in enumerate(tiles):
        top, left = number // columns * size, number % columns * size
        assert torch.equal(tile, image[:, top : top + size, left : left + size])


def test_a_picture_that_does_not_divide_into_tiles_is_refused() -> None:
    with pytest.raises(DataError, match=r"An image of 10 x 8 pixels can't be cut into tiles of 4 x 4 without a rest"):
        tile_crop(torch.zeros(3, 10, 8), 4)
    with pytest.raises(DataError, match=r"shape \[8, 8\] can't be cut into tiles"):
        tile_crop(torch.zeros(8, 8), 4)


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_padding_lengthens_one_axis_at_its_end(dim: int) -> None:
    values = torch.arange(24.0).reshape(2, 3, 4)
    padded = pad_dim_to_size(values, 6, dim, fill=7)
    assert torch.equal(padded.narrow(dim, 0, values.shape[dim]), values)
    added = padded.narrow(dim, values.shape[dim], 6 - values.shape[dim])
    assert added.eq(7).all()
    assert padded.numel() == 24 + added.numel()


def test_padding_never_cuts() -> None:
    with pytest.raises(DataError, match="Axis 0 of a tensor is 4 long and can't be padded to 3"):
        pad_dim_to_size(torch.zeros(4, 2), 3, 0)


@pytest.mark.parametrize("size", [0, -1, 2.0, "2", None])
def test_a_tile_size_that_is_none_is_refused(size: Any) -> None:
    with pytest.raises(ConfigError, match="tile_size is .* It must be a whole number above 0"):
        tile_crop(torch.zeros(3, 4, 4), size)


@pytest.mark.parametrize(("size", "dim"), [("8", 1), (8.0, 1), (8, 3), (8, -4), (8, None)])
def test_a_size_or_axis_that_is_none_is_refused(size: Any, dim: Any) -> None:
    with pytest.raises(ConfigError, match="and the tensor has 3 axes. Give whole numbers"):
        pad_dim_to_size(torch.zeros(3, 4, 4), size, dim)
