"""Conversations as plain text, for families that write little more than BOS and EOS around a turn."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol

from torchpipe.data.messages import Message
from torchpipe.data.sequences import truncate
from torchpipe.tokenizers.chat_format import ChatFormat, Control
from torchpipe.tokenizers.render import FormatEncoder, render

_BOS, _EOS = Control("BOS"), Control("EOS")
_PLAIN = ChatFormat(
    name="plain",
    document_per_exchange=True,
    whitespace="strip_end_of_parts",
    dummy_prefix="trim_within_exchange",
    eos=_EOS,
    pad=_EOS,
    stop=(_EOS,),
)


class TrimmingTokenizer(Protocol):
    """What :func:`tokenize_messages_no_special_tokens` needs of a tokenizer."""

    @property
    def max_seq_len(self) -> int | None:
        """The most tokens a conversation may have; None: no limit."""
        ...

    def encode(self, text: str, *, add_bos: bool, add_eos: bool, trim_leading_whitespace: bool) -> list[int]:
        """Ids of ``text``, on request without the space that a model puts before a text."""
        ...


def tokenize_messages_no_special_tokens(
    tokenizer: TrimmingTokenizer | Any,
    messages: Sequence[Message],
    *,
    bos_id: int | None = None,
    eos_id: int | None = None,
    truncation_type: Literal["left", "right"] = "right",
) -> tuple[list[int], list[bool]]:
    """Ids and mask of a conversation, message after message: BOS before each turn, EOS after each assistant message.

    A turn runs up to and including an assistant message. Trailing spaces of a text part go; a message that goes on in a
    turn is encoded without the space that a model puts before a text, unless the message before ended with one.

    Args:
        tokenizer: encodes a text, and has ``max_seq_len``.
        messages: the conversation; its text alone is written, so roles and markers come from a prompt template.
        bos_id: starts a turn; None: nothing does.
        eos_id: ends an assistant message, and a conversation that had to be cut on the right; None: nothing does.
        truncation_type: the side that is cut.

    Returns:
        tokens and mask, of equal length; True in the mask = not trained. BOS and EOS follow their message's flag.

    Raises:
        DataError: a message holds something other than text.
    """
    if not messages:
        return [], []

    def encode(text: str, *, trim_leading_whitespace: bool = False) -> list[int]:
        return tokenizer.encode(text, add_bos=False, add_eos=False, trim_leading_whitespace=trim_leading_whitespace)

    given = {control: token_id for control, token_id in ((_BOS, bos_id), (_EOS, eos_id)) if token_id is not None}
    chat_format = replace(
        _PLAIN,
        document_start=(_BOS,) if _BOS in given else (),
        document_end=(_EOS,) if _EOS in given else (),
    )
    encoder = FormatEncoder(chat_format, encode, {control.text: token_id for control, token_id in given.items()})
    tokens: list[int] = []
    mask: list[bool] = []
    index = -1
    for segment in render(messages, encoder):
        index = segment.message if segment.message >= 0 else index + 1  # BOS belongs to the message after it
        tokens += segment.token_ids
        mask += [messages[index].masked] * len(segment.token_ids)
    limit = tokenizer.max_seq_len
    if limit is not None and len(tokens) > limit:
        end_masked = mask[limit] if truncation_type == "right" else messages[-1].masked
        tokens = truncate(tokens, limit, eos_id, truncation_type)
        mask = truncate(mask, limit, None if eos_id is None else end_masked, truncation_type)
    return tokens, mask
