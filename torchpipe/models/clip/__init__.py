"""CLIP: the text tokenizer, and the image transform of its vision encoder."""

from torchpipe.models.clip.tokenizer import clip_tokenizer
from torchpipe.models.clip.transform import CLIP_IMAGE_MEAN, CLIP_IMAGE_STD, clip_vit_224_transform
from torchpipe.tokenizers.clip import CLIPTokenizer
from torchpipe.vision import CLIPImageTransform

__all__ = [
    "CLIP_IMAGE_MEAN",
    "CLIP_IMAGE_STD",
    "CLIPImageTransform",
    "CLIPTokenizer",
    "clip_tokenizer",
    "clip_vit_224_transform",
]
