"""The rules that the messages of a conversation keep."""

from collections.abc import Sequence

from torchpipe._suggest import listed
from torchpipe.data.messages import RESULT_ROLES, Message, Role
from torchpipe.errors import DataError


def validate_messages(messages: Sequence[Message]) -> None:
    """None, when the messages are in an order that a chat model can be trained on.

    The rules: there are at least two messages; a system message comes first or not at all, and so does a developer
    message, which may follow it; a user message does not follow a user message; an assistant message follows a user
    message or the result of a call; the result of a call (``tool``, ``ipython``) follows the assistant message that
    made it (one with ``tool_calls``, ``ipython=True`` or ``eot=False``) or another result. Where calls have ids, a
    result's ``tool_call_id`` is one of them. Calls may have fewer results than there are, or none: some data joins the
    results of parallel calls. Empty texts pass: whether a model's format allows them is the tokenizer's matter.

    Raises:
        DataError: a rule is broken; the message names the index, the role and the way out.
    """
    if len(messages) < 2:
        raise DataError(
            f"A conversation needs at least 2 messages, this one has {len(messages)}. Drop the row with a filter_fn.",
            reason="bad_role_order" if messages else "empty",
        )
    previous: Message | None = None
    open_calls: set[str | None] = set()
    for index, message in enumerate(messages):
        if not isinstance(message, Message):
            raise DataError(
                f"Message {index} is a {type(message).__name__}, not a Message. "
                "Build messages in a message_transform, or with Message.from_dict."
            )
        before = previous.role if previous is not None else None
        if (before, message.role) not in _IN_ORDER and not _is_result_of(message, previous):
            place = f"after a {before!r} message" if before is not None else "at the start"
            raise DataError(
                f"Message {index} ({message.role!r}) stands {place}, but {_RULES[message.role]}",
                reason="bad_role_order",
            )
        if message.tool_calls:
            open_calls = {call.id for call in message.tool_calls}
        elif message.tool_call_id is not None and open_calls and not open_calls & {message.tool_call_id, None}:
            raise DataError(
                f"Message {index} ({message.role!r}) is the result of the call {message.tool_call_id!r}, but the calls "
                f"before it are {listed(sorted(map(str, open_calls)))}. Mend its tool_call_id, or drop the row with a "
                "filter_fn.",
                reason="bad_role_order",
            )
        elif message.role == "assistant":
            open_calls = set()
        previous = message


# (role before, role). The one pair that depends on more is assistant, then result: see _is_result_of.
_IN_ORDER = frozenset(
    [
        (None, "system"),
        *((before, "developer") for before in (None, "system")),
        *((before, "user") for before in (None, "system", "developer", "assistant", *RESULT_ROLES)),
        *((before, "assistant") for before in ("user", *RESULT_ROLES)),
        *((before, role) for before in RESULT_ROLES for role in RESULT_ROLES),
    ]
)

_RESULT_RULE = (
    "the result of a call follows the assistant message that made it. "
    "Give that message tool_calls (or ipython=True or eot=False), or drop the row with a filter_fn."
)
_RULES: dict[Role, str] = {
    "system": "a system message may only be the first. Move it to the front, or join it to the first one.",
    "developer": "a developer message may only be the first, or the second after the system's. Move it to the front.",
    "user": "two user messages may not follow each other. Join them, or drop the row with a filter_fn.",
    "assistant": "an assistant message answers a user message or the result of a call. "
    "Add the missing turn, join the two, or drop the row with a filter_fn.",
    "tool": _RESULT_RULE,
    "ipython": _RESULT_RULE,
}


def _is_result_of(message: Message, previous: Message | None) -> bool:
    """True when the message is the result of a call that the previous one made."""
    return (
        message.role in RESULT_ROLES
        and previous is not None
        and previous.role == "assistant"
        and (bool(previous.tool_calls) or previous.ipython or not previous.eot)
    )
