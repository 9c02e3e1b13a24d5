"""A picture of any form as one tensor of RGB values."""

from typing import Any

import numpy as np
import torch

from torchpipe.errors import PictureError

# Floating point pictures that were resized before can lie this far outside 0 to 1.
_TOLERANCE = 1e-3

# Signed integers mostly hold the values of uint8, and over their own range would be black.
_INTEGERS = (torch.uint8, torch.uint16)


def image_to_tensor(image: Any) -> torch.Tensor:
    """The picture as float32 [3, H, W], values from 0 to 1.

    Args:
        image: a PIL image of any mode, or a tensor [C, H, W] or [H, W] with 1 (gray), 3 (RGB) or 4 (RGB and alpha)
            channels: uint8 or uint16 over their range, or floats from 0 to 1. Gray is repeated; alpha is left out.

    Raises:
        DataError: another type, shape or range (pixels of 32 bits have none that is known), or a file that ends before
            its picture does.

    >>> image_to_tensor(torch.tensor([[0, 51], [102, 255]], dtype=torch.uint8))[:, 0, 1]
    tensor([0.2000, 0.2000, 0.2000])
    """
    pixels = _tensor_pixels(image) if isinstance(image, torch.Tensor) else _pil_pixels(image)
    _check_shape(pixels)
    if pixels.ndim == 2:
        pixels = pixels[None]
    return pixels.expand(3, -1, -1) if pixels.shape[0] == 1 else pixels[:3]


def image_size(image: Any) -> tuple[int, int]:
    """Height and width of what :func:`image_to_tensor` takes, without decoding a PIL image.

    Raises:
        DataError: another type, or a tensor of another shape.

    >>> image_size(torch.zeros(3, 2, 4))
    (2, 4)
    """
    if isinstance(image, torch.Tensor):
        _check_shape(image)
        return image.shape[-2], image.shape[-1]
    _check_pil(image)
    return image.height, image.width


def _check_shape(image: torch.Tensor) -> None:
    channels = image.shape[0] if image.ndim == 3 else 1
    if image.ndim not in (2, 3) or channels not in (1, 3, 4) or 0 in image.shape:
        raise PictureError(
            f"An image has the shape {list(image.shape)}. It must be [channels, height, width] with 1, 3 or 4 "
            "channels and at least one pixel."
        )


def _tensor_pixels(image: torch.Tensor) -> torch.Tensor:
    """Floats from 0 to 1, whatever the channels."""
    if image.is_complex() or not (image.is_floating_point() or image.dtype in _INTEGERS):
        raise PictureError(f"An image is a tensor of {image.dtype}. Give uint8, or floats from 0 to 1.")
    if not image.is_floating_point():
        return image.to(torch.float32).div_(torch.iinfo(image.dtype).max)
    pixels = image.to(torch.float32)
    if pixels.numel() and not bool(((pixels >= -_TOLERANCE) & (pixels <= 1 + _TOLERANCE)).all()):
        raise PictureError(
            f"An image of floats has values from {float(pixels.min()):g} to {float(pixels.max()):g}; they must lie "
            "from 0 to 1. Divide by 255, or give uint8."
        )
    return pixels


def _check_pil(image: Any) -> None:
    from PIL import Image

    if not isinstance(image, Image.Image):
        shown = f" ({image[:60]!r})" if isinstance(image, str) else ""
        raise PictureError(
            f"An image is a {type(image).__name__}{shown}, not a PIL image or a tensor. Load it in the "
            "message_transform, for example with load_image."
        )
    if image.mode in ("I", "F"):
        raise PictureError(
            "An image has pixels of 32 bits, whose black and white are not known. Give it with 8 bits, or as a tensor "
            "of floats from 0 to 1."
        )


def _pil_pixels(image: Any) -> torch.Tensor:
    _check_pil(image)
    try:
        if image.mode.startswith("I;16"):  # convert() would cut 16 bits off at 255
            return torch.from_numpy(np.array(image).astype(np.float32)) / 65_535
        if image.mode == "P" and "transparency" in image.info:
            image = image.convert("RGBA")
        pixels = np.array(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        raise PictureError(
            f"An image of {image.width} x {image.height} pixels can't be decoded: {error}. Is its file complete?"
        ) from error
    # Contiguous planes: resizing them is a third faster than resizing interleaved channels.
    return torch.from_numpy(pixels).permute(2, 0, 1).contiguous().to(torch.float32).div_(255)
