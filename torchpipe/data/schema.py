"""Which layout a row has: one table of shapes, decided for each row by its columns and by what they hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from torchpipe._suggest import listed

Kind = tuple[str, ...]
"""What a column holds; see :func:`kind_of`."""

Holds = Callable[[Kind], bool]
"""Whether a kind is what a shape asks for."""

_TEXT: Kind = ("text",)

Reading = Literal["openai", "sharegpt", "tagged", "pair", "alpaca", "prompt_completion"]
"""How a shape's rows become messages: by :class:`~torchpipe.data.OpenAIToMessages`, by
:class:`~torchpipe.data.ShareGPTToMessages`, by :class:`~torchpipe.data.tagged_turns.TaggedTurnsToMessages`, by
:class:`~torchpipe.data.InputOutputToMessages`, by :class:`~torchpipe.data.AlpacaToMessages`, as TRL's conversations in
two columns."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """One layout of rows.

    Attributes:
        name: what it is called.
        needs: the columns that such a row has, none of them null.
        reading: how it becomes messages; None: it doesn't.
        names: of the columns, in the order in which the reading asks for them: the column of the turns; of question and
            answer; of instruction, input and output; of prompt and completion.
        keys: of a turn, for "tagged": who speaks, and what.
        also: columns that it reads where they are there.
        holds: column -> what its kind has to be; of other columns it does not matter.
        instead: for a shape without messages: what reads it.
    """

    name: str
    needs: tuple[str, ...]
    reading: Reading | None = None
    names: tuple[str, ...] = ()
    keys: tuple[str, str] | None = None
    also: tuple[str, ...] = ()
    holds: Mapping[str, Holds] = field(default_factory=dict)
    instead: str = ""

    @property
    def columns(self) -> frozenset[str]:
        """All columns that it reads."""
        return frozenset((*self.needs, *self.also))


def kind_of(value: Any) -> Kind:
    """What a column holds, as far as shapes are told apart by it.

    >>> kind_of([{"role": "user", "content": None}]), kind_of("a"), kind_of(["a"]), kind_of(True)
    (('turns', 'role', '~content'), ('text',), ('texts', '1'), ('flag',))
    """
    if isinstance(value, str):
        return _TEXT
    if isinstance(value, list | tuple):
        if not value:
            return ("empty list",)
        first = value[0]
        if type(first) is dict or isinstance(first, Mapping):
            if None not in first.values():
                return ("turns", *first)
            # Nulls are keys that Arrow filled in, or a content beside calls.
            return ("turns", *[key if held is not None else f"~{key}" for key, held in first.items()])
        if isinstance(first, str):
            return ("texts", "1" if len(value) == 1 else "several")
        return ("list", type(first).__name__)
    if value is True or value is False or (isinstance(value, int | float) and value in (0, 1)):
        return ("flag",)
    return (type(value).__name__,)


def _turns(who: str, what: str, *, empty: bool) -> Holds:
    """A list of turns that have these keys."""

    other_texts = {"content", "value", "text"} - {what}
    calls = ("tool_calls", "function_call") if what == "content" else ()

    def holds(kind: Kind) -> bool:
        if kind[0] != "turns":
            return empty and kind[0] == "empty list"
        if who not in kind:
            return False
        # A null text is that of a turn with calls, or one that its transform refuses, unless the text is elsewhere.
        is_null = f"~{what}" in kind and other_texts.isdisjoint(kind)
        return what in kind or is_null or any(key in kind for key in calls)

    return holds


def _text(kind: Kind) -> bool:
    return kind[0] not in ("turns", "empty list", "list", "texts")


def _list(kind: Kind) -> bool:
    return kind[0] in ("turns", "empty list")


def _flag(kind: Kind) -> bool:
    return kind[0] == "flag"


_TURN_COLUMNS = ("messages", "conversations", "conversation", "dialog", "dialogue", "turns", "chat")
_TURN_KEYS: tuple[tuple[str, Reading, str, str], ...] = (
    ("OpenAI turns", "openai", "role", "content"),
    ("ShareGPT turns", "sharegpt", "from", "value"),
    ("turns of role and value", "tagged", "role", "value"),
    ("turns of role and text", "tagged", "role", "text"),
    ("turns of from and content", "tagged", "from", "content"),
    ("turns of from and text", "tagged", "from", "text"),
    ("turns of speaker and text", "tagged", "speaker", "text"),
)
_PAIRS = (
    ("prompt", "completion"),
    ("prompt", "response"),
    ("question", "answer"),
    ("question", "response"),
    ("query", "response"),
    ("query", "answer"),
    ("input", "output"),
    ("instruction", "response"),
    ("problem", "solution"),
    ("user", "assistant"),
)
_PREFERENCE = "torchpipe.datasets.preference_dataset reads pairs"
_KTO = "torchpipe.datasets.kto_dataset reads rows that are labelled good or bad"
_PROMPTS = "torchpipe.datasets.prompt_dataset reads prompts without an answer"

SHAPES: tuple[Shape, ...] = (
    *(
        Shape(
            name=f"{kind} in {column!r}",
            needs=(column,),
            reading=reading,
            names=(column,),
            keys=(who, what),
            holds={column: _turns(who, what, empty=reading == "openai")},
        )
        for column in _TURN_COLUMNS
        for kind, reading, who, what in _TURN_KEYS
    ),
    *(
        Shape(
            name=f"{question} and {answer}",
            needs=(question, answer),
            reading="pair",
            names=(question, answer),
            holds={question: _text, answer: _text} if question == "prompt" else {},
        )
        for question, answer in _PAIRS
    ),
    *(
        Shape(
            name=f"prompt and completion, {what}",
            needs=("prompt", "completion"),
            reading="prompt_completion",
            names=("prompt", "completion"),
            holds={"prompt": of_prompt, "completion": of_completion},
        )
        for what, of_prompt, of_completion in (
            ("both of turns", _list, _list),
            ("the prompt of turns", _list, _text),
            ("the completion of turns", _text, _list),
        )
    ),
    Shape(
        name="question and one of answers",
        needs=("question", "answers"),
        reading="pair",
        names=("question", "answers"),
        holds={"answers": lambda kind: kind == ("texts", "1")},
    ),
    Shape(
        name="Alpaca",
        needs=("instruction", "output"),
        reading="alpaca",
        names=("instruction", "input", "output"),
        also=("input",),
    ),
    Shape(
        name="instruction, context and response",
        needs=("instruction", "context", "response"),
        reading="alpaca",
        names=("instruction", "context", "response"),
    ),
    # Shapes that are known, and become no conversation to train on.
    *(
        Shape(name=f"pairs in {listed(columns)}", needs=columns, instead=_PREFERENCE)
        for columns in (
            ("chosen", "rejected"),
            ("prompt", "chosen", "rejected"),
            *((column, "chosen", "rejected") for column in _TURN_COLUMNS[:3]),
            ("chosen_messages", "rejected_messages"),
        )
    ),
    *(
        Shape(name=f"labelled {columns[0]}", needs=columns, holds={"label": _flag}, instead=_KTO)
        for columns in (*((column, "label") for column in _TURN_COLUMNS[:3]), ("prompt", "completion", "label"))
    ),
    Shape(name="prompts", needs=("prompt",), instead=_PROMPTS),
    Shape(
        name="prompts of several turns",
        needs=("turns",),
        holds={"turns": lambda kind: kind[0] == "texts"},
        instead=_PROMPTS,
    ),
    Shape(
        name="questions for calls of functions",
        needs=("question", "function"),
        instead=f"{_PROMPTS}; with answers from another file, join the two and write a message_transform",
    ),
    Shape(
        name="question, context and answers",
        needs=("question", "context", "answers"),
        instead="sft_dataset takes a message_transform that joins question and context and chooses an answer",
    ),
    Shape(
        name="segments",
        needs=("segments",),
        instead="torchpipe.datasets.segments_dataset reads pieces of text with their own flags",
    ),
    Shape(
        name="text",
        needs=("text",),
        instead="torchpipe.datasets.text_completion_dataset trains on all of a text",
    ),
    Shape(
        name="messages of a tree",
        needs=("text", "role"),
        instead="Each row is one message; join the rows of a conversation in the source",
    ),
)
"""Every shape that is known. Of two that fit a row, the one that reads more of its columns is the row's; a shape
without messages gives way to one with messages unless it reads more."""
