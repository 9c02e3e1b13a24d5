"""Fitting a picture into a canvas without changing its proportions."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, DataError

# torch's name of each way to resize, and whether it can average over the pixels that one new pixel covers.
INTERPOLATION_MODES: dict[str, tuple[str, bool]] = {
    "nearest": ("nearest", False),
    "nearest_exact": ("nearest-exact", False),
    "bilinear": ("bilinear", True),
    "bicubic": ("bicubic", True),
}


def resample_name(resample: Any) -> str:
    """The name of a way to resize, lower case: ``"bilinear"`` for ``"BILINEAR"`` and for an enum whose value is that.

    Raises:
        ConfigError: it is none of nearest, nearest_exact, bilinear and bicubic.
    """
    given = getattr(resample, "value", resample)
    name = given.lower().replace("-", "_") if isinstance(given, str) else given
    if name not in INTERPOLATION_MODES:
        near = did_you_mean(name, INTERPOLATION_MODES) if isinstance(name, str) else ""
        raise ConfigError(f"resample is {resample!r}. It is one of {listed(INTERPOLATION_MODES)}.{near}")
    return name


def get_inscribed_size(image_size: Sequence[int], target_size: Sequence[int], max_size: int | None) -> tuple[int, int]:
    """Height and width of the largest picture of the same proportions that fits into ``target_size``.

    Args:
        image_size: height and width of the picture.
        target_size: height and width to fit it into.
        max_size: no side is enlarged beyond this; None: to ``target_size``. Smaller pictures only: a side that is
            longer already keeps its length at most.

    Returns:
        Whole pixels, rounded down and at least 1. Reckoned in integers, so a picture of exactly the target's
        proportions fills it.

    Raises:
        ConfigError: a size is not two whole numbers above 0, or ``max_size`` not one.

    >>> get_inscribed_size((300, 800), (448, 1344), None)
    (448, 1194)
    >>> get_inscribed_size((300, 800), (448, 1344), 600)
    (300, 800)
    """
    height, width = _pair("image_size", image_size)
    target_height, target_width = _pair("target_size", target_size)
    if max_size is not None:
        if not isinstance(max_size, int) or max_size < 1:
            raise ConfigError(f"max_size is {max_size!r}. It must be a whole number above 0, or None.")
        target_height = min(target_height, max(height, max_size))
        target_width = min(target_width, max(width, max_size))
    # target_width / width < target_height / height, without dividing
    if target_width * height < target_height * width:
        return max(1, height * target_width // width), target_width
    return target_height, max(1, width * target_height // height)


def resize_with_pad(
    image: torch.Tensor, target_size: Sequence[int], resample: Any, max_size: int | None = None
) -> torch.Tensor:
    """The picture resized in proportion, at the top left of a canvas of ``target_size`` that is 0 elsewhere.

    Args:
        image: [..., H, W], floats or integers.
        target_size: height and width of the canvas.
        resample: "nearest", "nearest_exact", "bilinear" or "bicubic", or an enum with such a value (torchvision's
            InterpolationMode). The last two average over the pixels that a new pixel covers.
        max_size: no side is enlarged beyond this (:func:`get_inscribed_size`).

    Returns:
        [..., target height, target width], of the image's dtype. Reckoned in float32; integers are rounded.

    Raises:
        ConfigError: a size or ``resample`` can't be used.
        DataError: the image has fewer than two axes or no pixels.

    >>> resize_with_pad(torch.ones(1, 2, 4), (4, 4), "bilinear")[0].int().tolist()
    [[1, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]
    """
    _check_pixels(image)
    height, width = _pair("target_size", target_size)
    size = get_inscribed_size(image.shape[-2:], (height, width), max_size)
    return functional.pad(resize(image, size, resample), [0, width - size[1], 0, height - size[0]])


def resize(image: torch.Tensor, size: Sequence[int], resample: Any) -> torch.Tensor:
    """The picture at exactly the height and width of ``size``, whatever that does to its proportions.

    Arguments, dtypes and errors are those of :func:`resize_with_pad`.

    >>> resize(torch.tensor([[0, 2], [4, 6]], dtype=torch.uint8), (1, 1), "bilinear").tolist()
    [[3]]
    """
    _check_pixels(image)
    mode, antialias = INTERPOLATION_MODES[resample_name(resample)]
    size = _pair("size", size)
    if size == tuple(image.shape[-2:]):
        return image
    planes = image.reshape(1, -1, *image.shape[-2:])
    exact = planes if planes.dtype in (torch.float32, torch.float64) else planes.to(torch.float32)
    resized = functional.interpolate(exact, size=size, mode=mode, antialias=antialias)
    if not image.is_floating_point():
        limits = torch.iinfo(image.dtype)
        resized = resized.round_().clamp_(limits.min, limits.max)  # bicubic overshoots
    return resized.to(image.dtype).reshape(*image.shape[:-2], *size)


def _check_pixels(image: torch.Tensor) -> None:
    if image.ndim < 2 or 0 in image.shape:
        raise DataError(f"An image of the shape {list(image.shape)} can't be resized. It must be [..., height, width].")


def _pair(name: str, size: Sequence[int]) -> tuple[int, int]:
    values = tuple(size) if isinstance(size, Sequence) else ()
    if len(values) != 2 or not all(isinstance(value, int) and value > 0 for value in values):
        raise ConfigError(f"{name} is {size!r}. It must be a height and a width, whole numbers above 0.")
    return values
