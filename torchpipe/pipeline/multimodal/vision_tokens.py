"""The tokens that stand for pictures in a text, by the names that tokenizers have for them."""

from collections.abc import Mapping
from typing import Any

VISION_TOKENS: dict[str, str] = {
    "image_id": "<|image_pad|>",
    "video_id": "<|video_pad|>",
    "vision_start_id": "<|vision_start|>",
    "vision_end_id": "<|vision_end|>",
}
"""The attribute of a tokenizer that has such an id, and the control token that Qwen's models write."""


def vision_ids(tokenizer: Any) -> dict[str, int]:
    """The ids of these tokens that a tokenizer has: its attributes, else those of its control tokens of Qwen's texts.

    >>> class Tokenizer:
    ...     image_id = 9
    ...     special_tokens = {"<|video_pad|>": 10}
    >>> vision_ids(Tokenizer())
    {'image_id': 9, 'video_id': 10}
    """
    listed = getattr(tokenizer, "special_tokens", None)
    controls = listed if isinstance(listed, Mapping) else {}
    found = {name: getattr(tokenizer, name, None) for name in VISION_TOKENS}
    found = {name: controls.get(VISION_TOKENS[name]) if value is None else value for name, value in found.items()}
    return {name: int(value) for name, value in found.items() if isinstance(value, int)}
