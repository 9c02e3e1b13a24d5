"""The turns of a conversation as a row holds them, dicts in OpenAI's or ShareGPT's layout, and what becomes of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import cell, not_text
from torchpipe.data.images import ImageReader
from torchpipe.data.messages import ROLES, MaskingStrategy, Message, mask_messages
from torchpipe.errors import ColumnError, ConfigError, DataError, located

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


def openai_messages(
    row: Mapping[str, Any], column: str, name: str, *, images: ImageReader | None, own_flags: bool = False
) -> tuple[list[Message], list[Message]]:
    """The messages of a column in OpenAI's layout, and those among them that ask not to be trained on.

    ``eot`` is False on tool and ipython messages, and on an assistant message whose result comes next.

    Args:
        row: one row of the source.
        column: where its list of turns is.
        name: the column_map key that leads there, for errors.
        images: reads the pictures; None refuses them.
        own_flags: True takes ``ipython`` and ``eot`` from a turn that has them.

    Raises:
        ColumnError: there is no such column, or a turn lacks a key.
        DataError: a turn has an unknown role, or holds what its message would lose.
    """
    messages: list[Message] = []
    untrained: list[Message] = []
    goes_on = True  # whether the message before can still be the call that this turn is the result of
    for index, turn in enumerate(turns_of(row, column, name)):
        role, content = speaker_and_text(
            turn, index, ("role", "content"), other=("from", "value"), other_style="sharegpt"
        )
        if role not in ROLES:
            raise DataError(
                f"Turn {index} has the role {role!r}; a role is one of {listed(ROLES)}.{did_you_mean(role, ROLES)} "
                "Rename it in the source, or drop such rows with a filter_fn."
            )
        refuse_lost_fields(turn, index, role)
        is_result = role in ("tool", "ipython")
        if is_result and goes_on and messages and messages[-1].role == "assistant":
            messages[-1].eot = False
        flags = {key: turn[key] for key in ("ipython", "eot") if turn.get(key) is not None} if own_flags else {}
        goes_on = "eot" not in flags
        messages.append(Message(role, openai_content(content, index, role, images), **{"eot": not is_result, **flags}))
        if is_untrained(turn, index, role):
            untrained.append(messages[-1])
    return messages, untrained


def openai_content(
    content: Any, index: int, role: str, images: ImageReader | None = None
) -> str | list[dict[str, Any]]:
    """A turn's content as a :class:`Message` takes it: the text, or its parts.

    Raises:
        DataError: there is no text, or a part is something else.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise DataError(f"The content of turn {index} ({role!r}) {not_text(content)}")
    return [
        _openai_part(part, f"Part {number} of turn {index} ({role!r})", images) for number, part in enumerate(content)
    ]


def _openai_part(part: Any, where: str, images: ImageReader | None) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        raise DataError(f"{where} is a {type(part).__name__}; a part is a dict with 'type' and 'text'.")
    kind = part.get("type")
    if kind == "image_url" and images is not None:
        held = part.get("image_url")
        address = held.get("url") if isinstance(held, Mapping) else held
        if not isinstance(address, str):
            raise DataError(
                f"{where} has no address under 'image_url'; it must be {{'url': ...}}, with a path, an address or a "
                "data: URL."
            )
        try:
            return {"type": "image", "content": images.image(address)}
        except DataError as error:
            raise located(error, where) from error.__cause__
    if kind != "text":
        known = "text" if images is None else "text and 'image_url'"
        raise DataError(
            f"{where} has the type {kind!r}, and this transform builds conversations of {known}. "
            "Drop such rows with a filter_fn."
        )
    # Messages of one's own have their text under 'content'; Arrow fills the key that a part lacks with null.
    text = part.get("content") if part.get("text") is None else part["text"]
    if not isinstance(text, str):
        raise DataError(f"{where} has no string under 'text'; its keys are {listed(part)}.")
    return {"type": "text", "content": text}


def finished(
    messages: list[Message],
    system_prompt: str | None,
    strategy: MaskingStrategy,
    *,
    untrained: Sequence[Message] = (),
) -> list[Message]:
    """The messages as a transform returns them: with the new system prompt in place of theirs, and masked.

    Those in ``untrained`` are masked whatever the strategy says.
    """
    if system_prompt is not None:
        messages = [Message("system", system_prompt), *(m for m in messages if m.role != "system")]
    mask_messages(messages, strategy)
    for message in untrained:
        message.masked = True
    return messages


def as_system_prompt(new_system_prompt: Any) -> str | None:
    """The argument itself, if it can be one.

    Raises:
        ConfigError: it is neither a string nor None.
    """
    if new_system_prompt is not None and not isinstance(new_system_prompt, str):
        raise ConfigError(f"new_system_prompt={new_system_prompt!r} must be a string, or None to add nothing.")
    return new_system_prompt


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
