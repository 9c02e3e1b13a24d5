"""Mistral's instruction formats, as mistral-common writes them. One for each version of its tokenizers.

Source: https://github.com/mistralai/mistral-common 1.13.1 (Apache-2.0), ``tokens/tokenizers/instruct.py`` and
``protocol/instruct/``. Arguments and results that are JSON are written anew, in one spelling of white space, as there.
"""

import json
import re
from dataclasses import replace
from typing import Any

from torchpipe.data.tool_calls import ToolCall
from torchpipe.tokenizers.chat_format import ChatFormat, Control
from torchpipe.tokenizers.conversation import Conversation
from torchpipe.tokenizers.format_pieces import Pieces
from torchpipe.tokenizers.kinds import Kind
from torchpipe.tokenizers.layout import Layout, Part
from torchpipe.tokenizers.publisher_formats.json_text import to_json

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")


def _parsed(text: str) -> Any:
    """What the text is as JSON; the text itself where it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _arguments(call: ToolCall) -> Any:
    return _parsed(call.arguments or "{}") if isinstance(call.arguments, str) else call.arguments


def write_call_v2(call: ToolCall) -> Pieces:
    """Name and arguments."""
    return (to_json({"name": call.name, "arguments": _arguments(call)}),)


def write_call_v3(call: ToolCall) -> Pieces:
    """Name, arguments and, where there is one, the id."""
    id_ = {} if call.id is None else {"id": call.id}
    return (to_json({"name": call.name, "arguments": _arguments(call), **id_}),)


def write_result_v2(conversation: Conversation, index: int) -> Pieces:
    """A list of one result, which has the tool's name."""
    name = conversation.messages[index].name
    return (to_json([{"name": name, "content": _parsed(conversation.text(index) or "{}")}]),)


def write_result_v3(conversation: Conversation, index: int) -> Pieces:
    """The result, which has the call's id."""
    id_ = conversation.messages[index].tool_call_id
    return (to_json({"content": _parsed(conversation.text(index) or "{}"), "call_id": id_}),)


def write_result_v7(conversation: Conversation, index: int) -> Pieces:
    """The call's id and, as it is, the result."""
    id_ = conversation.messages[index].tool_call_id or ""
    return (id_, Control("[TOOL_CONTENT]"), conversation.text(index))


def write_tools(conversation: Conversation) -> Pieces:
    """The schemas as one JSON list, between their control tokens."""
    tools = []
    for function in conversation.functions():
        described = {
            "name": function["name"],
            "description": function.get("description") or "",
            "parameters": function.get("parameters") or {},
        }
        tools.append({"type": "function", "function": described})
    return (Control("[AVAILABLE_TOOLS]"), to_json(tools), Control("[/AVAILABLE_TOOLS]"))


def write_reply(conversation: Conversation, index: int) -> tuple[Part, ...]:
    """The text, without the spaces that it ends with."""
    if conversation.messages[index].reasoning:
        conversation.lose(index, "reasoning")
    text = conversation.text(index).rstrip(" ")
    return (Part(Kind.CONTENT, index, (text,)),) if text else ()


def check(conversation: Conversation) -> None:
    """Refuses what mistral-common refuses, whatever the version."""
    messages = conversation.messages
    for index, message in enumerate(messages):
        before = messages[index - 1] if index else None
        if message.role == "assistant" and before is not None and before.role == "assistant":
            conversation.refuse(index, "follows another one of the assistant's: join the two")
        if message.role == "system" and before is not None and before.role not in ("system", "user"):
            conversation.refuse(index, f"follows a {before.role} message, and may follow the system's or the user's")
        if message.role == "user" and before is None:
            continue
        if message.role == "tool" and (before is None or before.role not in ("tool", "assistant")):
            conversation.refuse(index, "is a result that follows no call")
    if messages[0].role in ("assistant", "tool"):
        conversation.refuse(0, "opens the conversation, which begins with the system or the user")
    _check_names(conversation)
    _check_counts(conversation)


def _check_names(conversation: Conversation) -> None:
    for index, message in enumerate(conversation.messages):
        names = [call.name for call in message.tool_calls] + ([message.name] if message.role == "tool" else [])
        for name in names:
            if name is not None and not _NAME.fullmatch(name):
                conversation.refuse(index, f"names the tool {name!r}; a name has up to 64 letters, digits, _ and -")


def _check_counts(conversation: Conversation) -> None:
    open_calls = 0
    for index, message in enumerate(conversation.messages):
        if message.role == "tool":
            open_calls -= 1
        elif message.role == "assistant":
            if open_calls != 0:
                conversation.refuse(index, "stands where results and calls before it differ in number")
            open_calls = len(message.tool_calls)
    if open_calls < 0 or (open_calls and conversation.adds_prompt):
        conversation.refuse(len(conversation.messages) - 1, "ends where results and calls differ in number")


def check_v2(conversation: Conversation) -> None:
    """Refuses two results after one message of calls, too."""
    check(conversation)
    for index, message in enumerate(conversation.messages):
        if index > conversation.last_user and index and message.role == "tool":
            if conversation.is_result(index - 1):
                conversation.refuse(index, "is a second result of one turn, and version 2 has place for one")
            if message.name is None:
                conversation.refuse(index, "is a result without the tool's name")


def check_v3(conversation: Conversation) -> None:
    """Refuses ids that are not of nine letters and digits, too."""
    check(conversation)
    last = len(conversation.messages) - 1
    for index, message in enumerate(conversation.messages):
        ids = [call.id for call in message.tool_calls if not (call.id is None and index == last)]
        for id_ in [*ids, *([message.tool_call_id] if message.role == "tool" else [])]:
            if id_ is None or not _CALL_ID.fullmatch(id_):
                conversation.refuse(index, f"has the call id {id_!r}; an id has nine letters and digits")


MISTRAL_V1 = ChatFormat(
    name="mistral_v1",
    published_sizes=(32_000,),
    files="sentencepiece",
    document_start=(Control("<s>"),),
    headers={"user": ("[INST] ",), "assistant": ()},
    turn_ends={"user": (" [/INST]",), "assistant": (Control("</s>"),)},
    roles=("system", "user", "assistant"),
    layout=Layout(
        check=check, text_marks=(), system="first_user", part_join="\n\n", text_join="\n\n", empty_reply=False
    ),
    oracle="golden",
    bos=Control("<s>"),
    eos=Control("</s>"),
    pad=Control("<unk>"),
    stop=(Control("</s>"),),
)

_LAYOUT_V2 = Layout(
    check=check_v2,
    text_marks=(),
    system="last_user",
    part_join="\n\n",
    text_join="\n\n",
    tools="last_user",
    write_tools=write_tools,
    tools_before_header=True,
    reply=write_reply,
    write_call=write_call_v2,
    calls_prefix=(Control("[TOOL_CALLS]"), "["),
    call_join=(", ",),
    calls_suffix=("]",),
    text_beside_calls=False,
    empty_reply=False,
    old_calls=False,
    write_result=write_result_v2,
)
_LAYOUT_V3 = replace(_LAYOUT_V2, check=check_v3, write_call=write_call_v3, old_calls=True, write_result=write_result_v3)
_LAYOUT_V7 = replace(_LAYOUT_V3, system="turn", text_beside_calls=True, write_result=write_result_v7)

MISTRAL_V2 = replace(
    MISTRAL_V1,
    name="mistral_v2",
    published_sizes=(32_768,),
    headers={"user": (Control("[INST]"),), "assistant": (), "tool": ()},
    turn_ends={"user": (Control("[/INST]"),), "assistant": (Control("</s>"),), "tool": ()},
    roles=("system", "user", "assistant", "tool"),
    result_prefix=(Control("[TOOL_RESULTS]"),),
    result_suffix=(Control("[/TOOL_RESULTS]"),),
    layout=_LAYOUT_V2,
)

MISTRAL_V3 = replace(MISTRAL_V2, name="mistral_v3", layout=_LAYOUT_V3)

MISTRAL_V7 = replace(
    MISTRAL_V3,
    name="mistral_v7",
    headers={**MISTRAL_V3.headers, "system": (Control("[SYSTEM_PROMPT]"),)},
    turn_ends={**MISTRAL_V3.turn_ends, "system": (Control("[/SYSTEM_PROMPT]"),)},
    layout=_LAYOUT_V7,
)

MISTRAL_V3_TEKKEN = replace(
    MISTRAL_V3, name="mistral_v3_tekken", files="byte_level", published_sizes=(131_072,), pad=Control("<pad>")
)

MISTRAL_FORMATS = (MISTRAL_V1, MISTRAL_V2, MISTRAL_V3, MISTRAL_V7, MISTRAL_V3_TEKKEN)
