"""Pictures to tiles of numbers, the way vision encoders were trained."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.errors import ColumnError, ConfigError
from torchpipe.vision.pixels import image_size, image_to_tensor
from torchpipe.vision.resize import resample_name, resize, resize_with_pad
from torchpipe.vision.tiles import best_canvas, find_supported_resolutions, tile_crop


class CLIPImageTransform:
    """Fits a picture into a canvas of tiles without distortion, normalizes it and cuts it into the tiles.

    Everything is reckoned in float32; only the result has ``dtype``.

    Args:
        image_mean: mean of each of the three channels; None, with ``image_std``: values stay from 0 to 1.
        image_std: standard deviation of each channel.
        possible_resolutions: height and width of each canvas, multiples of ``tile_size``; None: every rectangle of at
            most ``max_num_tiles`` tiles.
        tile_size: side of a tile in pixels.
        max_num_tiles: see ``possible_resolutions``.
        dtype: of the result.
        resample: "nearest", "nearest_exact", "bilinear" or "bicubic", or an enum with such a value.
        resize_to_max_canvas: True enlarges a picture into the largest canvas that it can fill. False takes the smallest
            that it need not be shrunk for, and enlarges a side to ``tile_size`` at most.

    Raises:
        ConfigError: arguments that can't be used, or not together.

    >>> transform = CLIPImageTransform(tile_size=224, max_num_tiles=4)
    >>> tiles = transform({"image": torch.zeros(3, 300, 800, dtype=torch.uint8)})
    >>> tiles["image"].shape, tiles["aspect_ratio"].tolist()
    (torch.Size([3, 3, 224, 224]), [1, 3])
    """

    def __init__(
        self,
        *,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
        possible_resolutions: Sequence[tuple[int, int]] | None = None,
        tile_size: int = 224,
        max_num_tiles: int | None = 4,
        dtype: torch.dtype = torch.bfloat16,
        resample: Any = "bilinear",
        resize_to_max_canvas: bool = False,
    ) -> None:
        if not possible_resolutions:
            if max_num_tiles is None:
                raise ConfigError("Neither possible_resolutions nor max_num_tiles is given. Give one of them.")
            possible_resolutions = find_supported_resolutions(max_num_tiles, tile_size)
        for canvas in possible_resolutions:
            sides = canvas if isinstance(canvas, Sequence) else ()
            if len(sides) != 2 or not all(
                isinstance(side, int) and 0 < side == side // tile_size * tile_size for side in sides
            ):
                raise ConfigError(
                    f"possible_resolutions holds {canvas!r}. A canvas is a height and a width that are multiples "
                    f"of tile_size ({tile_size})."
                )
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise ConfigError(f"dtype is {dtype!r}. It must be a torch.dtype of floats, as torch.bfloat16.")
        self.mean, self.std = _statistics(image_mean, image_std)
        self.possible_resolutions = torch.tensor(possible_resolutions)
        self.resize_to_max_canvas = resize_to_max_canvas
        self.max_size = None if resize_to_max_canvas else tile_size
        self.dtype = dtype
        self.resample = resample_name(resample)
        self.tile_size = tile_size

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with its ``image`` in tiles, and their arrangement.

        Args:
            sample: ``image`` is a PIL image or a tensor (:func:`~torchpipe.vision.pixels.image_to_tensor`).
            inference: changes nothing.

        Returns:
            ``image``: [tiles, 3, tile_size, tile_size] of ``dtype``, row by row. ``aspect_ratio``: int64 [2], rows and
            columns of tiles. Other keys stay.

        Raises:
            ColumnError: there is no ``image``.
            DataError: it is not a picture, or can't be decoded.
        """
        if "image" not in sample:
            raise ColumnError(f"CLIPImageTransform needs `image`, and the sample has {sorted(sample)}.")
        pixels = image_to_tensor(sample["image"])
        canvas = self.canvas(pixels)
        pixels = resize_with_pad(pixels, canvas, self.resample, self.max_size)
        return {
            **sample,
            "image": tile_crop(self._normalized(pixels), self.tile_size),
            "aspect_ratio": torch.tensor(canvas) // self.tile_size,
        }

    def canvas(self, image: Any) -> tuple[int, int]:
        """Height and width in pixels of the canvas that a picture is fitted into; a PIL image is not decoded.

        Raises:
            DataError: it is not a picture.
        """
        return best_canvas(image_size(image), self.possible_resolutions, self.resize_to_max_canvas)

    def thumbnail(self, image: Any) -> torch.Tensor:
        """The whole picture as one tile, [3, tile_size, tile_size] of ``dtype``, whatever that does to its proportions.

        Raises:
            DataError: it is not a picture, or can't be decoded.
        """
        return self._normalized(resize(image_to_tensor(image), (self.tile_size, self.tile_size), self.resample))

    def _normalized(self, pixels: torch.Tensor) -> torch.Tensor:
        if self.mean is not None and self.std is not None:
            mean, std = (pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
            pixels = pixels.sub(mean).div_(std)
        return pixels.to(self.dtype)


def _statistics(
    mean: Sequence[float] | None, std: Sequence[float] | None
) -> tuple[list[float], list[float]] | tuple[None, None]:
    if mean is None and std is None:
        return None, None
    numbers = [
        [float(value) for value in values if isinstance(value, int | float)] if isinstance(values, Sequence) else []
        for values in (mean, std)
    ]
    if not all(len(values) == 3 for values in numbers) or not all(value > 0 for value in numbers[1]):
        raise ConfigError(
            f"image_mean is {mean!r} and image_std {std!r}. Give three numbers for both (those of image_std above 0), "
            "or neither."
        )
    return numbers[0], numbers[1]
