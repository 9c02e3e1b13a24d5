"""Pictures to tensors: resizing, tiles, patches, and the mask of cross-attention. Pillow and torch alone."""

from torchpipe.vision.cross_attention import VisionCrossAttentionMask, patches_per_tile
from torchpipe.vision.patches import Patches, joined_patches, vision_to_patches
from torchpipe.vision.pixels import image_size, image_to_tensor
from torchpipe.vision.resize import get_inscribed_size, resize, resize_with_pad
from torchpipe.vision.tiles import (
    best_canvas,
    find_supported_resolutions,
    get_canvas_best_fit,
    pad_dim_to_size,
    tile_crop,
)
from torchpipe.vision.transforms import CLIPImageTransform

__all__ = [
    "CLIPImageTransform",
    "Patches",
    "VisionCrossAttentionMask",
    "best_canvas",
    "find_supported_resolutions",
    "get_canvas_best_fit",
    "get_inscribed_size",
    "image_size",
    "image_to_tensor",
    "joined_patches",
    "pad_dim_to_size",
    "patches_per_tile",
    "resize",
    "resize_with_pad",
    "tile_crop",
    "vision_to_patches",
]
