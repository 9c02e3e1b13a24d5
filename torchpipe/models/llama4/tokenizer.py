"""Llama 4: the tokenizer."""

from typing import ClassVar, Literal

from torchpipe.data.train_on import TrainOnLike
from torchpipe.tokenizers import (
    ChatFormat,
    FamilyTokenizer,
    MaskPolicy,
    PromptTemplateLike,
    read_special_tokens,
)
from torchpipe.tokenizers.families import LLAMA4


class Llama4Tokenizer(FamilyTokenizer):
    """The tokenizer of Llama 4: turns ``<|header_start|>role<|header_end|>``, the text, ``<|eot|>``.

    Args:
        path: the published ``tokenizer.model`` (tiktoken ranks) or a ``tokenizer.json``.
        special_tokens: ids of the control tokens by text; None takes those of ``path``, or numbers them from the end of
            the ranks as Llama 4 does.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: the file is missing.
        TokenizerError: the file is not of this family.
    """

    chat_format_row: ClassVar[ChatFormat] = LLAMA4


def llama4_tokenizer(
    path: str,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    truncation_type: Literal["left", "right"] = "right",
    *,
    mask_policy: MaskPolicy = "message",
    train_on: TrainOnLike = None,
) -> Llama4Tokenizer:
    """The tokenizer of Llama 4; see :class:`Llama4Tokenizer`.

    Args:
        path: the published ``tokenizer.model`` (tiktoken ranks) or a ``tokenizer.json``.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        truncation_type: the side that is cut.
        mask_policy: ``"message"`` or ``"sampled"``.
        train_on: which parts of a trained message count; None: all.
    """
    special_tokens = read_special_tokens(special_tokens_path)
    return Llama4Tokenizer(
        path, special_tokens, max_seq_len, prompt_template, truncation_type, mask_policy=mask_policy, train_on=train_on
    )
