"""Conversations as plain text, for families that write little more than BOS and EOS around a turn."""

from collections.abc import Sequence
from typing import Any, Literal, Protocol

from torchpipe.data.messages import Message
from torchpipe.data.sequences import truncate
from torchpipe.errors import DataError


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
    tokens: list[int] = []
    mask: list[bool] = []
    limit = tokenizer.max_seq_len
    starts_turn, after_space, masked = True, False, True
    for index, message in enumerate(messages):
        ids = [bos_id] if starts_turn and bos_id is not None else []
        text = ""
        for part in message.content:
            if part["type"] != "text":
                raise DataError(
                    f"Message {index} ({message.role}) holds a part of type {part['type']!r}, and this tokenizer "
                    "writes text alone. Drop the row with filter_fn, or use a multimodal transform."
                )
            text = part["content"]
            ids += tokenizer.encode(
                text.rstrip(" "),
                add_bos=False,
                add_eos=False,
                trim_leading_whitespace=not starts_turn and not after_space,
            )
        after_space = text.endswith(" ")
        starts_turn = message.role == "assistant"
        if starts_turn and eos_id is not None:
            ids.append(eos_id)
        masked = message.masked
        tokens += ids
        mask += [masked] * len(ids)
        if limit is not None and len(tokens) > limit and truncation_type == "right":
            break  # what follows would be cut
    if limit is not None and len(tokens) > limit:
        tokens = truncate(tokens, limit, eos_id, truncation_type)
        mask = truncate(mask, limit, None if eos_id is None else masked, truncation_type)
    return tokens, mask
