"""Canvases made of square tiles: which there are, which one fits a picture, and cutting it up."""

from collections.abc import Sequence
from math import gcd
from typing import Any

import torch
from torch.nn import functional

from torchpipe.errors import ConfigError, DataError


def find_supported_resolutions(max_num_tiles: int, tile_size: int) -> list[tuple[int, int]]:
    """Height and width in pixels of every rectangle of at most ``max_num_tiles`` tiles.

    The order is torchtune's (proportions in the order in which the most tiles first meet them), because it decides
    between two canvases that fit equally well.

    Raises:
        ConfigError: a number is not above 0.

    >>> find_supported_resolutions(2, 224)
    [(224, 448), (448, 224), (224, 224)]
    """
    for name, value in (("max_num_tiles", max_num_tiles), ("tile_size", tile_size)):
        if not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} is {value!r}. It must be a whole number above 0.")
    canvases: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for num_tiles in range(max_num_tiles, 0, -1):
        for rows in range(1, num_tiles + 1):
            columns, left = divmod(num_tiles, rows)
            if left == 0:
                common = gcd(rows, columns)
                same_proportions = canvases.setdefault((rows // common, columns // common), [])
                same_proportions.append((rows * tile_size, columns * tile_size))
    return [canvas for same_proportions in canvases.values() for canvas in same_proportions]


def get_canvas_best_fit(
    image: torch.Tensor, possible_resolutions: torch.Tensor | Sequence[Sequence[int]], resize_to_max_canvas: bool
) -> tuple[int, int]:
    """Height and width of the canvas that a picture loses least in.

    A picture is enlarged into a canvas by the smaller of the ratios of heights and of widths. Of the canvases that
    need not shrink it, the one that enlarges it least is taken (most, with ``resize_to_max_canvas``); where all shrink
    it, the one that does so least. Of equal ones the smallest canvas, then the first.

    Args:
        image: anything with the shape [..., H, W].
        possible_resolutions: integers [n, 2], or pairs: height and width of each canvas.
        resize_to_max_canvas: True enlarges as much as possible.

    Raises:
        ConfigError: there is no canvas, or they are not pairs.

    >>> canvases = torch.tensor([[224, 672], [672, 224], [224, 448], [448, 224], [224, 224]])
    >>> get_canvas_best_fit(torch.rand(3, 200, 300), canvases, resize_to_max_canvas=False)
    (224, 448)
    """
    return best_canvas(image.shape[-2:], possible_resolutions, resize_to_max_canvas)


def best_canvas(
    image_size: Sequence[int], possible_resolutions: torch.Tensor | Sequence[Sequence[int]], resize_to_max_canvas: bool
) -> tuple[int, int]:
    """:func:`get_canvas_best_fit` for the height and width of a picture.

    >>> best_canvas((200, 300), [(224, 448), (448, 224)], resize_to_max_canvas=False)
    (224, 448)
    """
    given: Any = possible_resolutions
    canvases = given.tolist() if isinstance(given, torch.Tensor) else [list(canvas) for canvas in given]
    if not canvases or not all(isinstance(canvas, list) and len(canvas) == 2 for canvas in canvases):
        raise ConfigError(
            f"possible_resolutions is {given!r}. It must hold at least one canvas, each a height and a width."
        )
    height, width = image_size
    # Float64 tells any two ratios of sides below 2 ** 26 apart.
    scales = [min(canvas[0] / height, canvas[1] / width) for canvas in canvases]
    enlarging = [scale for scale in scales if scale >= 1]
    if enlarging:
        chosen = max(enlarging) if resize_to_max_canvas else min(enlarging)
    else:
        chosen = max(scales)
    fitting = (canvas for canvas, scale in zip(canvases, scales, strict=True) if scale == chosen)
    best = min(fitting, key=lambda canvas: canvas[0] * canvas[1])
    return int(best[0]), int(best[1])


def tile_crop(image: torch.Tensor, tile_size: int) -> torch.Tensor:
    """The tiles of a picture, row by row: [n, C, tile_size, tile_size].

    Args:
        image: [C, H, W]; both sides are multiples of ``tile_size``.
        tile_size: side of a tile in pixels.

    Raises:
        ConfigError: ``tile_size`` is no whole number above 0.
        DataError: the image has another number of axes, or a side is no multiple.

    >>> tile_crop(torch.arange(8).reshape(1, 2, 4), 2)[1].tolist()
    [[[2, 3], [6, 7]]]
    """
    if not isinstance(tile_size, int) or tile_size < 1:
        raise ConfigError(f"tile_size is {tile_size!r}. It must be a whole number above 0.")
    if image.ndim != 3:
        raise DataError(f"An image of the shape {list(image.shape)} can't be cut into tiles. It must be [C, H, W].")
    channels, height, width = image.shape
    if height % tile_size or width % tile_size:
        raise DataError(
            f"An image of {height} x {width} pixels can't be cut into tiles of {tile_size} x {tile_size} without a "
            "rest. Pad it with resize_with_pad."
        )
    grid = image.reshape(channels, height // tile_size, tile_size, width // tile_size, tile_size)
    return grid.permute(1, 3, 0, 2, 4).reshape(-1, channels, tile_size, tile_size)


def pad_dim_to_size(input: torch.Tensor, size: int, dim: int, *, fill: float = 0.0) -> torch.Tensor:
    """The tensor with axis ``dim`` made ``size`` long by ``fill`` at its end.

    Args:
        input: any shape and dtype.
        size: the length to come to.
        dim: the axis; negative counts from the last.
        fill: the value of what is added.

    Raises:
        ConfigError: ``size`` is no whole number, or there is no such axis.
        DataError: the axis is longer already.

    >>> pad_dim_to_size(torch.ones(1, 2), 3, dim=0).tolist()
    [[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]
    """
    if not isinstance(size, int) or not isinstance(dim, int) or not -input.ndim <= dim < input.ndim:
        raise ConfigError(
            f"size is {size!r} and dim {dim!r}, and the tensor has {input.ndim} axes. Give whole numbers."
        )
    missing = size - input.shape[dim]
    if missing < 0:
        raise DataError(f"Axis {dim} of a tensor is {input.shape[dim]} long and can't be padded to {size}. Raise size.")
    following = input.ndim - 1 - range(input.ndim)[dim]
    return functional.pad(input, [0, 0] * following + [0, missing], value=fill)
