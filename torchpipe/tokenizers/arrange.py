"""A conversation in the turns that a format's :class:`~torchpipe.tokenizers.layout.Layout` makes of it."""

from collections.abc import Iterator

from torchpipe._suggest import listed
from torchpipe.errors import UnwritableError
from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.conversation import SYSTEM_ROLES, Conversation
from torchpipe.tokenizers.format_pieces import Pieces
from torchpipe.tokenizers.kinds import Kind
from torchpipe.tokenizers.layout import Layout, Part, Turn


def arranged(conversation: Conversation, chat_format: ChatFormat) -> list[Turn]:
    """The turns of a conversation, in order; the last one is a header alone where a model is to go on.

    Raises:
        DataError: the format has no place for something, or would lose it and may not.
    """
    layout = chat_format.layout
    assert layout is not None
    _check(conversation, chat_format, layout)
    turns = [
        *_opening(conversation, layout),
        *_body(conversation, chat_format, layout),
    ]
    if conversation.adds_prompt:
        last = len(conversation.messages) - 1
        pieces = () if layout.prompt is None else layout.prompt(conversation, None)
        header = None if layout.header_after_result or not conversation.is_result(last) else ()
        pieces = () if header == () else pieces
        turns.append(Turn("assistant", -1, (Part(Kind.PREFILL, -1, pieces),), header))
    return turns


def _check(conversation: Conversation, chat_format: ChatFormat, layout: Layout) -> None:
    name = chat_format.name
    if conversation.tools and layout.tools is None:
        raise UnwritableError(
            f"The row offers tools, and the {name} format has no place for them. Drop it with filter_fn, or write the "
            "tools into the system's text in a message_transform."
        )
    if conversation.tools and layout.tools == "lost":
        conversation.lose_tools()
    if conversation.tools and layout.tools in ("first_user", "last_user") and conversation.first_user < 0:
        raise UnwritableError(
            f"The row offers tools, and no message of the user, in which the {name} format writes them."
        )
    for index, message in enumerate(conversation.messages):
        role = message.role
        if role not in chat_format.roles:
            raise UnwritableError(
                f"Message {index} is a {role!r} message, and the {name} format has no place for one: it has "
                f"{listed(chat_format.roles)}. Change the role in a message transform, or drop the row with filter_fn."
            )
        if message.name and not conversation.is_result(index):
            conversation.lose(index, "name")
        if message.ipython:
            conversation.refuse(index, "is a call as text (ipython=True): give the call as 'tool_calls'")
        if message.tool_calls and layout.write_call is None and layout.assistant_turns is None:
            conversation.refuse(index, "calls tools, for which there is no place")
        if role == "assistant":
            _check_reply(conversation, index, layout)
    if layout.check is not None:
        layout.check(conversation)


def _check_reply(conversation: Conversation, index: int, layout: Layout) -> None:
    message = conversation.messages[index]
    has_text = bool(conversation.text(index))
    if len(message.tool_calls) > 1 and not layout.parallel_calls:
        conversation.refuse(index, f"makes {len(message.tool_calls)} calls, and there is place for one")
    if message.tool_calls and has_text and layout.text_beside_calls is False:
        conversation.refuse(index, "has text beside its calls: it may have either")
    if not (message.tool_calls or has_text or layout.empty_reply):
        conversation.refuse(index, "has neither text nor calls, and must have one")


def _opening(conversation: Conversation, layout: Layout) -> Iterator[Turn]:
    if layout.opening is not None:
        yield Turn("", -1, (Part(Kind.DOCUMENT_START, -1, layout.opening(conversation)),), (), ())
    if layout.system == "turn" and conversation.messages[0].role not in SYSTEM_ROLES and layout.system_parts:
        parts = layout.system_parts(conversation, None)
        if parts:
            yield Turn("system", -1, parts)


def _body(conversation: Conversation, chat_format: ChatFormat, layout: Layout) -> Iterator[Turn]:
    messages = conversation.messages
    index = 0
    while index < len(messages):
        role = messages[index].role
        if role in SYSTEM_ROLES:
            yield from _system_turns(conversation, index, layout)
        elif role == "user":
            stop = index + 1
            while layout.text_join is not None and stop < len(messages) and messages[stop].role == "user":
                stop += 1
            yield from _user_turns(conversation, range(index, stop), chat_format, layout)
            index = stop - 1
        elif role == "assistant":
            yield from _assistant_turns(conversation, index, layout)
        elif layout.old_calls or index > conversation.last_user:
            if layout.result_turn is not None:
                yield layout.result_turn(conversation, index)
            else:
                yield Turn(role, index, (Part(Kind.CONTENT, index, layout.write_result(conversation, index)),))
        else:
            conversation.lose(index, "result of an earlier call", later_on=True)
        index += 1


def _system_turns(conversation: Conversation, index: int, layout: Layout) -> Iterator[Turn]:
    if layout.system != "turn":
        if any(message.role not in SYSTEM_ROLES for message in conversation.messages[:index]):
            conversation.refuse(index, "is the system's, which may only come first: its text joins the user's")
        return
    if index == 0 and layout.system_parts is not None:
        parts = layout.system_parts(conversation, index)
    else:
        parts = (Part(Kind.CONTENT, index, (conversation.text(index),)),)
    yield Turn("system", index, parts)


def _user_turns(conversation: Conversation, run: range, chat_format: ChatFormat, layout: Layout) -> Iterator[Turn]:
    places = {"first_user": conversation.first_user in run, "last_user": conversation.last_user in run}
    parts: list[Part] = []
    if conversation.tools and layout.tools is not None and places.get(layout.tools) and layout.write_tools is not None:
        tools = Part(Kind.TOOLS, run[0], layout.write_tools(conversation))
        if layout.tools_before_header:
            yield Turn("", run[0], (tools,), (), ())
        else:
            parts.append(tools)
    if layout.system != "turn" and places[layout.system]:
        parts += _system_in_user(conversation, layout)
    for index in run:
        if index > run[0]:
            parts.append(Part(Kind.SEPARATOR, index, (layout.text_join or "",)))
        parts.append(Part(Kind.CONTENT, index, (conversation.text(index),)))
    yield Turn("user", run[0], tuple(parts))


def _system_in_user(conversation: Conversation, layout: Layout) -> Iterator[Part]:
    for index, message in enumerate(conversation.messages):
        if message.role in SYSTEM_ROLES and conversation.text(index):
            yield Part(Kind.CONTENT, index, (conversation.text(index),))
            yield Part(Kind.SEPARATOR, index, (layout.system_join,))


def _assistant_turns(conversation: Conversation, index: int, layout: Layout) -> Iterator[Turn]:
    message = conversation.messages[index]
    if layout.assistant_turns is not None:
        yield from layout.assistant_turns(conversation, index)
        return
    if message.tool_calls and not layout.old_calls and index < conversation.last_user:
        conversation.lose(index, "calls of an earlier exchange", later_on=True)
        if not conversation.text(index):
            return
    header: Pieces | None = None
    parts: list[Part] = []
    if not layout.header_after_result and index and conversation.is_result(index - 1):
        header = ()
    elif layout.prompt is not None:
        parts.append(Part(Kind.PREFILL, index, layout.prompt(conversation, index)))
    parts += reply_parts(conversation, index, layout)
    yield Turn("assistant", index, tuple(parts), header, eot=not message.tool_calls)


def reply_parts(conversation: Conversation, index: int, layout: Layout) -> Iterator[Part]:
    """Reasoning, text and calls of an assistant's message."""
    calls = conversation.messages[index].tool_calls
    if calls and layout.text_beside_calls == "lost" and conversation.text(index):
        conversation.lose(index, "text beside calls")
        texts: tuple[Part, ...] = ()
    else:
        texts = layout.reply(conversation, index)
    yield from texts
    if calls:
        yield Part(
            Kind.TOOL_CALL,
            index,
            _calls(conversation, index, layout, after_text=any(part.kind is Kind.CONTENT for part in texts)),
        )


def _calls(conversation: Conversation, index: int, layout: Layout, *, after_text: bool) -> Pieces:
    assert layout.write_call is not None
    pieces = [*(layout.call_after_text if after_text else ()), *layout.calls_prefix]
    for number, call in enumerate(conversation.messages[index].tool_calls):
        pieces += layout.call_join if number else ()
        pieces += layout.write_call(call)
    return (*pieces, *layout.calls_suffix)
