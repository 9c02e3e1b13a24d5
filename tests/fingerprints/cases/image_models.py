"""Image transforms of the models in torchpipe.models, and what joins them with a tokenizer."""

from collections.abc import Callable
from typing import Any

import torch

from torchpipe.models.clip.inference import CLIPImageTransform
from torchpipe.models.image_text import ImageTextTransform
from torchpipe.models.llama3 import Llama3Tokenizer
from torchpipe.models.llama3_2_vision import Llama3VisionTransform
from torchpipe.models.llama4 import Llama4Transform
from torchpipe.tokenizers import LLAMA3
from torchpipe.tokenizers.families import LLAMA4


def cases(case: Callable[..., Any], inputs: Any) -> list[Any]:
    vision_options = {
        "special_tokens_path": inputs.special_tokens(LLAMA3.control_tokens),
        "max_seq_len": 7,
        "media_overflow": "drop",
    }
    vision_options |= {"prompt_template": inputs.table, "mask_policy": "sampled", "max_num_tiles": 2}
    return [
        case(
            cls=CLIPImageTransform,
            given=inputs.statistics,
            other={
                **inputs.images,
                "possible_resolutions": [(224, 448)],
                "tile_size": 112,
                "max_num_tiles": 2,
                "resample": "bicubic",
                "resize_to_max_canvas": True,
                "antialias": False,
            },
        ),
        case(
            cls=ImageTextTransform,
            given={"tokenizer": Llama3Tokenizer(inputs.ranks[0]), "image_start": "<|image|>", "image_end": "<|image|>"},
            same={"tokenizer": Llama3Tokenizer(inputs.ranks[1])},
            other={
                "tokenizer": Llama3Tokenizer(inputs.ranks[0], max_seq_len=7),
                "image_start": "<|eot_id|>",
                "image_end": "<|eot_id|>",
                "media_overflow": "drop",
            },
        ),
        case(
            cls=Llama3VisionTransform,
            given={"path": inputs.ranks[0], "tile_size": 56, "patch_size": 14, **inputs.statistics},
            same={"path": inputs.ranks[1]},
            other={"path": inputs.ranks[2], "tile_size": 112, "patch_size": 28, **inputs.images, **vision_options},
        ),
        case(
            cls=Llama4Transform,
            given={"path": inputs.ranks[0], "tile_size": 56, "patch_size": 14, **inputs.statistics},
            same={"path": inputs.ranks[1]},
            other={
                "path": inputs.ranks[2],
                "tile_size": 112,
                "patch_size": 28,
                "pixel_shuffle_scaling_factor": 1.0,
                "dtype": torch.float32,
                **inputs.images,
                **vision_options,
                "special_tokens_path": inputs.special_tokens(LLAMA4.control_tokens),
            },
        ),
    ]
