"""Families whose publishers' templates write texts alone: Gemma, Phi, and ChatML as many models share it."""

from dataclasses import replace

from torchpipe.tokenizers.chat_format import ChatFormat, Control, Slot
from torchpipe.tokenizers.control_tokens import QWEN2_CONTROL_TOKENS, QWEN_PATTERN
from torchpipe.tokenizers.conversation import Conversation
from torchpipe.tokenizers.families import GEMMA_TURNS, PHI3_MINI
from torchpipe.tokenizers.kinds import Kind
from torchpipe.tokenizers.layout import Layout, Part


def check_alternating(conversation: Conversation) -> None:
    """Refuses turns of user and assistant that do not alternate."""
    turns = [(i, m.role) for i, m in enumerate(conversation.messages) if m.role not in ("system", "developer")]
    for number, (index, role) in enumerate(turns):
        if role != ("user", "assistant")[number % 2]:
            conversation.refuse(index, "breaks the alternation of user and assistant, which begins with the user")


def system_unless_empty(conversation: Conversation, index: int | None) -> tuple[Part, ...]:
    """The system's text; no turn for an empty one."""
    text = "" if index is None else conversation.text(index)
    return () if index is None or not text else (Part(Kind.CONTENT, index, (text,)),)


# https://huggingface.co/google/gemma-2-2b-it (Gemma Terms of Use): no system turn.
GEMMA2_INSTRUCT = replace(
    GEMMA_TURNS,
    name="gemma2_instruct",
    dummy_prefix="keep",
    layout=Layout(check=check_alternating, text_marks=(), strips=True),
    oracle="template text with a stand-in vocabulary",
)

# https://huggingface.co/google/gemma-3-1b-it (Gemma Terms of Use): the system's text opens the user's first turn.
GEMMA3_INSTRUCT = replace(
    GEMMA2_INSTRUCT,
    name="gemma3_instruct",
    roles=("system", "user", "assistant"),
    layout=Layout(
        check=check_alternating,
        text_marks=(),
        strips=True,
        strips_system=False,
        system="first_user",
        system_join="\n\n",
    ),
)

# https://huggingface.co/microsoft/Phi-3.5-mini-instruct (MIT).
PHI3_5_INSTRUCT = replace(
    PHI3_MINI,
    name="phi3_5_instruct",
    whitespace="keep",
    dummy_prefix="keep",
    document_start=(),
    document_end=(Control("<|endoftext|>"),),
    layout=Layout(text_marks=(), system_parts=system_unless_empty),
    oracle="template text with a stand-in vocabulary",
)

# The format of https://github.com/openai/openai-python/blob/release-v0.28.1/chatml.md, with a line break after each
# turn, as most models that say ChatML write it.
CHATML = ChatFormat(
    name="chatml",
    pattern=QWEN_PATTERN,
    control_tokens=QWEN2_CONTROL_TOKENS,
    header=(Control("<|im_start|>"), Slot.ROLE, "\n"),
    turn_end=(Control("<|im_end|>"),),
    separator=("\n",),
    separator_after_last=True,
    roles=("system", "developer", "user", "assistant", "tool"),
    layout=Layout(text_marks=()),
    oracle="none",
    eos=Control("<|im_end|>"),
    pad=Control("<|endoftext|>", aliases=("<|im_end|>",)),
    stop=(Control("<|im_end|>"),),
)

PLAIN_FORMATS = (GEMMA2_INSTRUCT, GEMMA3_INSTRUCT, PHI3_5_INSTRUCT, CHATML)
