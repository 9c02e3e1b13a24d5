"""The turns of a conversation as a row holds them, dicts in OpenAI's or ShareGPT's layout, and what becomes of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torchpipe._suggest import listed
from torchpipe.data.columns import cell, not_text
from torchpipe.data.masking import MaskingStrategy, mask_messages
from torchpipe.data.messages import RESULT_ROLES, Message, Role
from torchpipe.data.openai_dicts import CALL_ROLE, ROLE_NAMES, message_of_turn
from torchpipe.errors import ColumnError, ConfigError, DataError, MessageError, located

Style = Literal["openai", "sharegpt"]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a data set writes turns: the keys of who speaks and what, the speakers, the transform that reads it, and the
    layout that it is taken for."""

    keys: tuple[str, str]
    roles: Mapping[str, Role]
    transform: str
    other: Style


SHAREGPT_ROLES: dict[str, Role] = {
    "system": "system",
    "human": "user",
    "gpt": "assistant",
    "user": "user",
    "assistant": "assistant",
    "function_call": "assistant",
    "observation": "tool",
    "tool": "tool",
    "function_response": "tool",
    "developer": "developer",
    # As collections of shared chats name whoever answered, and whoever asked.
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "bot": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "prompter": "user",
}

_LAYOUTS: dict[Style, Layout] = {
    "openai": Layout(keys=("role", "content"), roles=ROLE_NAMES, transform="OpenAIToMessages", other="sharegpt"),
    "sharegpt": Layout(keys=("from", "value"), roles=SHAREGPT_ROLES, transform="ShareGPTToMessages", other="openai"),
}


_PLAIN_ROLES: dict[Style, dict[str, Role]] = {
    style: {
        speaker: role for speaker, role in layout.roles.items() if speaker != CALL_ROLE and role not in RESULT_ROLES
    }
    for style, layout in _LAYOUTS.items()
}
"""The speakers whose turn of text and nothing else is a message of that text."""


def turns_of(row: Mapping[str, Any], column: str, name: str) -> Sequence[Any]:
    """The list of turns in a column, which has at least one."""
    turns = cell(row, column, name)
    if not isinstance(turns, (list, tuple)):
        held = "null" if turns is None else f"a {type(turns).__name__}"
        raise ColumnError(f"Column {column!r} holds {held}; it must be a list of turns. Name the right column.")
    if not turns:
        raise DataError(f"Column {column!r} holds no turns. Drop such rows with a filter_fn.", reason="empty")
    return turns


def speaker_and_text(turn: Any, index: int, layout: Layout) -> tuple[Any, Any]:
    """Who speaks in a turn and what they say, under the layout's two keys; None where calls stand without text."""
    who, what = keys = layout.keys
    if type(turn) is dict and what in turn and turn.get(who) is not None:
        return turn[who], turn[what]
    if not isinstance(turn, Mapping):
        raise MessageError(f"Turn {index} is a {type(turn).__name__}; a turn is a dict with {listed(keys)}.")
    # Arrow gives every turn all the keys that any turn has, so a null speaker is a missing one.
    if turn.get(who) is None or (what not in turn and not (turn.get("tool_calls") or turn.get("function_call"))):
        other = _LAYOUTS[layout.other]
        if turn.get(other.keys[0]) is not None and other.keys[1] in turn:
            raise ColumnError(
                f"Turn {index} has {listed(other.keys)} instead of {listed(keys)}: this looks like the other layout. "
                f"Set conversation_style: {layout.other}, which is {other.transform}."
            )
        missing = [key for key in keys if key not in turn] or [who]
        raise ColumnError(f"Turn {index} lacks {listed(missing)}; it needs {listed(keys)}, and has {listed(turn)}.")
    return turn[who], turn.get(what)


def messages_of(
    row: Mapping[str, Any],
    column: str,
    name: str,
    *,
    style: Style,
    read_image: Callable[[Any], Any] | None,
    split_reasoning: bool = False,
    own_flags: bool = False,
) -> list[Message]:
    """The messages of a column.

    ``eot`` is False on tool and ipython messages, and on an assistant message whose result comes next.

    Args:
        row: one row of the source.
        column: where its list of turns is.
        name: the column_map key that leads there, for errors.
        style: the turns' layout.
        read_image: makes an image's payload of what the data holds for it; None refuses images.
        split_reasoning: see :func:`~torchpipe.data.from_openai`.
        own_flags: True takes ``ipython`` and ``eot`` from a turn that has them.

    Raises:
        ColumnError: there is no such column, or a turn lacks a key.
        DataError: a turn has an unknown role, or holds what its message would lose.
    """
    layout = _LAYOUTS[style]
    messages: list[Message] = []
    goes_on = True  # whether the message before can still be the call that this turn is the result of
    plain_roles = _PLAIN_ROLES[style]
    who, what = layout.keys
    for index, turn in enumerate(turns_of(row, column, name)):
        if type(turn) is dict and len(turn) == 2 and not split_reasoning:  # as most turns are
            speaker, content = turn.get(who), turn.get(what)
            if type(speaker) is str and type(content) is str and (role := plain_roles.get(speaker)) is not None:
                messages.append(Message(role, content))  # what message_of_turn makes of it
                goes_on = True
                continue
        speaker, content = speaker_and_text(turn, index, layout)
        is_result = layout.roles.get(speaker) in RESULT_ROLES if isinstance(speaker, str) else False
        if is_result and goes_on and messages and messages[-1].role == "assistant":
            messages[-1].eot = False
        flags = {key: turn[key] for key in ("ipython", "eot") if turn.get(key) is not None} if own_flags else {}
        goes_on = "eot" not in flags
        message = message_of_turn(
            turn,
            speaker,
            content,
            index=index,
            read_image=read_image,
            split=split_reasoning,
            roles=layout.roles,
            flags={"eot": not is_result, **flags},
            content_key=layout.keys[1],
        )
        messages.append(message)
    return messages


def messages_in(row: Mapping[str, Any], column: str, name: str, *, speaker: Role | None) -> list[Message]:
    """The messages of a column that holds a text, a turn, or a list of turns, of either layout, told by its keys.

    Args:
        row: one row of the source.
        column: where they are.
        name: the column_map key that leads there, for errors.
        speaker: the role of who says a text; None: a text is refused.

    Raises:
        ColumnError: there is no such column, it holds something else, or a turn lacks a key.
        DataError: a turn has an unknown role, or holds pictures, or what its message would lose.
    """
    held = cell(row, column, name)
    if isinstance(held, str) and speaker is not None:
        return [Message(speaker, held)]
    turns = [held] if isinstance(held, Mapping) else held
    if not isinstance(turns, list | tuple):
        what = "null" if held is None else f"a {type(held).__name__}"
        forms = "turns" if speaker is None else "a text, a turn, or a list of turns"
        raise ColumnError(
            f"Column {column!r} holds {what}; it must hold {forms}. Name the right column in column_map, under "
            f"{name!r}.",
            reason="empty" if held is None else None,
        )
    dicts = (turn for turn in turns if type(turn) is dict or isinstance(turn, Mapping))
    is_sharegpt = any(turn.get("from") is not None for turn in dicts)
    style: Style = "sharegpt" if is_sharegpt else "openai"
    try:
        return messages_of({column: turns}, column, name, style=style, read_image=None, own_flags=not is_sharegpt)
    except DataError as error:
        raise located(error, f"In {name!r}") from error.__cause__


def with_system_of(row: Mapping[str, Any], columns: Mapping[str, str], messages: list[Message]) -> list[Message]:
    """The messages, after a system message of the row's column for it, where the row has one with text.

    Raises:
        DataError: the column holds no text, or the turns begin with another system message.
    """
    column = columns.get("system")
    if column is None or row.get(column) in (None, ""):
        return messages
    text = row[column]
    if not isinstance(text, str):
        raise ColumnError(f"Column {column!r} {not_text(text)} Or don't read it: map 'system' to null in column_map.")
    if messages[0].role == "system":
        if messages[0].text_content == text:
            return messages
        raise MessageError(
            f"The row has a system message, and another one in column {column!r}. Map 'system' to null in column_map "
            "(chat_dataset: system_column: null) to leave the column out."
        )
    return [Message("system", text), *messages]


def tools_of(row: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Any]:
    """``{"tools": ...}``, the tools that the row offers, as they stand there: a list, or JSON text to the letter.

    An empty dict where it offers none: no column, null, an empty list, or text that says so.

    Raises:
        DataError: the column holds something else.
    """
    column = columns.get("tools")
    tools = None if column is None else row.get(column)
    if tools is None or (isinstance(tools, str) and tools.strip() in ("", "[]", "null")):
        return {}
    if not isinstance(tools, str | list | tuple):
        raise ColumnError(
            f"Column {column!r} holds a {type(tools).__name__}. Tools are a list, or a list as JSON text. Mend it, or "
            "map 'tools' to null in column_map (chat_dataset: tools_column: null) to leave the column out."
        )
    return {"tools": tools} if tools else {}


def finished(messages: list[Message], system_prompt: str | None, strategy: MaskingStrategy) -> list[Message]:
    """The messages as a transform returns them: with the new system prompt in place of theirs, and masked."""
    if system_prompt is not None:
        messages = [Message("system", system_prompt), *(m for m in messages if m.role != "system")]
    mask_messages(messages, strategy)
    return messages


def as_system_prompt(new_system_prompt: Any) -> str | None:
    """The argument itself, if it can be one.

    Raises:
        ConfigError: it is neither a string nor None.
    """
    if new_system_prompt is not None and not isinstance(new_system_prompt, str):
        raise ConfigError(f"new_system_prompt={new_system_prompt!r} must be a string, or None to add nothing.")
    return new_system_prompt
