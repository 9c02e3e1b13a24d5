"""Llama 3.2 Vision: its transform of messages with images (the model itself is not here yet)."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe._not_yet import refusing
from torchpipe.data.messages import Message
from torchpipe.models.clip import CLIP_IMAGE_MEAN, CLIP_IMAGE_STD
from torchpipe.models.image_text import ImageTextTransform, MediaOverflow, messages_of, with_image_parts
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.tokenizers import MaskPolicy, PromptTemplateLike
from torchpipe.vision import CLIPImageTransform, VisionCrossAttentionMask


class Llama3VisionTransform(ImageTextTransform):
    """Messages with images to tokens, tiles, and the mask of cross-attention.

    Args:
        path: the tokenizer file (see :func:`~torchpipe.models.llama3.llama3_tokenizer`).
        tile_size: side of a tile in pixels.
        patch_size: side of a patch in pixels.
        max_num_tiles: the most tiles an image is cut into.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        max_seq_len: the most tokens a sample may have; None: no limit.
        image_mean: mean of each channel; None, with ``image_std``: values stay from 0 to 1.
        image_std: standard deviation of each channel.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        mask_policy: which tokens of a trained message are trained; never those of images.
        media_overflow: what happens where ``max_seq_len`` cuts an image off: "error" or "drop".

    Attributes:
        tokenizer, transform_image, xattn_mask: the three transforms.
        image_seq_len: the most embeddings that an image has in the encoder.

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
        special_tokens_path: str | None = None,
        max_seq_len: int | None = None,
        image_mean: Sequence[float] | None = None,
        image_std: Sequence[float] | None = None,
        prompt_template: PromptTemplateLike = None,
        mask_policy: MaskPolicy = "message",
        media_overflow: MediaOverflow = "error",
    ) -> None:
        super().__init__(
            llama3_tokenizer(path, special_tokens_path, max_seq_len, prompt_template, mask_policy=mask_policy),
            image_start="<|image|>",
            image_end="<|image|>",
            media_overflow=media_overflow,
        )
        self.transform_image = CLIPImageTransform(
            image_mean=image_mean, image_std=image_std, tile_size=tile_size, max_num_tiles=max_num_tiles
        )
        self.xattn_mask = VisionCrossAttentionMask(tile_size, patch_size, self.special_tokens["<|image|>"])
        self.max_num_tiles = max_num_tiles
        self.image_seq_len = max_num_tiles * (self.xattn_mask.patches_per_tile + 1)

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with ``messages`` replaced by what the model is given.

        Returns:
            ``tokens``, ``mask``: lists of equal length; True = not trained. ``encoder_input``: ``images``, a bfloat16
            [tiles, 3, tile_size, tile_size] each, and ``aspect_ratio``, an int64 [2] (rows, columns of tiles) each.
            ``encoder_mask``: a bool [tokens, tiles * (patches of a tile + 1)] each; True = attends. Where tokens were
            cut, ``num_truncated`` and ``num_images_dropped``. Other keys stay.

        Raises:
            ColumnError: there are no ``messages``.
            DataError: an image is not a picture, or can't be decoded.
            MediaError: ``max_seq_len`` cuts an image off, and ``media_overflow`` is "error".
        """
        tiled: list[Mapping[str, Any]] = []

        def tile(part: Mapping[str, Any]) -> Mapping[str, Any]:
            tiled.append(self.transform_image({"image": part.get("content")}, inference))
            return part

        messages = list(with_image_parts(messages_of(sample), tile))
        result, num_images = self.tokenize_whole_images(
            {**sample, "messages": messages, "encoder_input": {}}, len(tiled), inference=inference
        )
        result["encoder_input"] = {
            key: [image[source] for image in tiled[:num_images]]
            for key, source in (("images", "image"), ("aspect_ratio", "aspect_ratio"))
        }
        return self.xattn_mask(result, inference)

    def tokenize_message(  # pyright: ignore[reportIncompatibleMethodOverride]  # torchtune's names
        self, message: Message, tokenize_header: bool = True, tokenize_end: bool = True
    ) -> list[int]:
        """Ids of one message, images included.

        Args:
            message: the message.
            tokenize_header: False leaves its header out.
            tokenize_end: False leaves out the end of its turn.
        """
        return super().tokenize_message(message, tokenize_header, tokenize_end)


def llama3_2_vision_transform(
    path: str,
    max_seq_len: int = 8192,
    image_size: int = 560,
    special_tokens_path: str | None = None,
    prompt_template: PromptTemplateLike = None,
    *,
    mask_policy: MaskPolicy = "message",
    media_overflow: MediaOverflow = "error",
) -> Llama3VisionTransform:
    """The transform of Llama 3.2 11B and 90B Vision: at most 4 tiles, patches of 14 pixels.

    Args:
        path: the published ``tokenizer.model`` or a ``tokenizer.json``.
        max_seq_len: the most tokens a sample may have.
        image_size: side of a tile in pixels: 560 for the instruct models, 448 for the others.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        mask_policy: which tokens of a trained message are trained.
        media_overflow: what happens where ``max_seq_len`` cuts an image off: "error" or "drop".
    """
    return Llama3VisionTransform(
        path,
        tile_size=image_size,
        patch_size=14,
        max_num_tiles=4,
        special_tokens_path=special_tokens_path,
        max_seq_len=max_seq_len,
        image_mean=CLIP_IMAGE_MEAN,
        image_std=CLIP_IMAGE_STD,
        prompt_template=prompt_template,
        mask_policy=mask_policy,
        media_overflow=media_overflow,
    )


__getattr__ = refusing(__name__)
