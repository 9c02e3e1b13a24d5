"""Refusing what a chat format has no place for, instead of losing it."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from torchpipe.data.messages import RESULT_ROLES, Message
from torchpipe.errors import UnwritableError

Field = Literal["tool_calls", "reasoning", "name"]
"""A field of a message that not every format writes. ``name`` is that of a speaker: the name and ``tool_call_id`` of a
call's result only point to the call, so nothing is lost with them."""

_FIELDS: Mapping[Field, str] = {
    "tool_calls": "calls of tools",
    "reasoning": "reasoning apart from its text",
    "name": "a speaker's name",
}
_NOTHING: frozenset[Field] = frozenset()


def refuse_unwritable(
    message: Message, index: int, can_write: Collection[Field] = _NOTHING, *, format_name: str = "chat"
) -> None:
    """None, when the format has a place for all that the message holds beside its content.

    Args:
        message: the message.
        index: its place in the conversation.
        can_write: the fields that the format has a place for.
        format_name: the format, for the error.

    Raises:
        DataError: it has none for a field of the message, which would be lost.
    """
    if not (message.tool_calls or message.reasoning or message.name):
        return
    for field, what in _FIELDS.items():
        if not getattr(message, field) or field in can_write or (field == "name" and message.role in RESULT_ROLES):
            continue
        raise UnwritableError(
            f"Message {index} ({message.role}) has {what} in {field!r}, and the {format_name} format has no place for "
            "it. Tokenize such rows with the model's chat template, leave the field out in a message_transform, or "
            "drop them with a filter_fn."
        )


def refuse_tools(sample: Mapping[str, Any], *, format_name: str = "chat") -> None:
    """None, when the sample offers no tools.

    Raises:
        DataError: it has ``tools``, for which the format has no place.
    """
    if sample.get("tools"):
        raise UnwritableError(
            f"The row offers tools, and the {format_name} format has no place for them. Tokenize such rows with the "
            "model's chat template, or map 'tools' to null in the column_map of the message_transform (chat_dataset: "
            "tools_column: null) to leave them out."
        )


def with_known_roles(messages: Sequence[Message], roles: Collection[str], *, format_name: str) -> Sequence[Message]:
    """The messages, a developer message as the system's where the format has no role for it; the given ones stay.

    Raises:
        DataError: there is a system message as well, whose place is taken.
    """
    if "developer" in roles or all(message.role != "developer" for message in messages):
        return messages
    if any(message.role == "system" for message in messages):
        index = next(index for index, message in enumerate(messages) if message.role == "developer")
        raise UnwritableError(
            f"Message {index} (developer) stands beside a system message, and the {format_name} format has one place "
            "for both. Join them in a message_transform, or drop the row with a filter_fn."
        )
    return [message.with_role("system") if message.role == "developer" else message for message in messages]
