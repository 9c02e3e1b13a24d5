"""The declarative description of how a model family writes a conversation.

A family is one :class:`ChatFormat` row in :mod:`torchpipe.tokenizers.families`. Every family is rendered by the one
loop in :mod:`torchpipe.tokenizers.render`. What two families do differently is a field here, never a copied loop.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torchpipe.data.messages import ROLES
from torchpipe.tokenizers.format_pieces import Control, Piece, Pieces, Slot
from torchpipe.tokenizers.layout import Layout

__all__ = ["ChatFormat", "Control", "DummyPrefix", "Piece", "Slot", "Whitespace"]


Whitespace = Literal["keep", "strip", "strip_end_of_parts"]
"""What becomes of white space in content: all is kept; it is removed around the whole text; spaces are removed at the
end of each text part."""

DummyPrefix = Literal["keep", "trim", "trim_within_exchange"]
"""What becomes of the space that a SentencePiece model puts before a text: it is kept; it is left out; it is left out
of a message that goes on from another of the same exchange, unless that one ended in a space."""


Oracle = Literal["golden", "publisher code", "torchtune", "template text with a stand-in vocabulary", "none"]
"""What a row is compared with, token for token: stored samples that the publisher's own code or template made with the
family's real tokenizer; that code itself; torchtune's ids; the text of the publisher's template, since the family's
tokenizer is not at hand; nothing. A row with one of the last two is not proven."""


@dataclass(frozen=True, kw_only=True)
class ChatFormat:
    """How one model family writes a conversation.

    The token sequence is ``document_start``, then for each message ``header``, ``call_prefix`` (messages with
    ``ipython=True`` only), the content, ``call_suffix``, ``turn_end`` (``turn_end_more`` where the message's ``eot``
    is False) and ``separator``, then ``document_end``.

    Attributes:
        name: the family's name.
        files: the kind of file that the family's vocabulary comes in. Byte-level ones are tiktoken ranks, a
            ``tokenizer.json``, or a ``vocab.json`` with its ``merges.txt``.
        pattern: split expression of a byte-level encoder, for files that don't hold it.
        normalization: the Unicode form that text is brought to before it is encoded, for files that don't say so.
        published_sizes: sizes of the ordinary vocabularies that the family's publishers ship (of a SentencePiece file:
            of all its pieces). A file that has the size of another family's is refused; one of a size that nobody
            ships passes.
        control_tokens: in the order of their ids, which follow the ordinary vocabulary without a gap.
        control_pieces: pieces of a SentencePiece file that no text may be encoded as, though the file allows it.

        document_start: before the first message; not trained.
        header: before each message's content.
        call_prefix, call_suffix: around the content of a message that calls a tool.
        turn_end: after a message that gives the floor back.
        turn_end_more: after a message that expects more from the same speaker (a tool call); None: as ``turn_end``.
        headers, turn_ends: the ``header`` and ``turn_end`` of roles whose own differ.
        separator: after a turn that another one follows.
        separator_after_last: whether ``separator`` also follows the last turn.
        last_turn_end: after the last message, where that differs from ``turn_end``.
        document_end: after the last message. Not trained where a ``turn_end`` comes before it, at which sampling stops.
        document_per_exchange: whether each answer of the assistant ends a document, and a new one starts after it.

        roles: the roles that the format has a place for; others are refused, but for a developer message, which a
            format without that role writes as a system message.
        role_names: what the format calls a role, where that isn't the role's own name.
        result_prefix, result_suffix: around the result of a tool call; where they are given, the results that follow
            each other share one turn, with ``result_separator`` between them.
        reasoning: the control tokens into which their own text turns in the assistant's content, and nowhere else.

        whitespace: see :data:`Whitespace`.
        dummy_prefix: see :data:`DummyPrefix`.
        closes_prompt: whether a last message of someone else than the assistant is closed even for a model to go on.

        bos, eos: what :meth:`~torchpipe.tokenizers.ChatFormatTokenizer.encode` puts around plain text, if anything.
        pad: the control token that fills a batch.
        stop: the control tokens at which sampling stops.
        hint: a sentence that ``torchpipe explain`` shows where no prompt template is set; empty for none.

        layout: where tools, calls, results, reasoning and the system's text go, in formats that have places for them;
            None: the content of each message is written, one after another.
        oracle: what the row is compared with; see ``docs/chat_formats.md``.

        image: what an image part of a message is written as, never trained; None where the family has no images. It
            is given the part, with all that a transform has added to it.
    """

    name: str
    files: Literal["byte_level", "sentencepiece"] = "byte_level"
    pattern: str = ""
    normalization: Literal["NFC"] | None = None
    published_sizes: tuple[int, ...] = ()
    control_tokens: tuple[str, ...] = ()
    control_pieces: tuple[str, ...] = ()

    document_start: tuple[Piece, ...] = ()
    header: tuple[Piece, ...] = ()
    call_prefix: tuple[Piece, ...] = ()
    call_suffix: tuple[Piece, ...] = ()
    turn_end: tuple[Piece, ...] = ()
    turn_end_more: tuple[Piece, ...] | None = None
    headers: Mapping[str, Pieces] = field(default_factory=dict)
    turn_ends: Mapping[str, Pieces] = field(default_factory=dict)
    separator: tuple[Piece, ...] = ()
    separator_after_last: bool = False
    last_turn_end: tuple[Piece, ...] | None = None
    document_end: tuple[Piece, ...] = ()
    document_per_exchange: bool = False

    roles: tuple[str, ...] = tuple(role for role in ROLES if role != "developer")
    role_names: Mapping[str, str] = field(default_factory=dict)
    result_prefix: tuple[Piece, ...] = ()
    result_suffix: tuple[Piece, ...] = ()
    result_separator: tuple[Piece, ...] = ()
    reasoning: tuple[Control, ...] = ()

    whitespace: Whitespace = "keep"
    dummy_prefix: DummyPrefix = "keep"
    closes_prompt: bool = False

    bos: Control | None = None
    eos: Control
    pad: Control
    stop: tuple[Control, ...]
    hint: str = ""

    layout: Layout | None = None
    oracle: Oracle = "torchtune"

    image: Callable[[Mapping[str, Any]], tuple[Piece, ...]] | None = None
