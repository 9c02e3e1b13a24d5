"""Llama 3.1, 3.2 and 3.3 as their chat templates write them, and Llama 4 as its publisher's code does.

Sources: https://huggingface.co/meta-llama/Llama-3.1-8B-Instruct/blob/main/tokenizer_config.json and
https://huggingface.co/meta-llama/Llama-3.2-3B-Instruct/blob/main/tokenizer_config.json (Llama Community Licences);
https://github.com/meta-llama/llama-models, models/llama4/chat_format.py and models/llama3/tool_utils.py.
"""

from dataclasses import replace
from typing import Any

from torchpipe.data.tool_calls import ToolCall
from torchpipe.errors import UnwritableError
from torchpipe.tokenizers.chat_format import Control
from torchpipe.tokenizers.conversation import SYSTEM_ROLES, Conversation
from torchpipe.tokenizers.families import LLAMA3, LLAMA4
from torchpipe.tokenizers.format_pieces import Pieces
from torchpipe.tokenizers.kinds import Kind
from torchpipe.tokenizers.layout import Layout, Part
from torchpipe.tokenizers.publisher_formats.json_text import arguments_text, to_json

_JSON_CALL = (
    'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.'
    "Do not use variables.\n\n"
)
_IN_USER = (
    "Given the following functions, please respond with a JSON for a function call with its proper arguments that "
    f"best answers the given prompt.\n\n{_JSON_CALL}"
)
_IN_SYSTEM = (
    "You have access to the following functions. To call a function, please respond with JSON for a function call."
    f"{_JSON_CALL}"
)


def _schemas(conversation: Conversation) -> str:
    return "".join(f"{to_json(tool, indent=4)}\n\n" for tool in conversation.tools)


def system_parts(conversation: Conversation, index: int | None) -> tuple[Part, ...]:
    """Dates, the tools where they go here, and the system's text."""
    options, of = conversation.options, -1 if index is None else index
    environment = "Environment: ipython\n" if conversation.tools else ""
    dates = f"Cutting Knowledge Date: December 2023\nToday Date: {options['date_string']}\n\n"
    tools = _IN_SYSTEM + _schemas(conversation) if conversation.tools and not options["tools_in_user_message"] else ""
    opening = (Part(Kind.HEADER, of, (environment + dates,)), Part(Kind.TOOLS, of, (tools,)))
    return opening if index is None else (*opening, Part(Kind.CONTENT, index, (conversation.text(index),)))


def write_tools(conversation: Conversation) -> Pieces:
    """The schemas before the user's first text, unless they stand in the system's turn."""
    return (_IN_USER + _schemas(conversation),) if conversation.options["tools_in_user_message"] else ()


def write_json_call(call: ToolCall) -> Pieces:
    """Name and parameters."""
    return (f'{{"name": "{call.name}", "parameters": {arguments_text(call)}}}',)


def write_json_result(conversation: Conversation, index: int) -> Pieces:
    """The result's text as a JSON string."""
    return (to_json(conversation.text(index)),)


def check(conversation: Conversation) -> None:
    """Refuses tools of a conversation whose first turn isn't the user's, which has to hold them."""
    first = next((i for i, m in enumerate(conversation.messages) if m.role not in SYSTEM_ROLES), 0)
    if conversation.tools and conversation.messages[first].role != "user":
        conversation.refuse(first, "comes first, where the user's message should hold the tools")


LLAMA3_1_INSTRUCT = replace(
    LLAMA3,
    name="llama3_1_instruct",
    call_prefix=(),
    turn_end_more=None,
    document_end=(),
    layout=Layout(
        options={"date_string": "26 Jul 2024", "tools_in_user_message": True},
        check=check,
        text_marks=(),
        strips=True,
        system_parts=system_parts,
        tools="first_user",
        write_tools=write_tools,
        write_call=write_json_call,
        parallel_calls=False,
        text_beside_calls="lost",
        write_result=write_json_result,
    ),
    oracle="golden",
    image=None,
)

LLAMA3_2_INSTRUCT = replace(LLAMA3_1_INSTRUCT, name="llama3_2_instruct")
LLAMA3_3_INSTRUCT = replace(
    LLAMA3_1_INSTRUCT, name="llama3_3_instruct", oracle="golden"
)  # the published template is that of 3.1, byte for byte


def write_python_call(call: ToolCall) -> Pieces:
    """The call as Python writes it: ``name(a="x", b=1)``.

    Raises:
        DataError: an argument's text can't stand in quotation marks as it is, which is how the format writes it.
    """
    arguments = ", ".join(f"{name}={_python(value, call)}" for name, value in call.parsed().items())
    return (f"{call.name}({arguments})",)


def _python(value: Any, call: ToolCall) -> str:
    if isinstance(value, str):
        if any(character in value for character in '"\\\n'):
            raise UnwritableError(
                f"An argument of the call of {call.name!r} holds a quotation mark, a backslash or a line break, which "
                "Llama 4's calls in Python have no spelling for. Drop such rows with filter_fn."
            )
        return f'"{value}"'
    if isinstance(value, list):
        return f"[{', '.join(_python(item, call) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}={_python(item, call)}' for key, item in value.items())}}}"
    return str(value)


LLAMA4_INSTRUCT = replace(
    LLAMA4,
    name="llama4_instruct",
    call_prefix=(),
    call_suffix=(),
    document_end=(),
    turn_ends={"tool": (Control("<|eom|>"),), "ipython": (Control("<|eom|>"),)},
    layout=Layout(
        joins_texts=False,
        text_marks=(),
        write_call=write_python_call,
        calls_prefix=("[",),
        call_join=(", ",),
        calls_suffix=("]",),
    ),
    oracle="publisher code",
    image=None,
)

LLAMA_FORMATS = (LLAMA3_1_INSTRUCT, LLAMA3_2_INSTRUCT, LLAMA3_3_INSTRUCT, LLAMA4_INSTRUCT)
