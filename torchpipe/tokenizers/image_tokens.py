"""What an image part of a message is written as: one function a family, named in the family's row."""

from collections.abc import Mapping
from typing import Any

from torchpipe.tokenizers.chat_format import Control, Piece


def llama3_image(part: Mapping[str, Any]) -> tuple[Piece, ...]:
    """One token; the picture itself is seen through cross-attention (Llama 3.2 model card, vision models)."""
    return (Control("<|image|>"),)


def llama4_image(part: Mapping[str, Any]) -> tuple[Piece, ...]:
    """The patches of all tiles row by row, then those of the picture as a whole; one tile stands for both.

    With 2 patches a tile, an image of 1 x 2 tiles is::

        <|image_start|>
        <|patch|><|patch|><|tile_x_separator|><|patch|><|patch|><|tile_y_separator|>
        <|image|><|patch|><|patch|><|image_end|>

    Source: https://github.com/meta-llama/llama-models, models/llama4/chat_format.py.

    Args:
        part: ``aspect_ratio``, rows and columns of tiles, and ``patch_tokens_per_tile``; 1 where a transform has not
            added them.
    """
    rows, columns = (int(side) for side in part.get("aspect_ratio", (1, 1)))
    patches = (Control("<|patch|>"),) * int(part.get("patch_tokens_per_tile", 1))
    row = ((*patches, Control("<|tile_x_separator|>")) * columns)[:-1]
    grid = (*row, Control("<|tile_y_separator|>")) * rows if rows * columns > 1 else ()
    return (Control("<|image_start|>"), *grid, Control("<|image|>"), *patches, Control("<|image_end|>"))
