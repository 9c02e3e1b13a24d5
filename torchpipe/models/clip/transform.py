"""CLIP: the image transform of its vision encoder."""

from torchpipe.vision import CLIPImageTransform

# Mean and standard deviation of the three channels: https://github.com/openai/CLIP, clip/clip.py (MIT).
CLIP_IMAGE_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_IMAGE_STD = (0.26862954, 0.26130258, 0.27577711)


def clip_vit_224_transform() -> CLIPImageTransform:
    """The image transform of CLIP's encoders for 224 x 224 pixels: one tile, which the picture fills one way."""
    return CLIPImageTransform(
        image_mean=CLIP_IMAGE_MEAN,
        image_std=CLIP_IMAGE_STD,
        tile_size=224,
        max_num_tiles=1,
        resize_to_max_canvas=True,
    )
