"""CLIP's image transform in two steps, of which the one that computes is a module that ``torch.export`` takes."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

from torchpipe.vision import CLIPImageTransform as EagerCLIPImageTransform
from torchpipe.vision import best_canvas, get_inscribed_size, image_to_tensor
from torchpipe.vision.resize import INTERPOLATION_MODES, resample_name


class CLIPImageCore(torch.nn.Module):
    """Resizes a picture, pads it to a canvas, normalizes it and cuts it into tiles; the sizes are tensors.

    It has no branch that depends on its input, so one exported program serves every picture::

        sides = {1: Dim("height", min=2, max=4096), 2: Dim("width", min=2, max=4096)}
        program = export(core, (image, target_size, canvas_size), dynamic_shapes=(sides, None, None))

    Args:
        resample: "nearest", "nearest_exact", "bilinear" or "bicubic".
        image_mean: mean of each channel; None, with ``image_std``: values stay as they are.
        image_std: standard deviation of each channel.
        tile_size: side of a tile in pixels.
        max_num_tiles: the most tiles that a side of a canvas has.
        antialias: whether "bilinear" and "bicubic" average over the pixels that a new pixel covers.
    """

    def __init__(
        self,
        *,
        resample: str,
        image_mean: Sequence[float] | None,
        image_std: Sequence[float] | None,
        tile_size: int,
        max_num_tiles: int,
        antialias: bool,
    ) -> None:
        super().__init__()
        self.mode, can_antialias = INTERPOLATION_MODES[resample_name(resample)]
        self.antialias = antialias and can_antialias
        self.tile_size = tile_size
        self.max_num_tiles = max_num_tiles
        self.mean, self.std = (None if value is None else list(value) for value in (image_mean, image_std))

    def forward(
        self, image: torch.Tensor, target_size: torch.Tensor, canvas_size: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The tiles and their arrangement.

        Args:
            image: floats [3, H, W].
            target_size: int64 [2], height and width to resize to.
            canvas_size: int64 [2], height and width of the canvas, multiples of ``tile_size`` and at least the target.

        Returns:
            [tiles, 3, tile_size, tile_size], row by row, and int64 [2], the rows and columns of tiles.
        """
        aspect_ratio = canvas_size // self.tile_size
        rows, columns = aspect_ratio.tolist()
        height, width = target_size.tolist()
        for tiles, side in ((rows, height), (columns, width)):
            # What an exported program has to know of numbers that it will only see when it runs.
            torch._check(tiles >= 1)
            torch._check(tiles <= self.max_num_tiles)
            torch._check(side >= 1)
            torch._check(side <= tiles * self.tile_size)
        resized = functional.interpolate(image[None], size=[height, width], mode=self.mode, antialias=self.antialias)[0]
        pixels = functional.pad(resized, [0, columns * self.tile_size - width, 0, rows * self.tile_size - height])
        if self.mean is not None and self.std is not None:
            mean, std = (pixels.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
            pixels = pixels.sub(mean).div(std)
        grid = pixels.reshape(3, rows, self.tile_size, columns, self.tile_size)
        return grid.permute(1, 3, 0, 2, 4).reshape(rows * columns, 3, self.tile_size, self.tile_size), aspect_ratio


class CLIPImageTransform:
    """The tiles of :class:`torchpipe.vision.CLIPImageTransform` in float32, computed by an exportable module.

    What depends on a picture's size (which canvas, how large in it) is decided here in Python; ``core_transform``, a
    :class:`CLIPImageCore`, does the rest, and is what to hand to ``torch.export``.

    Args:
        image_mean: mean of each of the three channels; None, with ``image_std``: values stay from 0 to 1.
        image_std: standard deviation of each channel.
        possible_resolutions: height and width of each canvas, multiples of ``tile_size``; None: every rectangle of at
            most ``max_num_tiles`` tiles.
        tile_size: side of a tile in pixels.
        max_num_tiles: see ``possible_resolutions``.
        resample: "nearest", "nearest_exact", "bilinear" or "bicubic", or an enum with such a value.
        resize_to_max_canvas: as in :class:`torchpipe.vision.CLIPImageTransform`.
        antialias: whether "bilinear" and "bicubic" average over the pixels that a new pixel covers. The tiles differ
            from the other transform's where it is False.

    Raises:
        ConfigError: arguments that can't be used, or not together.

    >>> transform = CLIPImageTransform(tile_size=224, max_num_tiles=4)
    >>> tiles = transform(image=torch.zeros(3, 300, 800, dtype=torch.uint8), id=7)
    >>> tiles["image"].shape, tiles["aspect_ratio"].tolist(), tiles["id"]
    (torch.Size([3, 3, 224, 224]), [1, 3], 7)
    """

    def __init__(
        self,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
        possible_resolutions: Sequence[tuple[int, int]] | None = None,
        tile_size: int = 224,
        max_num_tiles: int | None = 4,
        resample: Any = "bilinear",
        resize_to_max_canvas: bool = False,
        antialias: bool = True,
    ) -> None:
        checked = EagerCLIPImageTransform(
            image_mean=image_mean,
            image_std=image_std,
            possible_resolutions=possible_resolutions,
            tile_size=tile_size,
            max_num_tiles=max_num_tiles,
            resample=resample,
            resize_to_max_canvas=resize_to_max_canvas,
        )
        self.possible_resolutions = checked.possible_resolutions
        self.resize_to_max_canvas = resize_to_max_canvas
        self.max_size = checked.max_size
        self.tile_size = tile_size
        self.core_transform = CLIPImageCore(
            resample=checked.resample,
            image_mean=checked.mean,
            image_std=checked.std,
            tile_size=tile_size,
            max_num_tiles=int(self.possible_resolutions.max()) // tile_size,
            antialias=antialias,
        )

    def __call__(self, *, image: Any, **kwargs: Any) -> dict[str, Any]:
        """The other keywords, with the picture in tiles and their arrangement.

        Args:
            image: a PIL image or a tensor (:func:`~torchpipe.vision.image_to_tensor`).
            kwargs: what else is to stand in the result.

        Returns:
            ``image``: float32 [tiles, 3, tile_size, tile_size], row by row. ``aspect_ratio``: int64 [2], rows and
            columns of tiles.

        Raises:
            DataError: ``image`` is not a picture, or can't be decoded.
        """
        pixels, target_size, canvas_size = self.core_inputs(image)
        tiles, aspect_ratio = self.core_transform(pixels, target_size, canvas_size)
        return {**kwargs, "image": tiles, "aspect_ratio": aspect_ratio}

    def core_inputs(self, image: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What ``core_transform``, or a program exported from it, is called with for a picture.

        Returns:
            float32 [3, H, W], and int64 [2] twice: the size to resize to, and that of the canvas.
        """
        pixels = image_to_tensor(image)
        canvas = best_canvas(pixels.shape[-2:], self.possible_resolutions, self.resize_to_max_canvas)
        size = get_inscribed_size(pixels.shape[-2:], canvas, self.max_size)
        return pixels, torch.tensor(size), torch.tensor(canvas)
