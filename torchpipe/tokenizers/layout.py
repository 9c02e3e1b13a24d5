"""Where a publisher's format puts what a conversation holds beside texts: tools, calls, results, reasoning, the system.

A :class:`Layout` is the part of a :class:`~torchpipe.tokenizers.chat_format.ChatFormat` row that says so. Formats
without one write the text of each message, one after another.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from torchpipe.data.tool_calls import ToolCall
from torchpipe.tokenizers.conversation import Conversation
from torchpipe.tokenizers.format_pieces import Pieces
from torchpipe.tokenizers.kinds import Kind


class Part(NamedTuple):
    """A run of a turn: what it is, the message that it belongs to (-1: none), and how it is written."""

    kind: Kind
    message: int
    pieces: Pieces


class Turn(NamedTuple):
    """What stands between a header and an end.

    Attributes:
        role: whose header and end it has.
        message: the message that header and end belong to, -1 for none.
        parts: what stands between them.
        header, end: other ones than the role's.
        eot: False where the turn calls a tool; see ``turn_end_more`` of the format.
    """

    role: str
    message: int
    parts: tuple[Part, ...] = ()
    header: Pieces | None = None
    end: Pieces | None = None
    eot: bool = True
    ipython: bool = False


Place = Literal["turn", "first_user", "last_user"]
"""A turn of its own, or inside the first or last turn of the user."""

ToolPlace = Literal["turn", "first_user", "last_user", "lost"]
"""The same, or nowhere: the template says nothing of tools."""


def write_text(conversation: Conversation, index: int) -> tuple[Part, ...]:
    """The text of a message as it is; reasoning is lost."""
    text = conversation.text(index)
    if conversation.messages[index].reasoning:
        conversation.lose(index, "reasoning")
    return (Part(Kind.CONTENT, index, (text,)),) if text else ()


def write_result_text(conversation: Conversation, index: int) -> Pieces:
    """The text of a result as it is."""
    return (conversation.text(index),)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where a publisher's format puts what a conversation holds beside texts.

    Attributes:
        options: names of what a caller may set, with their defaults.
        check: raises the errors of what the publisher's code refuses; None: nothing more than the fields here say.

        joins_texts: whether text between two control tokens is encoded as one, as of templates; False: header, text and
            calls each by themselves.
        opening: what stands before the first turn, given the conversation.
        system: where the system's text goes. Inside a user's turn, ``system_join`` follows it.
        text_marks: what a text of the system, the user or the assistant must not hold to be written as it is, once and
            whatever else it says, unless it is empty or has white space at its ends. None: none may be. It makes rows
            of such texts faster, and changes no id.
        strips, strips_system: whether texts, and those of the system, lose the white space around them; None: as
            ``strips``.
        system_parts: what stands in the system's turn, given the conversation and the index of its message, None where
            there is none; no parts, no turn. None: the message's text.
        part_join: what joins the text parts of one message.
        text_join: what joins the texts of several messages that share a turn; None: they don't share one.

        tools: where the tools go; None refuses them. "turn" is that of the system, whose ``system_parts``
            write them.
        write_tools: how they are written.
        tools_before_header: whether they stand before the header of the user's turn, not behind it.

        reply: how reasoning and text of an assistant's message are written; it says what is lost.
        write_call: how one call is written; None refuses calls.
        calls_prefix, call_join, calls_suffix: before, between and after the calls of a message.
        call_after_text: between the text of a message and its calls.
        parallel_calls: whether a message may hold several calls.
        text_beside_calls: whether a message may hold text and calls; "lost": it may, and the format leaves text out.
        empty_reply: whether a message of the assistant may hold neither.
        old_calls: whether calls and results before the last user's turn are written.
        write_result: how a result is written, between the format's ``result_prefix`` and ``result_suffix``.
        header_after_result: whether an assistant's turn that follows a result has a header.

        assistant_turns: a family's own way to write an assistant's message, in place of all these.
        result_turn: a family's own way to write a result.
        prompt: what follows the header of an assistant's turn before the model samples, given the conversation and the
            index of the message, None where the model is to go on.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Conversation], None] | None = None

    joins_texts: bool = True
    opening: Callable[[Conversation], Pieces] | None = None
    system: Place = "turn"
    system_join: str = "\n\n"
    text_marks: tuple[str, ...] | None = None
    strips: bool = False
    strips_system: bool | None = None
    system_parts: Callable[[Conversation, int | None], tuple[Part, ...]] | None = None
    part_join: str = ""
    text_join: str | None = None

    tools: ToolPlace | None = None
    write_tools: Callable[[Conversation], Pieces] | None = None
    tools_before_header: bool = False

    reply: Callable[[Conversation, int], tuple[Part, ...]] = write_text
    write_call: Callable[[ToolCall], Pieces] | None = None
    calls_prefix: Pieces = ()
    call_join: Pieces = ()
    calls_suffix: Pieces = ()
    call_after_text: Pieces = ()
    parallel_calls: bool = True
    text_beside_calls: bool | Literal["lost"] = True
    empty_reply: bool = True
    old_calls: bool = True
    write_result: Callable[[Conversation, int], Pieces] = write_result_text
    header_after_result: bool = True

    assistant_turns: Callable[[Conversation, int], Iterable[Turn]] | None = None
    result_turn: Callable[[Conversation, int], Turn] | None = None
    prompt: Callable[[Conversation, int | None], Pieces] | None = None
