"""Samples of text and tiled pictures, with the masks between them, into one padded batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from torchpipe._suggest import listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.collate.text import check_batch, column, padded_collate_sft
from torchpipe.data.padding import Direction, as_direction, pad_blocks, pad_rows
from torchpipe.errors import ColumnError, ConfigError, DataError

_KEYS = ("images", "aspect_ratio")


@dataclass(frozen=True, kw_only=True, eq=False)
class _Picture:
    """One picture of the batch, and which text tokens look at it.

    tiles [t, c, h, w]; mask [n, t * tokens a tile], True = the text token attends; ratio [2], or None where the model
    has none. place: (sample, number in the sample).
    """

    place: tuple[int, int]
    tiles: torch.Tensor
    mask: torch.Tensor
    ratio: torch.Tensor | None

    @property
    def tokens_per_tile(self) -> int:
        return self.mask.shape[1] // self.tiles.shape[0]

    @property
    def where(self) -> str:
        return f"Picture {self.place[1]} of sample {self.place[0]} of the batch"


def padded_collate_tiled_images_and_mask(
    batch: Sequence[Mapping[str, Any]],
    padding_idx: int = 0,
    ignore_idx: int = IGNORE_INDEX,
    pad_direction: Literal["left", "right"] | str = "right",
    pad_max_tiles: int | None = None,
    pad_max_images: int | None = None,
    pad_to_multiple_of: int = 1,
    cp_degree: int = 1,
) -> dict[str, Any]:
    """The batch of b samples with at most i pictures of at most t tiles. The samples may have any number of them.

    ===================================  ==================================================  ============
    key                                  value                                               filled with
    ===================================  ==================================================  ============
    ``tokens``                           int64 [b, w]                                        padding_idx
    ``labels`` (padding on the right)    int64 [b, w]                                        ignore_idx
    ``encoder_input["images"]``          [b, i, t, c, h, w], of the pictures' dtype          0
    ``encoder_input["aspect_ratio"]``    int64 [b, i, 2]                                     1
    ``encoder_mask``                     [b, w, i * t * tokens a tile], of the masks' dtype  0 (False)
    ===================================  ==================================================  ============

    The last axis of ``encoder_mask`` is that of the pictures' tokens: picture by picture, in it tile by tile. Where
    samples hold their pictures under ``encoder_input["vision"]``, the batch does too. A batch without any picture has
    no encoder keys. ``loss_weights`` are there beside labels where samples have them, float32 [b, w]. Other keys of a
    sample are left out, and the samples are not changed.

    Args:
        batch: samples with ``tokens``, ``labels``, and where they have pictures ``encoder_input``: ``{"images": list of
            [t, c, h, w], "aspect_ratio": list of [2]}``, and ``encoder_mask``: list of [len(tokens), t * tokens a
            tile].
        padding_idx: what fills ``tokens``.
        ignore_idx: what fills ``labels``.
        pad_direction: the side on which text is filled. "left" is for generating, and gives no labels.
        pad_max_tiles: make t this; None: the most tiles of a picture in the batch.
        pad_max_images: make i this; None: the most pictures of a sample in the batch.
        pad_to_multiple_of: round w up to a multiple of this; only when padding on the right.
        cp_degree: above 1, the batch also has ``input_pos`` (see :func:`~torchpipe.data.padded_collate_sft`).

    Raises:
        ConfigError: an argument is not one of these, or they don't go together.
        ColumnError: a sample has no ``tokens`` or no ``labels``, or pictures without ``encoder_mask``.
        DataError: the batch is empty; a sample has more pictures than masks or ratios, or fewer; shapes don't fit;
            there are more tiles or pictures than ``pad_max_tiles`` or ``pad_max_images``.

    >>> picture = {"images": [torch.ones(2, 3, 4, 4)], "aspect_ratio": [torch.tensor([1, 2])]}
    >>> batch = padded_collate_tiled_images_and_mask([
    ...     {"tokens": [1, 2], "labels": [2, -100], "encoder_input": picture, "encoder_mask": [torch.ones(2, 10)]},
    ...     {"tokens": [1, 2, 3], "labels": [2, 3, -100]},
    ... ])
    >>> list(batch["encoder_input"]["images"].shape), list(batch["encoder_mask"].shape)
    ([2, 1, 2, 3, 4, 4], [2, 3, 10])
    """
    direction = as_direction(pad_direction, pad_to_multiple_of)
    if direction == "left" and cp_degree > 1:
        raise ConfigError(f"cp_degree={cp_degree} is for training, so it does not go with pad_direction='left'.")
    check_batch(batch)
    if direction == "right":
        text = [
            {"tokens": tokens, "labels": labels, "loss_weights": sample.get("loss_weights")}
            for sample, tokens, labels in zip(batch, column(batch, "tokens"), column(batch, "labels"), strict=True)
        ]
        out: dict[str, Any] = padded_collate_sft(text, padding_idx, ignore_idx, pad_to_multiple_of, cp_degree=cp_degree)
    else:
        rows = column(batch, "tokens")
        out = {"tokens": pad_rows(rows, value=padding_idx, direction=direction, dtype=torch.int64)}
    pictures, nested = _pictures(batch)
    if not pictures:
        return out
    _check_alike(pictures)
    num_tiles = _at_most(pictures, pad_max_tiles, "pad_max_tiles", [len(picture.tiles) for picture in pictures])
    num_images = _at_most(pictures, pad_max_images, "pad_max_images", [picture.place[1] + 1 for picture in pictures])
    size = (len(batch), num_images)
    media = {
        "images": pad_blocks(
            (((*picture.place, slice(len(picture.tiles))), picture.tiles) for picture in pictures),
            shape=(*size, num_tiles, *pictures[0].tiles.shape[1:]),
            like=pictures[0].tiles,
        )
    }
    ratios = [(picture.place, picture.ratio) for picture in pictures if picture.ratio is not None]
    if ratios:
        media["aspect_ratio"] = pad_blocks(ratios, shape=(*size, 2), like=ratios[0][1], value=1)
    out["encoder_input"] = {"vision": media} if nested else media
    out["encoder_mask"] = _masks(pictures, len(batch), out["tokens"].shape[1], num_images, num_tiles, direction)
    return out


def _masks(
    pictures: list[_Picture], num_rows: int, width: int, num_images: int, num_tiles: int, direction: Direction
) -> torch.Tensor:
    # The picture's axis stands after the text's, so that flattening the last two keeps each text token's row together.
    length = num_tiles * pictures[0].tokens_per_tile
    blocks = []
    for picture in pictures:
        row, number = picture.place
        start = 0 if direction == "right" else width - len(picture.mask)
        text = slice(start, start + len(picture.mask))
        blocks.append(((row, text, number, slice(picture.mask.shape[1])), picture.mask))
    out = pad_blocks(blocks, shape=(num_rows, width, num_images, length), like=pictures[0].mask)
    return out.flatten(2)


def _pictures(batch: Sequence[Mapping[str, Any]]) -> tuple[list[_Picture], bool]:
    """The batch's pictures in order, and whether they lie under "vision"."""
    pictures: list[_Picture] = []
    layouts: dict[bool, int] = {}
    for index, sample in enumerate(batch):
        held = sample.get("encoder_input") or {}
        nested = "vision" in held
        media = (held["vision"] or {}) if nested else held
        lost = [key for key in held if nested and key != "vision"] + [key for key in media if key not in _KEYS]
        if lost:
            raise DataError(
                f"Sample {index} of the batch has {listed(lost)} in 'encoder_input', which would be lost: it may have "
                f"{listed(_KEYS)}, or these under 'vision'."
            )
        images = _listed(media.get("images"))
        if not images:
            if spare := len(_listed(sample.get("encoder_mask"))):
                raise DataError(
                    f"Sample {index} of the batch has no images and {spare} in encoder_mask. There has to be one of "
                    "each for every picture."
                )
            continue
        layouts.setdefault(nested, index)
        if sample.get("encoder_mask") is None:
            raise ColumnError(
                f"Sample {index} of the batch has pictures and no 'encoder_mask', which a VisionCrossAttentionMask "
                "makes. For a model without cross-attention, use padded_collate_sft."
            )
        masks, ratios = _listed(sample["encoder_mask"]), media.get("aspect_ratio")
        ratios = [None] * len(images) if ratios is None else _listed(ratios)
        if not len(images) == len(masks) == len(ratios):
            raise DataError(
                f"Sample {index} of the batch has {len(images)} images, {len(masks)} in encoder_mask and {len(ratios)} "
                "aspect ratios. There has to be one of each for every picture."
            )
        for number, (tiles, mask, ratio) in enumerate(zip(images, masks, ratios, strict=True)):
            picture = _Picture(
                place=(index, number),
                tiles=_as_tensor(tiles, "image", index),
                mask=_as_tensor(mask, "mask", index),
                ratio=None if ratio is None else _as_tensor(ratio, "aspect ratio", index),
            )
            _check(picture, len(sample["tokens"]))
            pictures.append(picture)
    if len(layouts) > 1:
        raise DataError(
            f"Sample {layouts[True]} of the batch has its pictures under 'vision' in 'encoder_input', and sample "
            f"{layouts[False]} has not. All samples of a batch come from one transform."
        )
    return pictures, True in layouts


def _listed(values: Any) -> list[Any]:
    return [] if values is None else list(values)


def _as_tensor(values: Any, what: str, index: int) -> torch.Tensor:
    try:
        return torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(
            f"The {what} of sample {index} of the batch can't become a tensor: {error}. A multimodal transform makes "
            "tensors of images."
        ) from error


def _check(picture: _Picture, num_tokens: int) -> None:
    tiles, mask, ratio = picture.tiles, picture.mask, picture.ratio
    if tiles.ndim != 4 or len(tiles) == 0:
        raise DataError(f"{picture.where} has the shape {list(tiles.shape)}; it must be [tiles, c, h, w].")
    if mask.ndim != 2 or len(mask) != num_tokens or mask.shape[1] % len(tiles):
        raise DataError(
            f"{picture.where} has {len(tiles)} tiles, and a mask of the shape {list(mask.shape)} for {num_tokens} text "
            "tokens. The mask must be [text tokens, tiles * tokens a tile]."
        )
    if ratio is not None and ratio.shape != (2,):
        raise DataError(f"{picture.where} has an aspect ratio of the shape {list(ratio.shape)}; it must be [2].")


def _check_alike(pictures: list[_Picture]) -> None:
    """Refuses pictures that don't fit in one tensor with the first."""
    first = pictures[0]
    for picture in pictures[1:]:
        for what, own, firsts in (
            ("tiles of", list(picture.tiles.shape[1:]), list(first.tiles.shape[1:])),
            ("tiles of", picture.tiles.dtype, first.tiles.dtype),
            ("a mask of", picture.mask.dtype, first.mask.dtype),
            ("tokens a tile:", picture.tokens_per_tile, first.tokens_per_tile),
            ("aspect ratio:", picture.ratio is not None, first.ratio is not None),
        ):
            if own != firsts:
                raise DataError(
                    f"{picture.where} has {what} {own}, and the first picture {firsts}. All pictures of a batch come "
                    "from one transform."
                )


def _at_most(pictures: list[_Picture], limit: int | None, name: str, sizes: list[int]) -> int:
    most = max(sizes)
    if limit is not None and not isinstance(limit, int):
        raise ConfigError(f"{name}={limit!r} must be a whole number, or None for the most in the batch.")
    if limit is not None and limit < most:
        picture, what = pictures[sizes.index(most)], name.removeprefix("pad_max_")
        raise DataError(
            f"{picture.where} needs room for {most} {what}, more than {name}={limit}. Raise it, or leave it at None."
        )
    return most if limit is None else limit
