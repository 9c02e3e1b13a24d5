"""Harmony, the format of gpt-oss: every message says its channel and whom it is for.

Source: https://github.com/openai/harmony (Apache-2.0), version 0.0.8, and
https://cookbook.openai.com/articles/openai-harmony.
"""

from collections.abc import Iterator

from torchpipe.tokenizers.chat_format import ChatFormat, Control
from torchpipe.tokenizers.control_tokens import GPT_OSS_CONTROL_TOKENS, GPT_OSS_PATTERN
from torchpipe.tokenizers.conversation import SYSTEM_ROLES, Conversation
from torchpipe.tokenizers.format_pieces import Pieces
from torchpipe.tokenizers.kinds import Kind
from torchpipe.tokenizers.layout import Layout, Part, Turn
from torchpipe.tokenizers.publisher_formats.json_text import arguments_text
from torchpipe.tokenizers.publisher_formats.typescript import typescript_of

_START, _CHANNEL, _MESSAGE = Control("<|start|>"), Control("<|channel|>"), Control("<|message|>")
_END, _RETURN, _CALL = Control("<|end|>"), Control("<|return|>"), Control("<|call|>")
_AGAIN: Pieces = (_END, _START, "assistant")


def opening(conversation: Conversation) -> Pieces:
    """The system's message, which is about the model; what the data calls the system is the developer here."""
    options = conversation.options
    lines = [options["model_identity"], f"Knowledge cutoff: {options['knowledge_cutoff']}"]
    if options["conversation_start_date"] is not None:
        lines.append(f"Current date: {options['conversation_start_date']}")
    lines += ["", f"Reasoning: {options['reasoning_effort']}", ""]
    lines.append("# Valid channels: analysis, commentary, final. Channel must be included for every message.")
    if conversation.tools:
        lines.append("Calls to these tools must go to the commentary channel: 'functions'.")
    return (_START, "system", _MESSAGE, "\n".join(lines), _END)


def developer_parts(conversation: Conversation, index: int | None) -> tuple[Part, ...]:
    """Instructions and tools; nothing where there are none."""
    parts: list[Part] = []
    if index is not None:
        parts = [
            Part(Kind.HEADER, index, ("# Instructions\n\n",)),
            Part(Kind.CONTENT, index, (conversation.text(index),)),
        ]
    if conversation.tools:
        text = f"# Tools\n\n{typescript_of(conversation.functions())}"
        parts.append(Part(Kind.TOOLS, -1 if index is None else index, ("\n\n" + text if parts else text,)))
    return tuple(parts)


def assistant_turns(conversation: Conversation, index: int) -> Iterator[Turn]:
    """Reasoning, text and the first call in one turn; each further call, which a server asks for again, in its own."""
    message = conversation.messages[index]
    calls, text = message.tool_calls, conversation.text(index)
    parts: list[Part] = []
    if message.reasoning and not _drops_analysis(conversation, index):
        parts += _channel(index, "analysis", Kind.REASONING, message.reasoning)
    if text or not calls:
        parts += [Part(Kind.CHANNEL, index, _AGAIN)] if parts else []
        parts += _channel(index, "commentary" if calls else "final", Kind.CONTENT, text)
    for number, call in enumerate(calls):
        if number:
            yield Turn("assistant", index, tuple(parts), end=())
            parts = []
        parts += [Part(Kind.CHANNEL, index, _AGAIN)] if parts else []
        constrain: Pieces = (_CHANNEL, "commentary ", Control("<|constrain|>"), " json", _MESSAGE)
        written = (f" to=functions.{call.name}", *constrain, arguments_text(call))
        parts += [Part(Kind.TOOL_CALL, index, written), Part(Kind.TURN_END, index, (_CALL,))]
    if not calls:
        # A later prompt holds <|end|> where the model sampled <|return|>.
        is_last = index == conversation.last_assistant
        parts.append(Part(Kind.TURN_END, index, (_RETURN,)) if is_last else Part(Kind.SEPARATOR, index, (_END,)))
    yield Turn("assistant", index, tuple(parts), end=())


def _channel(index: int, name: str, kind: Kind, text: str) -> list[Part]:
    return [Part(Kind.CHANNEL, index, (_CHANNEL, name, _MESSAGE)), Part(kind, index, (text,))]


def _drops_analysis(conversation: Conversation, index: int) -> bool:
    """Whether openai-harmony drops a message's analysis: before the first answer, once the last message is one.

    What a model sampled is not dropped from its own sample: the code was asked to write the messages before it.
    """
    speakers = [i for i, m in enumerate(conversation.messages) if m.role == "assistant"]
    if conversation.ends_sampled and speakers.pop() == index:
        return False
    answers = [i for i in speakers if not conversation.messages[i].tool_calls]
    ends_in_answer = bool(answers) and answers[-1] == speakers[-1]
    drops = conversation.options["auto_drop_analysis"] and ends_in_answer and index <= answers[0]
    if drops:
        instead = "set the option auto_drop_analysis to False to keep it"
        conversation.lose(index, "reasoning", instead=instead, later_on=True)
    return drops


def result_turn(conversation: Conversation, index: int) -> Turn:
    """A result, which comes from the tool."""
    name = f"functions.{conversation.called_name(index)}"
    header: Pieces = (_START, f"{name} to=assistant", _CHANNEL, "commentary", _MESSAGE)
    return Turn("tool", index, (Part(Kind.CONTENT, index, (conversation.text(index),)),), header)


def check(conversation: Conversation) -> None:
    """Refuses what there is no place for."""
    for index, message in enumerate(conversation.messages):
        if message.role in SYSTEM_ROLES and index:
            conversation.refuse(index, "is the system's or the developer's, which may only come first")
        if message.reasoning and not message.content and not message.tool_calls:
            conversation.refuse(index, "has reasoning alone, after which the model would go on")


GPT_OSS = ChatFormat(
    name="gpt_oss",
    pattern=GPT_OSS_PATTERN,
    published_sizes=(199_998,),
    control_tokens=GPT_OSS_CONTROL_TOKENS,
    headers={
        "system": (_START, "developer", _MESSAGE),
        "user": (_START, "user", _MESSAGE),
        "assistant": (_START, "assistant"),
    },
    turn_end=(_END,),
    roles=("system", "developer", "user", "assistant", "tool"),
    layout=Layout(
        options={
            "model_identity": "You are ChatGPT, a large language model trained by OpenAI.",
            "reasoning_effort": "medium",
            "knowledge_cutoff": "2024-06",
            "conversation_start_date": None,
            "auto_drop_analysis": True,
        },
        check=check,
        text_marks=(),
        opening=opening,
        system_parts=developer_parts,
        tools="turn",
        assistant_turns=assistant_turns,
        result_turn=result_turn,
    ),
    oracle="golden",
    bos=None,
    eos=_RETURN,
    pad=Control("<|endoftext|>"),
    stop=(_RETURN, Control("<|endoftext|>"), _CALL),
)
