"""Phi-4: the tokenizer."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from torchpipe._not_yet import refusing
from torchpipe.data.messages import Message
from torchpipe.data.train_on import TrainOnLike
from torchpipe.tokenizers import (
    ChatFormatTokenizer,
    MaskPolicy,
    PromptTemplateLike,
    open_backend,
    read_special_tokens,
)
from torchpipe.tokenizers.families import PHI4


class Phi4Tokenizer(ChatFormatTokenizer):
    """The tokenizer of Phi-4: turns ``<|im_start|>role<|im_sep|>text<|im_end|>``.

    Args:
        merges_path: ``merges.txt``, where ``vocab_path`` is a ``vocab.json``.
        vocab_path: ``vocab.json``, which needs ``merges_path``; a ``tokenizer.json``; or tiktoken ranks.
        special_tokens: ids of the control tokens by text; None takes those of the file, or numbers them from the end of
            the ordinary vocabulary as the published file does.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: a file is missing.
        TokenizerError: a file is not of this family.
        ConfigError: no path is given.
    """

    def __init__(
        self,
        merges_path: str | None = None,
        vocab_path: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
        max_seq_len: int | None = None,
        prompt_template: PromptTemplateLike = None,
        truncation_type: Literal["left", "right"] = "right",
        *,
        mask_policy: MaskPolicy = "message",
        train_on: TrainOnLike = None,
    ) -> None:
        super().__init__(
            open_backend(vocab_path, PHI4, merges_path=merges_path),
            PHI4,
            special_tokens=special_tokens,
            max_seq_len=max_seq_len,
            prompt_template=prompt_template,
            truncation_type=truncation_type,
            mask_policy=mask_policy,
            train_on=train_on,
        )

    def tokenize_messages(  # pyright: ignore[reportIncompatibleMethodOverride]  # one signature, not overloads
        self,
        messages: Sequence[Message],
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = True,
        add_eos: bool | None = None,
        ignore_system_prompt: bool = False,
        trace: bool = False,
    ) -> Any:
        """Ids and mask of a conversation, cut to ``max_seq_len``.

        Args:
            messages: the conversation.
            add_start_tokens: changes nothing: the format writes no start token.
            add_end_tokens: False leaves the last message open, for a model to go on from.
            add_eos: another name for ``add_end_tokens``.
            ignore_system_prompt: leave system messages out.
            trace: True adds where each token comes from.

        Returns:
            tokens and mask, of equal length; True in the mask = not trained. With ``trace``, the trace third.
        """
        if ignore_system_prompt:
            messages = [message for message in messages if message.role != "system"]
        if trace:
            return super().tokenize_messages(messages, add_end_tokens=add_end_tokens, add_eos=add_eos, trace=True)
        return super().tokenize_messages(messages, add_end_tokens=add_end_tokens, add_eos=add_eos)

    def decode(  # pyright: ignore[reportIncompatibleMethodOverride]  # torchtune's signature
        self, ids: Sequence[int], skip_special_tokens: bool = True
    ) -> str:
        """Text of all ids, without control tokens unless they are asked for."""
        return super().decode(ids, truncate_at_eos=False, skip_special_tokens=skip_special_tokens)


def phi4_tokenizer(
    vocab_path: str | None = None,
    merges_path: str | None = None,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    truncation_type: Literal["left", "right"] = "right",
    *,
    mask_policy: MaskPolicy = "message",
    train_on: TrainOnLike = None,
) -> Phi4Tokenizer:
    """The tokenizer of Phi-4; see :class:`Phi4Tokenizer`.

    Args:
        vocab_path: ``vocab.json``, which needs ``merges_path``; a ``tokenizer.json``; or tiktoken ranks.
        merges_path: ``merges.txt``, where ``vocab_path`` is a ``vocab.json``.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        truncation_type: the side that is cut.
        mask_policy: ``"message"`` or ``"sampled"``.
        train_on: which parts of a trained message count; None: all.
    """
    special_tokens = read_special_tokens(special_tokens_path)
    return Phi4Tokenizer(
        merges_path,
        vocab_path,
        special_tokens,
        max_seq_len,
        prompt_template,
        truncation_type,
        mask_policy=mask_policy,
        train_on=train_on,
    )


__getattr__ = refusing(__name__)
