"""Qwen2.5: the tokenizer."""

from typing import ClassVar, Unpack

from torchpipe._not_yet import refusing
from torchpipe.models.qwen2 import Qwen2Tokenizer, QwenOptions
from torchpipe.tokenizers import ChatFormat, PromptTemplateLike, control_id, read_special_tokens
from torchpipe.tokenizers.families import QWEN2_5


class Qwen2_5Tokenizer(Qwen2Tokenizer):  # noqa: N801  # torchtune's name
    """The tokenizer of Qwen2.5: that of Qwen2, with the marks of tool calls and their results.

    Arguments and errors are those of :class:`~torchpipe.models.qwen2.Qwen2Tokenizer`.
    """

    chat_format_row: ClassVar[ChatFormat] = QWEN2_5

    tool_call_start_id = control_id("<tool_call>")
    tool_call_end_id = control_id("</tool_call>")


def qwen2_5_tokenizer(
    path: str,
    merges_file: str | None = None,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    **kwargs: Unpack[QwenOptions],
) -> Qwen2_5Tokenizer:
    """The tokenizer of Qwen2.5; arguments as of :func:`torchpipe.models.qwen2.qwen2_tokenizer`."""
    special_tokens = read_special_tokens(special_tokens_path)
    return Qwen2_5Tokenizer(path, merges_file, special_tokens, max_seq_len, prompt_template=prompt_template, **kwargs)


__getattr__ = refusing(__name__)
