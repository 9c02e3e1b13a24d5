"""Samples into batches."""

from torchpipe.data.collate.fixed_widths import FixedWidths
from torchpipe.data.collate.images import padded_collate_tiled_images_and_mask
from torchpipe.data.collate.kto import padded_collate_kto
from torchpipe.data.collate.packed import padded_collate_packed
from torchpipe.data.collate.packed_pairs import padded_collate_packed_pairs
from torchpipe.data.collate.preference import padded_collate_dpo
from torchpipe.data.collate.prompts import padded_collate_prompts
from torchpipe.data.collate.text import padded_collate, padded_collate_sft

__all__ = [
    "FixedWidths",
    "padded_collate",
    "padded_collate_dpo",
    "padded_collate_kto",
    "padded_collate_packed",
    "padded_collate_packed_pairs",
    "padded_collate_prompts",
    "padded_collate_sft",
    "padded_collate_tiled_images_and_mask",
]
