"""The declarative description of how a model family writes a conversation.

A family is one :class:`ChatFormat` row in :mod:`torchpipe.tokenizers.families`. Every family is rendered by the one
loop in :mod:`torchpipe.tokenizers.render`. What two families do differently is a field here, never a copied loop.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True)
class Control:
    """A control token, by its text. It is written into a sample by id, never by encoding that text."""

    text: str


class Slot(Enum):
    """A place in a format that each message fills."""

    ROLE = "role"


Piece = Control | Slot | str
"""A control token, a slot, or plain text."""


@dataclass(frozen=True, kw_only=True)
class ChatFormat:
    """How one model family writes a conversation.

    The token sequence is ``document_start``, then for each message ``header``, ``call_prefix`` (messages with
    ``ipython=True`` only), the content, and ``turn_end`` (``turn_end_more`` where the message's ``eot`` is False),
    then ``document_end``.

    Attributes:
        name: the family's name.
        pattern: split expression of the family's byte-pair encoder, for rank files, which don't hold it.
        control_tokens: in the order of their ids, which follow the ordinary vocabulary without a gap.
        document_start: before the first message; not trained.
        header: before each message's content.
        call_prefix: before the content of a message that calls a tool.
        turn_end: after a message that gives the floor back.
        turn_end_more: after a message that expects more from the same speaker (a tool call).
        document_end: after the last message; not trained, since sampling stops at the turn's own end.
        role_names: what the header calls a role, where that isn't the role's own name.
        strip_content: whether white space around a message's text is removed, as the family's own template does.
        pad: the control token that fills a batch.
        stop: the control tokens at which sampling stops.
        hint: a sentence that ``torchpipe explain`` shows where no prompt template is set; empty for none.
    """

    name: str
    pattern: str
    control_tokens: tuple[str, ...]
    document_start: tuple[Piece, ...]
    header: tuple[Piece, ...]
    call_prefix: tuple[Piece, ...]
    turn_end: tuple[Piece, ...]
    turn_end_more: tuple[Piece, ...]
    document_end: tuple[Piece, ...]
    role_names: Mapping[str, str] = field(default_factory=dict)
    strip_content: bool
    pad: str
    stop: tuple[str, ...]
    hint: str = ""
