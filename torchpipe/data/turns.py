"""One turn of a conversation as a row holds it: a dict in OpenAI's or ShareGPT's layout."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe._suggest import listed
from torchpipe.data.columns import cell, not_text
from torchpipe.errors import ColumnError, DataError

_LOST_KEYS = {
    "tool_calls": "makes calls",
    "function_call": "makes a call",
    "reasoning_content": "holds reasoning",
    "reasoning": "holds reasoning",
    "thinking": "holds reasoning",
}

_STYLE_CLASSES = {"openai": "OpenAIToMessages", "sharegpt": "ShareGPTToMessages"}


def turns_of(row: Mapping[str, Any], column: str, name: str) -> Sequence[Any]:
    """The list of turns in a column, which has at least one."""
    turns = cell(row, column, name)
    if not isinstance(turns, (list, tuple)):
        held = "null" if turns is None else f"a {type(turns).__name__}"
        raise DataError(f"Column {column!r} holds {held}; it must be a list of turns. Name the right column.")
    if not turns:
        raise DataError(f"Column {column!r} holds no turns. Drop such rows with a filter_fn.")
    return turns


def speaker_and_text(
    turn: Any, index: int, keys: tuple[str, str], *, other: tuple[str, str], other_style: str
) -> tuple[Any, Any]:
    """Who speaks in a turn and what they say, under this style's two keys."""
    who, what = keys
    if type(turn) is dict and what in turn and turn.get(who) is not None:
        return turn[who], turn[what]
    if not isinstance(turn, Mapping):
        raise DataError(f"Turn {index} is a {type(turn).__name__}; a turn is a dict with {listed(keys)}.")
    # Arrow gives every turn all the keys that any turn has, so a null speaker is a missing one.
    if turn.get(who) is None or what not in turn:
        if turn.get(other[0]) is not None and other[1] in turn:
            raise ColumnError(
                f"Turn {index} has {listed(other)} instead of {listed(keys)}: this looks like the other layout. "
                f"Set conversation_style: {other_style}, which is {_STYLE_CLASSES[other_style]}."
            )
        missing = [key for key in keys if key not in turn] or [who]
        raise ColumnError(f"Turn {index} lacks {listed(missing)}; it needs {listed(keys)}, and has {listed(turn)}.")
    return turn[who], turn[what]


def openai_content(content: Any, index: int, role: str) -> str | list[dict[str, Any]]:
    """A turn's content as a :class:`Message` takes it: the text, or its text parts.

    Raises:
        DataError: there is no text, or a part is something else.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise DataError(f"The content of turn {index} ({role!r}) {not_text(content)}")
    parts = []
    for number, part in enumerate(content):
        where = f"Part {number} of turn {index} ({role!r})"
        if not isinstance(part, Mapping):
            raise DataError(f"{where} is a {type(part).__name__}; a part is a dict with 'type' and 'text'.")
        if part.get("type") != "text":
            raise DataError(
                f"{where} has the type {part.get('type')!r}, and this transform builds conversations of text. "
                "Drop such rows with a filter_fn."
            )
        if not isinstance(part.get("text"), str):
            raise DataError(f"{where} has no string under 'text'; its keys are {listed(part)}.")
        parts.append({"type": "text", "content": part["text"]})
    return parts


def refuse_lost_fields(turn: Mapping[str, Any], index: int, role: str) -> None:
    """Refuses a turn that holds more than text, which a message of text would silently lose."""
    for key, what in _LOST_KEYS.items():
        if turn.get(key):
            raise DataError(
                f"Turn {index} ({role!r}) {what} in {key!r}, which this transform would lose. Drop such rows with a "
                "filter_fn, or tokenize them with the model's chat template, which writes it."
            )


def is_untrained(turn: Mapping[str, Any], index: int, role: str) -> bool:
    """Whether the turn asks not to be trained on: ``weight`` 0 in OpenAI's fine-tuning format; 1 is the default."""
    weight = turn.get("weight")
    if weight not in (None, 0, 1):
        raise DataError(
            f"The weight of turn {index} ({role!r}) is {weight!r}. It can be 0 (not trained) or 1; another is lost."
        )
    return weight == 0
