"""Tokenizers that know messages and no rows."""

from collections.abc import Mapping
from typing import Any

from torchpipe.errors import ConfigError


class MessagesTokenizer:
    """A row's ``messages`` to ``tokens`` and ``mask``, by a tokenizer's ``tokenize_messages`` alone.

    Args:
        tokenizer: has ``tokenize_messages(messages)``, which gives tokens and mask.

    Attributes:
        max_seq_len: the tokenizer's.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer

    @property
    def max_seq_len(self) -> int | None:
        """The tokenizer's, where it has one."""
        return getattr(self.tokenizer, "max_seq_len", None)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The row's tokens and mask."""
        tokens, mask = self.tokenizer.tokenize_messages(sample["messages"])
        return {"tokens": tokens, "mask": mask}


def as_model_transform(tokenizer: Any) -> Any:
    """The tokenizer itself, if it takes rows, or one around it that does.

    Raises:
        ConfigError: it takes neither rows nor messages.
    """
    if callable(tokenizer):
        return tokenizer
    if callable(getattr(tokenizer, "tokenize_messages", None)):
        return MessagesTokenizer(tokenizer)
    raise ConfigError(
        f"The tokenizer is a {type(tokenizer).__name__}. It has to be callable with a row, or have tokenize_messages."
    )
