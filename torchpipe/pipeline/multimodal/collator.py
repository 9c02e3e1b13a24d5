"""Rows of text and pictures to one batch: a flat run of tokens, and the patches of all pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torchpipe.errors import ConfigError, MediaError
from torchpipe.pipeline.by_grain.packed_rows import MEDIA
from torchpipe.pipeline.collators import PADDING_ID, TextCollator, TrainerBatch, joined_text
from torchpipe.pipeline.multimodal.mrope import Grid, mrope_positions
from torchpipe.pipeline.multimodal.processor import checked_media, fields_of
from torchpipe.pipeline.multimodal.vision_tokens import vision_ids
from torchpipe.pipeline.sequences import TextSequence
from torchpipe.pipeline.types import DatasetBuildContext
from torchpipe.vision.patches import Patches, PatchOrder, check_patch_order, joined_patches, vision_to_patches


class MultiModalCollator(TextCollator):
    """Joins rows of text and pictures. What :class:`~torchpipe.pipeline.TextCollator` says of tokens holds here, but
    for padding, which is the tokenizer's ``pad_id`` where it has one. Beside those a batch has:

    ==========================================  ======================================================================
    key                                         value
    ==========================================  ======================================================================
    ``pixel_values``, ``pixel_values_videos``   patches of all pictures, and of all videos, one after another
                                                [sum of n, patch_dim]; None where the batch has none
    ``grid_thw``, ``grid_thw_videos``           int64 [entries, 3]: frames, lines and columns of patches; or None
    ``special_tokens``                          ids of the tokens that stand for pictures, by name
    ``mrope_positions``                         int64 [T, 3], where ``build_mrope_positions`` is set
    ==========================================  ======================================================================

    Args:
        config: its settings.
        context: what all nodes of the graph share.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(TextCollator.Config):
        """The settings.

        Attributes:
            max_images_per_batch: the most vision entries of a batch: a picture is one, a video one for each
                ``temporal_patch_size`` frames. Packing holds it too, where its ``max_images_per_row`` says so.
            patch_size, temporal_patch_size, spatial_merge_size: how pixels are cut into patches, and how many lines
                and columns of patches become one token.
            build_mrope_positions: whether batches have ``mrope_positions``.
            patch_order: see :data:`~torchpipe.vision.patches.PatchOrder`.

        Raises:
            ConfigError: a value is not possible, or they don't go together.
        """

        max_images_per_batch: int = 128
        patch_size: int = 16
        temporal_patch_size: int = 2
        spatial_merge_size: int = 2
        build_mrope_positions: bool = False
        patch_order: PatchOrder = "block"

        def __post_init__(self) -> None:
            check_patch_order(self.patch_order)
            if self.build_mrope_positions and self.patch_order != "block":
                raise ConfigError(
                    f"MRoPE requires patch_order='block', got {self.patch_order!r}. Set one of the two otherwise: "
                    "tokens are merged blocks, and count in their order."
                )
            for name in ("max_images_per_batch", "patch_size", "temporal_patch_size", "spatial_merge_size"):
                value = getattr(self, name)
                if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                    raise ConfigError(f"{name} is {value!r}. Give a whole number, 1 or more.")

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        super().__init__(config, context=context)
        self.config: MultiModalCollator.Config = config
        self._ids = vision_ids(context.tokenizer)
        pad_id = getattr(context.tokenizer, "pad_id", None)
        self._pad_id = pad_id if isinstance(pad_id, int) and pad_id >= 0 else PADDING_ID

    def __call__(self, rows: Sequence[Any]) -> TrainerBatch:
        """The batch of these rows; no rows give one of padding alone.

        Raises:
            DataError: there are more tokens, documents or vision entries than a batch has; or pictures are not what
                can be collated.
        """
        held = [fields_of(row) for row in rows]
        images, videos = (
            [entry for row in held for entry in checked_media(row.get(name) or (), name)] for name in MEDIA
        )
        self._check_number(images, videos)
        pictures, clips = ([self._patches(entry) for entry in entries] for entries in (images, videos))
        sequences = [_sequence(row) for row in held]
        batch, labels = joined_text(
            sequences,
            context=self.context,
            pin_memory=self.pins_memory,
            padding_id=self._pad_id,
            kind="multimodal",
        )
        for (values, grid), entries in ((("pixel_values", "grid_thw"), pictures), (_VIDEO_KEYS, clips)):
            batch[values], batch[grid] = self._joined(entries) if entries else (None, None)
        batch["special_tokens"] = dict(self._ids)
        if self.config.build_mrope_positions:
            counted = mrope_positions(
                batch["input"].numpy(),
                batch["positions"].numpy(),
                images=[self._merged(picture) for picture in pictures],
                videos=[self._merged(clip) for clip in clips],
                image_id=self._ids.get("image_id"),
                video_id=self._ids.get("video_id"),
            )
            batch["mrope_positions"] = self._pinned(torch.from_numpy(counted))
        return batch, labels

    def padding(self) -> TrainerBatch:
        """The batch of a rank whose rows have ended, filled with the tokenizer's padding as others are."""
        return self([])

    def _check_number(self, images: Sequence[Any], videos: Sequence[Any]) -> None:
        size = self.config.temporal_patch_size
        num = len(images) + sum(
            clip.grid_thw[0] if isinstance(clip, Patches) else -(-len(clip) // size) for clip in videos
        )
        if num > self.config.max_images_per_batch:
            raise MediaError(
                f"multimodal batch has {num} vision entries, exceeding max_images_per_batch="
                f"{self.config.max_images_per_batch}. Raise it, or set max_images_per_row of the packing, which keeps "
                "rows within it."
            )

    def _patches(self, entry: Any) -> Patches:
        if isinstance(entry, Patches):
            return entry
        config = self.config
        return vision_to_patches(
            entry,
            patch_size=config.patch_size,
            temporal_patch_size=config.temporal_patch_size,
            merge_size=config.spatial_merge_size,
            patch_order=config.patch_order,
        )

    def _joined(self, entries: Sequence[Patches]) -> tuple[torch.Tensor, torch.Tensor]:
        values, grids = joined_patches(entries)
        return self._pinned(values), self._pinned(grids)

    def _merged(self, entry: Patches) -> Grid:
        """The grid of an entry's tokens."""
        frames, lines, columns = entry.grid_thw
        size = self.config.spatial_merge_size
        return frames, lines // size, columns // size

    def _pinned(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.pin_memory() if self.pins_memory else tensor


_VIDEO_KEYS = ("pixel_values_videos", "grid_thw_videos")


def _sequence(row: dict[str, Any]) -> TextSequence:
    return TextSequence(
        input_ids=row["input_ids"],
        labels=row["labels"],
        positions=row.get("positions"),
        padding_mask=row.get("padding_mask"),
    )
