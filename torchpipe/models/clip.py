"""CLIP: the text tokenizer, and the image transform of its vision encoder."""

from torchpipe.tokenizers.clip import CLIPTokenizer
from torchpipe.vision import CLIPImageTransform

__all__ = ["CLIPImageTransform", "CLIPTokenizer", "clip_tokenizer", "clip_vit_224_transform"]

# Mean and standard deviation of the three channels: https://github.com/openai/CLIP, clip/clip.py (MIT).
CLIP_IMAGE_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_IMAGE_STD = (0.26862954, 0.26130258, 0.27577711)


def clip_tokenizer(path: str, max_seq_len: int = 77, truncate: bool = True) -> CLIPTokenizer:
    """The text tokenizer of CLIP.

    Args:
        path: CLIP's merges: ``merges.txt``, or OpenAI's ``bpe_simple_vocab_16e6.txt.gz``.
        max_seq_len: the most ids a text may have; 77 in all of OpenAI's models.
        truncate: whether longer texts are cut; otherwise they are refused.

    Raises:
        SourceError: there is no such file.
        TokenizerError: it does not hold merges.
    """
    return CLIPTokenizer(path, max_seq_len=max_seq_len, truncate=truncate)


def clip_vit_224_transform() -> CLIPImageTransform:
    """The image transform of CLIP's encoders for 224 x 224 pixels: one tile, which the picture fills one way."""
    return CLIPImageTransform(
        image_mean=CLIP_IMAGE_MEAN,
        image_std=CLIP_IMAGE_STD,
        tile_size=224,
        max_num_tiles=1,
        resize_to_max_canvas=True,
    )
