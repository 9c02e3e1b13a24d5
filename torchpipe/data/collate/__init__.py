"""Samples into batches."""

from torchpipe.data.collate.fixed_widths import FixedWidths
from torchpipe.data.collate.images import padded_collate_tiled_images_and_mask
from torchpipe.data.collate.packed import padded_collate_packed
from torchpipe.data.collate.preference import padded_collate_dpo
from torchpipe.data.collate.text import padded_collate, padded_collate_sft

__all__ = [
    "FixedWidths",
    "padded_collate",
    "padded_collate_dpo",
    "padded_collate_packed",
    "padded_collate_sft",
    "padded_collate_tiled_images_and_mask",
]
