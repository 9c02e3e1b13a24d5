"""What a run of tokens of a conversation is."""

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a run of tokens is."""

    DOCUMENT_START = "document_start"
    HEADER = "header"
    PREFILL = "prefill"
    TOOLS = "tools"
    CHANNEL = "channel"
    CALL_PREFIX = "call_prefix"
    REASONING = "reasoning"
    CONTENT = "content"
    TOOL_CALL = "tool_call"
    MEDIA = "media"
    CALL_SUFFIX = "call_suffix"
    TURN_END = "turn_end"
    SEPARATOR = "separator"
    DOCUMENT_END = "document_end"


# A tuple: an enum's members hash slowly, and are compared by identity first.
SAMPLED_KINDS = (
    Kind.CONTENT,
    Kind.TURN_END,
    Kind.CHANNEL,
    Kind.CALL_PREFIX,
    Kind.CALL_SUFFIX,
    Kind.REASONING,
    Kind.TOOL_CALL,
)
"""The kinds that a model samples in its own turns."""


class Segment(NamedTuple):
    """A run of tokens of one kind; ``message`` is the index of the message it belongs to, -1 for the document's own."""

    kind: Kind
    message: int
    token_ids: list[int]
