"""Qwen2: the tokenizer. Qwen2.5 and Qwen3 build on it."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, TypedDict, Unpack

from torchpipe._not_yet import refusing
from torchpipe.data.train_on import TrainOnLike
from torchpipe.errors import ConfigError
from torchpipe.tokenizers import (
    ChatFormat,
    ChatFormatTokenizer,
    Control,
    MaskPolicy,
    PromptTemplateLike,
    control_id,
    open_backend,
    read_special_tokens,
)
from torchpipe.tokenizers.families import QWEN2

DEFAULT_QWEN2_TOKENIZER_BPE_CACHE_SIZE = 152_064
"""torchtune's default. The encoder here is compiled and keeps its own cache."""


class QwenOptions(TypedDict, total=False):
    """What the builders pass on to the class; see :class:`Qwen2Tokenizer`."""

    errors: str
    unk_token: str | None
    bos_token: str | None
    eos_token: str
    pad_token: str
    bpe_cache_size: int
    truncation_type: Literal["left", "right"]
    mask_policy: MaskPolicy
    train_on: TrainOnLike


class Qwen2Tokenizer(ChatFormatTokenizer):
    """The tokenizer of Qwen2: turns between ``<|im_start|>role`` and ``<|im_end|>``.

    Args:
        path: ``vocab.json``, which needs ``merges_file``; a ``tokenizer.json``; or tiktoken ranks.
        merges_file: ``merges.txt``, where ``path`` is a ``vocab.json``.
        special_tokens: ids of the control tokens by text; None takes those of ``path``, or numbers them from the end of
            the ordinary vocabulary as the published files do.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.
        errors: how bytes that are not UTF-8 are decoded; only ``"replace"`` is possible.
        unk_token, bpe_cache_size: torchtune's settings, which change nothing: every byte has a token.
        bos_token: the control token that ``encode`` puts first; None: no token.
        eos_token: the control token that ends a conversation.
        pad_token: the control token that fills a batch.

    Raises:
        SourceError: a file is missing.
        TokenizerError: a file is not of this family.
        ConfigError: a setting is not possible.
    """

    chat_format_row: ClassVar[ChatFormat] = QWEN2

    im_start_id = control_id("<|im_start|>")
    im_end_id = control_id("<|im_end|>")
    unk_id: None = None
    """torchtune's name; there is no unknown token, for every byte has one."""

    def __init__(
        self,
        path: str,
        merges_file: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        max_seq_len: int | None = None,
        *,
        prompt_template: PromptTemplateLike = None,
        errors: str = "replace",
        unk_token: str | None = None,
        bos_token: str | None = None,
        eos_token: str = "<|im_end|>",
        pad_token: str = "<|endoftext|>",
        bpe_cache_size: int = DEFAULT_QWEN2_TOKENIZER_BPE_CACHE_SIZE,
        truncation_type: Literal["left", "right"] = "right",
        mask_policy: MaskPolicy = "message",
        train_on: TrainOnLike = None,
    ) -> None:
        if errors != "replace":
            raise ConfigError(f"errors is {errors!r}. Only 'replace' is possible: such bytes decode to U+FFFD.")
        if unk_token is not None or bpe_cache_size != DEFAULT_QWEN2_TOKENIZER_BPE_CACHE_SIZE:
            warnings.warn("unk_token and bpe_cache_size change nothing here; leave them out.", stacklevel=2)
        row = self.chat_format_row
        super().__init__(
            open_backend(path, row, merges_path=merges_file),
            _with_tokens(row, bos_token, eos_token, pad_token),
            special_tokens=special_tokens,
            max_seq_len=max_seq_len,
            prompt_template=prompt_template,
            truncation_type=truncation_type,
            mask_policy=mask_policy,
            train_on=train_on,
        )

    def decode(  # pyright: ignore[reportIncompatibleMethodOverride]  # torchtune's signature
        self, token_ids: Sequence[int], skip_special_tokens: bool = False
    ) -> str:
        """Text of all ids, control tokens as their text unless they are to be skipped."""
        return super().decode(token_ids, truncate_at_eos=False, skip_special_tokens=skip_special_tokens)


def _with_tokens(row: ChatFormat, bos_token: str | None, eos_token: str, pad_token: str) -> ChatFormat:
    """The row with other tokens for the start and end of a text, and for padding."""
    eos, pad = Control(eos_token), Control(pad_token)
    changed = replace(row, bos=None if bos_token is None else Control(bos_token), eos=eos, pad=pad, stop=(eos, pad))
    return changed if eos in row.turn_end else replace(changed, last_turn_end=(eos,))


def qwen2_tokenizer(
    path: str,
    merges_file: str | None = None,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    **kwargs: Unpack[QwenOptions],
) -> Qwen2Tokenizer:
    """The tokenizer of Qwen2; see :class:`Qwen2Tokenizer`.

    Args:
        path: ``vocab.json``, which needs ``merges_file``; a ``tokenizer.json``; or tiktoken ranks.
        merges_file: ``merges.txt``, where ``path`` is a ``vocab.json``.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        kwargs: more arguments of the class.
    """
    special_tokens = read_special_tokens(special_tokens_path)
    return Qwen2Tokenizer(path, merges_file, special_tokens, max_seq_len, prompt_template=prompt_template, **kwargs)


__getattr__ = refusing(__name__)
