"""Which text tokens see which image, for models that see images through cross-attention."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.errors import ColumnError, ConfigError, DataError, MediaError


class VisionCrossAttentionMask:
    """Adds ``encoder_mask`` to a sample: for each image, which tokens attend to its patches.

    An image is seen from its own token on, until the next image's token; images that follow each other without text
    between them are seen up to the same end (Flamingo, arXiv 2204.14198, section 3.1.3). ::

        tokens   <img> <img>  two  dogs  <img>  a  cat
        image 0    T     T     T     T
        image 1          T     T     T
        image 2                             T    T   T      True: attends

    Args:
        tile_size: side of a tile in pixels.
        patch_size: side of a patch in pixels.
        image_token_id: the token that stands for an image.

    Attributes:
        patches_per_tile: how many patches the encoder cuts a tile into, its class token not counted.

    Raises:
        ConfigError: no patch fits into a tile.
    """

    def __init__(self, tile_size: int, patch_size: int, image_token_id: int) -> None:
        self.patches_per_tile = patches_per_tile(tile_size, patch_size)
        self.image_token_id = image_token_id

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with ``encoder_mask``: a list with a bool [tokens, tiles * (patches_per_tile + 1)] per image.

        Args:
            sample: has ``tokens``, a list of ids, and ``encoder_input["images"]``, a list of tensors [tiles, C, H, W].
            inference: changes nothing.

        Raises:
            ColumnError: ``tokens`` or the images are not there.
            DataError: an image is no tensor of four axes.
            MediaError: there are more or fewer image tokens than images; a sample that was cut before its image, for
                example.
        """
        if "tokens" not in sample or "images" not in (sample.get("encoder_input") or {}):
            raise ColumnError(
                "VisionCrossAttentionMask needs `tokens` and `encoder_input` with `images`; the sample has "
                f"{sorted(sample)}. A transform that tokenizes and tiles comes before it."
            )
        tokens, images = sample["tokens"], sample["encoder_input"]["images"]
        seen = _seen_from(tokens, self.image_token_id)
        check_image_count(len(seen), len(images))
        masks = []
        for number, ((start, stop), image) in enumerate(zip(seen, images, strict=True)):
            if not isinstance(image, torch.Tensor) or image.ndim != 4:
                held = list(image.shape) if isinstance(image, torch.Tensor) else f"a {type(image).__name__}"
                raise DataError(f"Image {number} of a sample is {held}; it must be a tensor [tiles, C, H, W].")
            mask = torch.zeros(len(tokens), image.shape[0] * (self.patches_per_tile + 1), dtype=torch.bool)
            mask[start:stop] = True
            masks.append(mask)
        return {**sample, "encoder_mask": masks}


def patches_per_tile(tile_size: int, patch_size: int) -> int:
    """Whole patches in a square tile.

    Raises:
        ConfigError: no patch fits into a tile.

    >>> patches_per_tile(560, 14)
    1600
    """
    if not 0 < patch_size <= tile_size:
        raise ConfigError(f"patch_size is {patch_size} and tile_size {tile_size}. A patch must fit into a tile.")
    return (tile_size // patch_size) ** 2


def check_image_count(num_tokens: int, num_images: int) -> None:
    """None, when a sample has as many places for images as images.

    Raises:
        MediaError: it has not.
    """
    if num_tokens != num_images:
        cause = "was it cut to max_seq_len before an image?" if num_tokens < num_images else "was an image left out?"
        raise MediaError(
            f"A sample has {num_images} images and {num_tokens} image tokens: {cause} Raise max_seq_len, or drop the "
            "row with filter_fn."
        )


def _seen_from(tokens: Sequence[int], image_token_id: int) -> list[tuple[int, int]]:
    """For each image token, the positions [start, stop) that attend to its image."""
    starts = [position for position, token in enumerate(tokens) if token == image_token_id]
    seen: list[tuple[int, int]] = []
    following = stop = len(tokens)
    for start in reversed(starts):
        if start + 1 != following:  # text comes next, and ends where the following image stands
            stop = following
        seen.append((start, stop))
        following = start
    return seen[::-1]
