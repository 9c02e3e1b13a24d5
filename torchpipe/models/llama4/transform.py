"""Llama 4: messages with images to tokens and tiles."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.errors import ConfigError
from torchpipe.models.image_text import ImageTextTransform, MediaOverflow, messages_of, with_image_parts
from torchpipe.models.llama4.tokenizer import llama4_tokenizer
from torchpipe.tokenizers import MaskPolicy, PromptTemplateLike
from torchpipe.vision import CLIPImageTransform, patches_per_tile


class Llama4Transform(ImageTextTransform):
    """Messages with images to tokens and tiles. An image is as many tokens as the model has embeddings of it.

    Args:
        path: the published ``tokenizer.model`` or a ``tokenizer.json``.
        tile_size: side of a tile in pixels.
        patch_size: side of a patch in pixels.
        max_num_tiles: the most tiles an image is cut into.
        pixel_shuffle_scaling_factor: what the model's projection multiplies both sides of a tile's grid of patches by.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        max_seq_len: the most tokens a sample may have; None: no limit.
        image_mean: mean of each channel; None, with ``image_std``: values stay from 0 to 1.
        image_std: standard deviation of each channel.
        dtype: of the tiles.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        mask_policy: which tokens of a trained message are trained; never those of images.
        media_overflow: what happens where ``max_seq_len`` cuts an image off: "error" or "drop".

    Attributes:
        tokenizer, transform_image: the two transforms.
        patches_per_tile: patches of a tile; patch_tokens_per_tile: tokens of a tile in the text.
        image_seq_len: the most patches that an image's own tiles have.

    Raises:
        SourceError: a file is missing.
        TokenizerError: a file is not of this family.
        ConfigError: an argument can't be used.
    """

    def __init__(
        self,
        path: str,
        *,
        tile_size: int,
        patch_size: int,
        max_num_tiles: int = 4,
        pixel_shuffle_scaling_factor: float = 0.5,
        special_tokens_path: str | None = None,
        max_seq_len: int | None = None,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
        dtype: torch.dtype = torch.bfloat16,
        prompt_template: PromptTemplateLike = None,
        mask_policy: MaskPolicy = "message",
        media_overflow: MediaOverflow = "error",
    ) -> None:
        super().__init__(
            llama4_tokenizer(path, special_tokens_path, max_seq_len, prompt_template, mask_policy=mask_policy),
            image_start="<|image_start|>",
            image_end="<|image_end|>",
            media_overflow=media_overflow,
        )
        self.transform_image = CLIPImageTransform(
            image_mean=image_mean, image_std=image_std, tile_size=tile_size, max_num_tiles=max_num_tiles, dtype=dtype
        )
        self.max_num_tiles = max_num_tiles
        self.patches_per_tile = patches_per_tile(tile_size, patch_size)
        self.image_seq_len = max_num_tiles * self.patches_per_tile
        self.pixel_shuffle_scaling_factor = pixel_shuffle_scaling_factor
        self.patch_tokens_per_tile = _tokens_per_tile(self.patches_per_tile, pixel_shuffle_scaling_factor)

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with ``messages`` replaced by what the model is given.

        Returns:
            ``tokens``, ``mask``: lists of equal length; True = not trained. ``encoder_input["vision"]["images"]``: a
            [tiles, 3, tile_size, tile_size] for each image; where there are several tiles, the picture as a whole is
            one more, the last. Where tokens were cut, ``num_truncated`` and ``num_images_dropped``. Other keys stay.

        Raises:
            ColumnError: there are no ``messages``.
            DataError: an image is not a picture, or can't be decoded.
            MediaError: ``max_seq_len`` cuts an image off, and ``media_overflow`` is "error".
        """
        images: list[torch.Tensor] = []

        def tile(part: Mapping[str, Any]) -> Mapping[str, Any]:
            tiled = self.transform_image({"image": part.get("content")}, inference)
            tiles = tiled["image"]
            if len(tiles) > 1:
                tiles = torch.cat([tiles, self.transform_image.thumbnail(part.get("content"))[None]])
            images.append(tiles)
            return self._with_sizes(part, tiled["aspect_ratio"].tolist())

        messages = list(with_image_parts(messages_of(sample), tile))
        result, num_images = self.tokenize_whole_images(
            {**sample, "messages": messages, "encoder_input": {}}, len(images), inference=inference
        )
        return {**result, "encoder_input": {"vision": {"images": images[:num_images]}}}

    def described(self, part: Mapping[str, Any]) -> Mapping[str, Any]:
        """The part with how its image will be tiled: ``aspect_ratio`` and ``patch_tokens_per_tile``."""
        height, width = self.transform_image.canvas(part.get("content"))
        tile_size = self.transform_image.tile_size
        return self._with_sizes(part, [height // tile_size, width // tile_size])

    def _with_sizes(self, part: Mapping[str, Any], aspect_ratio: list[int]) -> Mapping[str, Any]:
        return {**part, "aspect_ratio": aspect_ratio, "patch_tokens_per_tile": self.patch_tokens_per_tile}


def _tokens_per_tile(num_patches: int, scaling_factor: float) -> int:
    exact = num_patches * scaling_factor**2
    if exact < 1 or abs(exact - round(exact)) > 1e-6:
        raise ConfigError(
            f"pixel_shuffle_scaling_factor is {scaling_factor!r}, which makes {exact:g} tokens of the {num_patches} "
            "patches of a tile. It must make a whole number of them."
        )
    return round(exact)


def llama4_transform(
    path: str,
    max_seq_len: int = 8192,
    image_size: int = 336,
    max_num_tiles: int = 16,
    special_tokens_path: str | None = None,
    prompt_template: PromptTemplateLike = None,
    *,
    mask_policy: MaskPolicy = "message",
    media_overflow: MediaOverflow = "error",
) -> Llama4Transform:
    """The transform of Llama 4 Scout and Maverick: patches of 14 pixels, 144 tokens a tile of 336 pixels.

    Channels have the mean and deviation 0.5 (https://github.com/meta-llama/llama-models, models/llama4/preprocess.py).

    Args:
        path: the published ``tokenizer.model`` or a ``tokenizer.json``.
        max_seq_len: the most tokens a sample may have.
        image_size: side of a tile in pixels.
        max_num_tiles: the most tiles an image is cut into.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        mask_policy: which tokens of a trained message are trained.
        media_overflow: what happens where ``max_seq_len`` cuts an image off: "error" or "drop".
    """
    return Llama4Transform(
        path,
        tile_size=image_size,
        patch_size=14,
        max_num_tiles=max_num_tiles,
        special_tokens_path=special_tokens_path,
        max_seq_len=max_seq_len,
        image_mean=(0.5, 0.5, 0.5),
        image_std=(0.5, 0.5, 0.5),
        prompt_template=prompt_template,
        mask_policy=mask_policy,
        media_overflow=media_overflow,
    )
