"""Phi-3 Mini: the tokenizer."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from torchpipe._not_yet import refusing
from torchpipe.data.messages import Message
from torchpipe.data.train_on import TrainOnLike
from torchpipe.tokenizers import (
    ChatFormat,
    FamilyTokenizer,
    MaskPolicy,
    PromptTemplateLike,
    read_special_tokens,
)
from torchpipe.tokenizers.families import PHI3_MINI, PHI3_MINI_DOCUMENTS
from torchpipe.tokenizers.render import FormatEncoder


class Phi3MiniTokenizer(FamilyTokenizer):
    """The tokenizer of Phi-3 Mini: turns between ``<|role|>`` and ``<|end|>``.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        special_tokens: ids of the control tokens by text; None numbers them from the end of the model's pieces, as the
            published file of 32,000 pieces has them.
        max_seq_len, prompt_template, truncation_type, mask_policy, train_on: see
            :class:`~torchpipe.tokenizers.ChatFormatTokenizer`.

    Raises:
        SourceError: the file is missing.
        TokenizerError: the file is not of this form.
    """

    chat_format_row: ClassVar[ChatFormat] = PHI3_MINI

    @cached_property
    def _documents(self) -> FormatEncoder:
        return FormatEncoder(PHI3_MINI_DOCUMENTS, self.backend.encode, self.special_tokens)

    def tokenize_messages(  # pyright: ignore[reportIncompatibleMethodOverride]  # one signature, not overloads
        self,
        messages: Sequence[Message],
        *,
        add_start_tokens: bool = True,
        add_end_tokens: bool = False,
        add_eos: bool | None = None,
        ignore_system_prompt: bool = False,
        trace: bool = False,
    ) -> Any:
        """Ids and mask of a conversation, cut to ``max_seq_len``. The last turn is closed.

        Args:
            messages: the conversation.
            add_start_tokens: False leaves out what starts the document.
            add_end_tokens: True ends each answer's document with ``<|endoftext|>``, and starts a new one after it.
            add_eos: another name for ``add_end_tokens``.
            ignore_system_prompt: leave system messages out.
            trace: True adds where each token comes from.

        Returns:
            tokens and mask, of equal length; True in the mask = not trained. With ``trace``, the trace third.
        """
        if ignore_system_prompt:
            messages = [message for message in messages if message.role != "system"]
        encoder = self._documents if (add_end_tokens if add_eos is None else add_eos) else None
        tokens, mask = self._tokenize(messages, True, add_start_tokens=add_start_tokens, encoder=encoder)
        tokens, mask = self._truncate(tokens, mask, True, encoder=encoder)
        if not trace:
            return tokens, mask
        return tokens, mask, self._trace(messages, add_start_tokens, True, tokens, mask, encoder=encoder)

    def decode(  # pyright: ignore[reportIncompatibleMethodOverride]  # torchtune's signature
        self, ids: Sequence[int], skip_special_tokens: bool = True
    ) -> str:
        """Text of all ids, without control tokens unless they are asked for."""
        return super().decode(ids, truncate_at_eos=False, skip_special_tokens=skip_special_tokens)


def phi3_mini_tokenizer(
    path: str,
    special_tokens_path: str | None = None,
    max_seq_len: int | None = None,
    prompt_template: PromptTemplateLike = None,
    truncation_type: Literal["left", "right"] = "right",
    *,
    mask_policy: MaskPolicy = "message",
    train_on: TrainOnLike = None,
) -> Phi3MiniTokenizer:
    """The tokenizer of Phi-3 Mini; see :class:`Phi3MiniTokenizer`.

    Args:
        path: the published ``tokenizer.model``, a SentencePiece model.
        special_tokens_path: a ``tokenizer.json`` whose added tokens give the control tokens' ids.
        max_seq_len: the most tokens a sample may have; None: no limit.
        prompt_template: a dotted name to call, a table of role to (before, after), or a template.
        truncation_type: the side that is cut.
        mask_policy: ``"message"`` or ``"sampled"``.
        train_on: which parts of a trained message count; None: all.
    """
    special_tokens = read_special_tokens(special_tokens_path)
    return Phi3MiniTokenizer(
        path, special_tokens, max_seq_len, prompt_template, truncation_type, mask_policy=mask_policy, train_on=train_on
    )


__getattr__ = refusing(__name__)
