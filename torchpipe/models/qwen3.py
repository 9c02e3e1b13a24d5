"""Qwen3: the tokenizer."""

from typing import ClassVar, Unpack

from torchpipe.models.qwen2 import QwenOptions
from torchpipe.models.qwen2_5 import Qwen2_5Tokenizer
from torchpipe.tokenizers import ChatFormat, PromptTemplateLike, read_special_tokens
from torchpipe.tokenizers.families import QWEN3


class Qwen3Tokenizer(Qwen2_5Tokenizer):
    """The tokenizer of Qwen3: that of Qwen2.5, with the marks of reasoning.

    ``<think>`` and ``</think>`` in an assistant's text become their control tokens; in other roles they stay text. No
    reasoning block is added or taken away, which the publisher's template does (see ``docs/chat_formats.md``).

    Arguments and errors are those of :class:`~torchpipe.models.qwen2.Qwen2Tokenizer`.
    """

    chat_format_row: ClassVar[ChatFormat] = QWEN3


def qwen3_tokenizer(
    path: str,
    merges_file: str | None = None,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    **kwargs: Unpack[QwenOptions],
) -> Qwen3Tokenizer:
    """The tokenizer of Qwen3; arguments as of :func:`torchpipe.models.qwen2.qwen2_tokenizer`."""
    special_tokens = read_special_tokens(special_tokens_path)
    return Qwen3Tokenizer(path, merges_file, special_tokens, max_seq_len, prompt_template=prompt_template, **kwargs)
