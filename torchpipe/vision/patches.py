"""Pictures cut into the patches that a vision encoder takes, and where they lie on a grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, MediaError

PatchOrder = Literal["block", "raster"]
"""In which order the patches of a frame stand. ``block``: those that are merged into one token side by side, block by
block; ``raster``: line by line."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Patches:
    """A picture, or a video, as patches.

    Attributes:
        values: [n, patch_dim], one line for each patch, of any dtype.
        grid_thw: frames, lines and columns of patches, whose product is n.

    Raises:
        MediaError: they don't fit each other.
    """

    values: torch.Tensor
    grid_thw: tuple[int, int, int]

    def __post_init__(self) -> None:
        num = self.grid_thw[0] * self.grid_thw[1] * self.grid_thw[2] if len(self.grid_thw) == 3 else -1
        if self.values.ndim != 2 or len(self.values) != num or min(self.grid_thw) < 1:
            raise MediaError(
                f"Patches of shape {list(self.values.shape)} don't lie on a grid of {tuple(self.grid_thw)}. Give a "
                "line for each patch, and frames, lines and columns whose product is their number."
            )


def check_patch_order(patch_order: str) -> None:
    """None, where there is such an order.

    Raises:
        ConfigError: there is none.
    """
    orders = get_args(PatchOrder)
    if patch_order not in orders:
        near = did_you_mean(str(patch_order), orders)
        raise ConfigError(f"patch_order is {patch_order!r}. It is one of {listed(orders)}.{near}")


def vision_to_patches(
    pixels: Any, *, patch_size: int, temporal_patch_size: int, merge_size: int, patch_order: PatchOrder = "block"
) -> Patches:
    """A picture or a video as patches; a patch is [channels, frames, lines, columns] of pixels, made flat.

    Frames that are missing to a multiple of ``temporal_patch_size`` repeat the last one.

    Args:
        pixels: an array or tensor [frames, height, width, channels].
        patch_size: lines and columns of a patch.
        temporal_patch_size: its frames.
        merge_size: lines and columns of patches that become one token.
        patch_order: see :data:`PatchOrder`.

    Raises:
        MediaError: it has other axes, or height and width are no multiples of ``patch_size * merge_size``.
        ConfigError: there is no such order.

    >>> pixels = torch.arange(8.0).reshape(1, 2, 4, 1)
    >>> made = vision_to_patches(pixels, patch_size=1, temporal_patch_size=1, merge_size=2)
    >>> made.grid_thw, made.values[:, 0].tolist()
    ((1, 2, 4), [0.0, 1.0, 4.0, 5.0, 2.0, 3.0, 6.0, 7.0])
    """
    check_patch_order(patch_order)
    frames = torch.as_tensor(pixels)
    unit = patch_size * merge_size
    if frames.ndim != 4 or 0 in frames.shape or frames.shape[1] % unit or frames.shape[2] % unit:
        raise MediaError(
            f"Pixels of shape {list(frames.shape)} can't be cut into patches. Give [frames, height, width, channels], "
            f"where height and width are multiples of patch_size * merge_size = {unit}."
        )
    missing = -len(frames) % temporal_patch_size
    if missing:
        frames = torch.cat([frames, frames[-1:].expand(missing, *frames.shape[1:])])
    num, height, width, channels = frames.shape
    grid = (num // temporal_patch_size, height // patch_size, width // patch_size)
    merge = merge_size if patch_order == "block" else 1
    blocks = frames.reshape(
        grid[0], temporal_patch_size, grid[1] // merge, merge, patch_size, grid[2] // merge, merge, patch_size, channels
    )
    # To: frame, block line, block column, line and column in the block, then what a patch is.
    values = blocks.permute(0, 2, 5, 3, 6, 8, 1, 4, 7).reshape(grid[0] * grid[1] * grid[2], -1)
    return Patches(values=values, grid_thw=grid)


def joined_patches(pictures: Sequence[Patches]) -> tuple[torch.Tensor, torch.Tensor]:
    """The patches of all pictures one after another, and their grids: [sum of n, patch_dim] and int64 [pictures, 3].

    Raises:
        MediaError: patches of two pictures have different widths.
    """
    widths = {picture.values.shape[1] for picture in pictures}
    if len(widths) > 1:
        raise MediaError(f"The pictures of a batch have patches of {listed(map(str, sorted(widths)))} numbers each.")
    grids = torch.tensor([picture.grid_thw for picture in pictures], dtype=torch.int64)
    return torch.cat([picture.values for picture in pictures]), grids
