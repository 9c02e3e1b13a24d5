"""The rows that each door of data sets is measured on: all text is real, and no row is there twice."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = dict[str, Any]
Chat = Sequence[Mapping[str, str]]


class Door(NamedTuple):
    """A builder with its arguments, and the rows that it is given.

    Attributes:
        builder: its name in torchpipe.datasets.
        rows: what makes them of chats, or of questions and answers.
        of_chats: which of the two.
        arguments: the builder's.
    """

    builder: str
    rows: Callable[[Sequence[Any]], Iterator[Row]]
    of_chats: bool = True
    arguments: Mapping[str, Any] = {}


def _messages(chats: Sequence[Chat]) -> Iterator[Row]:
    return ({"messages": chat} for chat in chats)


def _instructions(chats: Sequence[Chat]) -> Iterator[Row]:
    return ({"instruction": chat[-2]["content"], "input": "", "output": chat[-1]["content"]} for chat in chats)


def _pairs(chats: Sequence[Chat]) -> Iterator[Row]:
    """Each chat with its own last answer, and with that of the chat before."""
    for chat, before in zip(chats, [chats[-1], *chats], strict=False):
        yield {"prompt": chat[:-1], "chosen": chat[-1:], "rejected": before[-1:]}


def _labelled(chats: Sequence[Chat]) -> Iterator[Row]:
    return ({"messages": chat, "label": number % 2 == 0} for number, chat in enumerate(chats))


def _texts(chats: Sequence[Chat]) -> Iterator[Row]:
    return ({"text": "\n\n".join(turn["content"] for turn in chat)} for chat in chats)


def _segments(chats: Sequence[Chat]) -> Iterator[Row]:
    for chat in chats:
        yield {"segments": [{"label": turn["role"] == "assistant", "text": f"{turn['content']}\n"} for turn in chat]}


_SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt"}


def _layouts(chats: Sequence[Chat]) -> Iterator[Row]:
    """Chats in four layouts, one after the other."""
    for number, chat in enumerate(chats):
        yield (
            {"messages": chat},
            {"conversations": [{"from": _SPEAKERS[turn["role"]], "value": turn["content"]} for turn in chat]},
            {"prompt": chat[:-1], "completion": chat[-1:]},
            {"instruction": chat[-2]["content"], "input": "", "output": chat[-1]["content"]},
        )[number % 4]


def _questions(questions: Sequence[Row]) -> Iterator[Row]:
    return iter(questions)


def _short_texts(questions: Sequence[Row]) -> Iterator[Row]:
    return ({"text": one["question"]} for one in questions)


_OPENAI = {"conversation_column": "messages", "conversation_style": "openai"}
_PAIR = {"column_map": {name: name for name in ("prompt", "chosen", "rejected")}}
_ASKED = {"column_map": {"input": "question", "output": "answer"}}

DOORS: dict[str, Door] = {
    "chat": Door("chat_dataset", _messages, arguments=_OPENAI),
    "instruct": Door(
        "instruct_dataset", _instructions, arguments={"column_map": {"input": "instruction", "output": "output"}}
    ),
    "alpaca": Door("alpaca_dataset", _instructions),
    "preference": Door("preference_dataset", _pairs, arguments=_PAIR),
    "kto": Door("kto_dataset", _labelled),
    "prompt": Door("prompt_dataset", _messages, arguments={"column_map": {"prompt": "messages"}}),
    "text_completion": Door("text_completion_dataset", _texts),
    "messages": Door("messages_dataset", _layouts),
    "segments": Door("segments_dataset", _segments),
    "instruct, short rows": Door("instruct_dataset", _questions, of_chats=False, arguments=_ASKED),
    "text_completion, short rows": Door("text_completion_dataset", _short_texts, of_chats=False),
    "messages, short rows": Door("messages_dataset", _questions, of_chats=False),
}
"""By name. Questions and answers are about a fifth as long as chats."""


def rows_of(name: str, chats: Path, questions: Path, num_rows: int) -> list[Row]:
    """The rows of a door, made of so many chats or questions.

    Args:
        name: of the door.
        chats: lines of JSON with ``messages``; those that end in a question and its answer are used.
        questions: lines of JSON with ``question`` and ``answer``.
        num_rows: how many lines are read.
    """
    door = DOORS[name]
    with (chats if door.of_chats else questions).open(encoding="utf-8") as lines:
        given = [json.loads(line) for line, _ in zip(lines, range(num_rows), strict=False)]
    if door.of_chats:
        given = [row["messages"] for row in given]
        given = [chat for chat in given if [turn["role"] for turn in chat[-2:]] == ["user", "assistant"]]
    return list(door.rows(given))
