"""DeepSeek V3.1 as its chat template writes it.

Source: https://huggingface.co/deepseek-ai/DeepSeek-V3.1/blob/main/tokenizer_config.json (MIT), as llama.cpp ships it.
"""

from torchpipe.data.tool_calls import ToolCall
from torchpipe.tokenizers.chat_format import ChatFormat, Control
from torchpipe.tokenizers.conversation import SYSTEM_ROLES, Conversation
from torchpipe.tokenizers.format_pieces import Pieces
from torchpipe.tokenizers.kinds import Kind
from torchpipe.tokenizers.layout import Layout, Part
from torchpipe.tokenizers.publisher_formats.json_text import arguments_text

_BOS, _EOS = Control("<｜begin▁of▁sentence｜>"), Control("<｜end▁of▁sentence｜>")
_THINK, _THINK_END = Control("<think>"), Control("</think>")


def write_call(call: ToolCall) -> Pieces:
    """Name and arguments."""
    begin, separator, end = (Control(f"<｜tool▁{name}｜>") for name in ("call▁begin", "sep", "call▁end"))
    return (begin, call.name, separator, arguments_text(call), end)


def reply(conversation: Conversation, index: int) -> tuple[Part, ...]:
    """The text without reasoning, which the template never writes."""
    message, text = conversation.messages[index], conversation.text(index)
    follows_result = index > 0 and conversation.is_result(index - 1)
    inline = "</think>" in text and not message.tool_calls and not follows_result
    if message.reasoning or inline:
        conversation.lose(index, "reasoning")
    text = text.split("</think>", 1)[1] if inline else text
    return (Part(Kind.CONTENT, index, (text,)),) if text else ()


def prompt(conversation: Conversation, index: int | None) -> Pieces:
    """A thought that is open where the model is to think next, and empty otherwise."""
    if index is None and conversation.options["thinking"]:
        return (_THINK,)
    return (_THINK, _THINK_END)


def check(conversation: Conversation) -> None:
    """Refuses what the template writes at another place, or without a header."""
    messages = conversation.messages
    for index, message in enumerate(messages):
        if message.role in SYSTEM_ROLES and index:
            conversation.refuse(index, "is the system's, which may only come first")
        follows = index > 0 and (messages[index - 1].role == "user" or conversation.is_result(index - 1))
        if message.role == "assistant" and not follows:
            conversation.refuse(index, "answers neither the user nor a result")
    if conversation.adds_prompt and messages[-1].role not in ("user", "tool"):
        conversation.refuse(len(messages) - 1, "is the last, which nothing can be replied to")


DEEPSEEK_V3_1 = ChatFormat(
    name="deepseek_v3_1",
    published_sizes=(128_000,),
    document_start=(_BOS,),
    headers={"system": (), "user": (Control("<｜User｜>"),), "assistant": (Control("<｜Assistant｜>"),), "tool": ()},
    turn_ends={"assistant": (_EOS,)},
    roles=("system", "user", "assistant", "tool"),
    result_prefix=(Control("<｜tool▁output▁begin｜>"),),
    result_suffix=(Control("<｜tool▁output▁end｜>"),),
    layout=Layout(
        options={"thinking": False},
        text_marks=("</think>",),
        check=check,
        tools="lost",
        reply=reply,
        write_call=write_call,
        calls_prefix=(Control("<｜tool▁calls▁begin｜>"),),
        calls_suffix=(Control("<｜tool▁calls▁end｜>"),),
        header_after_result=False,
        prompt=prompt,
    ),
    oracle="golden",
    bos=_BOS,
    eos=_EOS,
    pad=_EOS,
    stop=(_EOS,),
)
