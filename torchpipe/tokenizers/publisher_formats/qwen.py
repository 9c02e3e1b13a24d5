"""Qwen2.5 and Qwen3 as their chat templates write them: a system turn of their own, tools in it, calls and thinking.

Sources (Apache-2.0): https://huggingface.co/Qwen/Qwen2.5-7B-Instruct/blob/main/tokenizer_config.json and
https://huggingface.co/Qwen/Qwen3-0.6B/blob/main/tokenizer_config.json.
"""

from dataclasses import replace

from torchpipe.data.tool_calls import ToolCall
from torchpipe.tokenizers.chat_format import Control
from torchpipe.tokenizers.conversation import Conversation
from torchpipe.tokenizers.families import QWEN2_5, QWEN3
from torchpipe.tokenizers.format_pieces import Pieces
from torchpipe.tokenizers.kinds import Kind
from torchpipe.tokenizers.layout import Layout, Part
from torchpipe.tokenizers.publisher_formats.json_text import arguments_text, to_json

_DEFAULT_SYSTEM = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
_CALL, _CALL_END = Control("<tool_call>"), Control("</tool_call>")
_THINK, _THINK_END = Control("<think>"), Control("</think>")
_EMPTY_THOUGHT: Pieces = (_THINK, "\n\n", _THINK_END, "\n\n")


def tools_pieces(conversation: Conversation) -> Pieces:
    """What the system's turn says of tools."""
    schemas = "".join(f"\n{to_json(tool)}" for tool in conversation.tools)
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with "
        f"function signatures within <tools></tools> XML tags:\n<tools>{schemas}\n</tools>\n\nFor each function call, "
        "return a json object with function name and arguments within ",
        _CALL,
        _CALL_END,
        " XML tags:\n",
        _CALL,
        '\n{"name": <function-name>, "arguments": <args-json-object>}\n',
        _CALL_END,
    )


def system_parts(conversation: Conversation, index: int | None) -> tuple[Part, ...]:
    """The system's text, if any, and the tools."""
    parts = () if index is None else (Part(Kind.CONTENT, index, (conversation.text(index),)),)
    if not conversation.tools:
        return parts
    of = -1 if index is None else index
    return (*parts, Part(Kind.TOOLS, of, (*(("\n\n",) if parts else ()), *tools_pieces(conversation))))


def system_parts_with_default(conversation: Conversation, index: int | None) -> tuple[Part, ...]:
    """The system's text or the default one, and the tools."""
    if index is not None:
        return system_parts(conversation, index)
    tools: Pieces = ("\n\n", *tools_pieces(conversation)) if conversation.tools else ()
    return (Part(Kind.HEADER, -1, (_DEFAULT_SYSTEM,)), Part(Kind.TOOLS, -1, tools))


def write_call(call: ToolCall) -> Pieces:
    """Name and arguments."""
    return (_CALL, f'\n{{"name": "{call.name}", "arguments": {arguments_text(call)}}}\n', _CALL_END)


def _last_query(conversation: Conversation) -> int:
    """Index of the user's last message that isn't a result in the user's words."""
    for index in range(len(conversation.messages) - 1, -1, -1):
        text = conversation.text(index) if conversation.messages[index].role == "user" else None
        if text is not None and not (text.startswith("<tool_response>") and text.endswith("</tool_response>")):
            return index
    return len(conversation.messages) - 1


def _split_thought(text: str) -> tuple[str, str]:
    """Reasoning and answer of a text that holds both."""
    if "</think>" not in text:
        return "", text
    before, after = text.split("</think>")[0], text.split("</think>")[-1]
    return before.rstrip("\n").split("<think>")[-1].lstrip("\n"), after.lstrip("\n")


def thinking_reply(conversation: Conversation, index: int) -> tuple[Part, ...]:
    """Reasoning after the user's last question, and the text; a last message without reasoning has an empty thought.

    Where thinking is off, it is the server that puts the empty thought there, so it is not trained. The option
    ``enable_thinking`` says whether it is; None: it is on in rows that hold reasoning.
    """
    message, text = conversation.messages[index], conversation.text(index)
    thought = message.reasoning
    if thought is None:
        thought, text = _split_thought(text)
    is_last = index == len(conversation.messages) - 1
    if index <= _last_query(conversation) or not (is_last or thought):
        if thought:
            conversation.lose(index, "reasoning", later_on=True)
        return (Part(Kind.CONTENT, index, (text,)),) if text else ()
    thought = thought.strip("\n")
    if thought or _thinks(conversation):
        first = Part(Kind.REASONING, index, (_THINK, f"\n{thought}\n", _THINK_END, "\n\n"))
    else:
        first = Part(Kind.PREFILL, index, _EMPTY_THOUGHT)
    return (first, Part(Kind.CONTENT, index, (text.lstrip("\n"),))) if text else (first,)


def _thinks(conversation: Conversation) -> bool:
    """Whether a server would let the model think: what the caller says, else whether the row holds reasoning."""
    if conversation.options["enable_thinking"] is not None:
        return conversation.options["enable_thinking"]
    return any(
        message.reasoning or (message.role == "assistant" and "</think>" in conversation.text(index))
        for index, message in enumerate(conversation.messages)
    )


def thinking_prompt(conversation: Conversation, index: int | None) -> Pieces:
    """An empty thought before a reply that is to be given without thinking."""
    return _EMPTY_THOUGHT if index is None and conversation.options["enable_thinking"] is False else ()


QWEN2_5_INSTRUCT = replace(
    QWEN2_5,
    name="qwen2_5_instruct",
    call_prefix=(),
    call_suffix=(),
    separator_after_last=True,
    layout=Layout(
        text_marks=(),
        system_parts=system_parts_with_default,
        tools="turn",
        write_call=write_call,
        call_join=("\n",),
        call_after_text=("\n",),
    ),
    oracle="golden",
)

QWEN3_CHAT = replace(
    QWEN3,
    name="qwen3_chat",
    call_prefix=(),
    call_suffix=(),
    separator_after_last=True,
    reasoning=(),
    layout=Layout(
        options={"enable_thinking": None},
        text_marks=("</think>", "<tool_response>"),
        system_parts=system_parts,
        tools="turn",
        reply=thinking_reply,
        write_call=write_call,
        call_join=("\n",),
        call_after_text=("\n",),
        prompt=thinking_prompt,
    ),
    oracle="golden",
)

QWEN_FORMATS = (QWEN2_5_INSTRUCT, QWEN3_CHAT)
