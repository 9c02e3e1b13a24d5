"""Image transforms and masks of torchpipe.vision."""

from collections.abc import Callable
from typing import Any

import torch

from torchpipe import vision


def cases(case: Callable[..., Any], inputs: Any) -> list[Any]:
    return [
        case(
            cls=vision.CLIPImageTransform,
            given=inputs.statistics,
            other={
                **inputs.images,
                "possible_resolutions": [(224, 448)],
                "tile_size": 112,
                "max_num_tiles": 2,
                "dtype": torch.float32,
                "resample": "bicubic",
                "resize_to_max_canvas": True,
            },
        ),
        case(
            cls=vision.VisionCrossAttentionMask,
            given={"tile_size": 56, "patch_size": 14, "image_token_id": 1},
            other={"tile_size": 112, "patch_size": 28, "image_token_id": 2},
        ),
    ]
