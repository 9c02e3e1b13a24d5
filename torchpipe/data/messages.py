"""Messages: one turn of a conversation, the rules that a list of them keeps, and which of them are trained on."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar, Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.errors import ConfigError, DataError

Role = Literal["system", "user", "assistant", "ipython", "tool"]
"""Who speaks. ``tool`` and ``ipython`` both are the result of a call; ``ipython`` is Llama 3's word for it."""

ROLES: tuple[str, ...] = get_args(Role)
PART_TYPES: tuple[str, ...] = ("text", "image")
_RESULT_ROLES = ("tool", "ipython")


class Message:
    """One turn of a conversation.

    Args:
        role: one of system, user, assistant, ipython, tool.
        content: the text, or a list of parts ``{"type": "text", "content": str}`` and
            ``{"type": "image", "content": payload}``. Stored as a new list of new dicts either way; payloads are kept
            as they are.
        masked: True when nothing of this message is trained on.
        ipython: True when an assistant message is a call whose result the next message brings.
        eot: True when the turn ends here; False when the same speaker goes on after this message.

    Raises:
        DataError: an unknown role, content that is neither text nor a list of known parts, flags that are not
            booleans, or ``ipython`` on a message that is not the assistant's or carries an image.

    >>> Message("user", "Hello").content
    [{'type': 'text', 'content': 'Hello'}]
    """

    __slots__ = ("content", "eot", "ipython", "masked", "role")

    content: list[dict[str, Any]]

    def __init__(
        self,
        role: Role,
        content: str | list[dict[str, Any]],
        masked: bool = False,
        ipython: bool = False,
        eot: bool = True,
    ) -> None:
        if role not in ROLES:
            raise DataError(f"Unknown role {role!r}. A role is one of {listed(ROLES)}.{did_you_mean(role, ROLES)}")
        self.role: Role = role
        if isinstance(content, str):
            self.content = [{"type": "text", "content": content}]
        else:
            self.content = [dict(part) for part in _checked_parts(role, content)]
        self.masked = masked if masked is True or masked is False else _as_flag(role, "masked", masked)
        self.ipython = ipython if ipython is True or ipython is False else _as_flag(role, "ipython", ipython)
        self.eot = eot if eot is True or eot is False else _as_flag(role, "eot", eot)
        if self.ipython:
            if role != "assistant":
                raise DataError(
                    f"A {role!r} message has ipython=True, but only the assistant makes calls. "
                    "Give the call to an assistant message, and its result the role 'tool' or 'ipython'."
                )
            if self.contains_media:
                raise DataError("An assistant message with ipython=True has an image in it; a call is text alone.")

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "Message":
        """The message that a dict with ``role`` and ``content`` describes.

        ``masked``, ``ipython`` and ``eot`` are taken when they are there and not null (Arrow tables fill absent keys
        with nulls); other keys are ignored.

        Raises:
            DataError: ``role`` or ``content`` is absent, or the message is refused (see the class).
        """
        missing = [key for key in ("role", "content") if key not in d]
        if missing:
            raise DataError(
                f"A message needs 'role' and 'content'. Missing: {listed(missing)}; the keys are {listed(d)}."
            )
        flags = {key: d[key] for key in ("masked", "ipython", "eot") if d.get(key) is not None}
        return cls(d["role"], d["content"], **flags)

    def get_media(self) -> list[Any]:
        """The payloads of the image parts, in order; None for an image part that carries none."""
        return [part.get("content") for part in self.content if part["type"] == "image"]

    @property
    def contains_media(self) -> bool:
        """True when a part is an image."""
        return any(part["type"] == "image" for part in self.content)

    @property
    def text_content(self) -> str:
        """The text parts joined, with nothing between them."""
        return "".join(part["content"] for part in self.content if part["type"] == "text")

    def __eq__(self, other: object) -> bool:
        """True when role, flags and parts are equal. Arrays and tensors are equal when they are the same object."""
        if not isinstance(other, Message):
            return NotImplemented
        return (
            self.role == other.role
            and self.masked == other.masked
            and self.ipython == other.ipython
            and self.eot == other.eot
            and len(self.content) == len(other.content)
            and all(_same_part(a, b) for a, b in zip(self.content, other.content, strict=True))
        )

    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]  # mutable: masks are set in place

    def __repr__(self) -> str:
        parts = [part["content"] if part["type"] == "text" else f"<{part['type']}>" for part in self.content]
        shown = parts[0] if len(parts) == 1 and self.content[0]["type"] == "text" else parts
        return (
            f"Message(role={self.role!r}, content={shown!r}, masked={self.masked}, "
            f"ipython={self.ipython}, eot={self.eot})"
        )


def _checked_parts(role: str, content: Any) -> Iterator[Mapping[str, Any]]:
    """Each part of a list content, once it is known to be one."""
    if content is None:
        raise DataError(
            f"The content of a {role!r} message is None. Give it an empty string if the message really is empty."
        )
    if not isinstance(content, list):
        raise DataError(
            f"The content of a {role!r} message is a {type(content).__name__}; it must be a string or a list of parts."
        )
    for index, part in enumerate(content):
        if type(part) is dict and part.get("type") == "text" and isinstance(part.get("content"), str):
            yield part  # what nearly every part is
            continue
        where = f"Part {index} of a {role!r} message"
        if not isinstance(part, Mapping):
            raise DataError(f"{where} is a {type(part).__name__}; a part is a dict with 'type' and 'content'.")
        kind = part.get("type")
        if kind not in PART_TYPES:
            given = f"has the type {kind!r}" if "type" in part else f"has no 'type', only {listed(part)}"
            near = did_you_mean(kind, PART_TYPES)
            raise DataError(f"{where} {given}. A part's type is one of {listed(PART_TYPES)}.{near}")
        if kind == "text" and not isinstance(part.get("content"), str):
            held = (
                f"is a {type(part['content']).__name__}" if "content" in part else f"is missing, it has {listed(part)}"
            )
            raise DataError(f"{where} is text, but its 'content' {held}. It must be a string.")
        yield part


def _as_flag(role: str, name: str, value: Any) -> bool:
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise DataError(f"{name}={value!r} of a {role!r} message is a {type(value).__name__}; it must be True or False.")


def _same_part(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if a["type"] != b["type"]:
        return False
    left, right = a.get("content"), b.get("content")
    if left is right:
        return True
    # Comparing two arrays gives an array, which has no truth value.
    return not (hasattr(left, "shape") or hasattr(right, "shape")) and left == right


def validate_messages(messages: Sequence[Message]) -> None:
    """None, when the messages are in an order that a chat model can be trained on.

    The rules: there are at least two messages; a system message comes first or not at all; a user message does not
    follow a user message; an assistant message follows a user message or the result of a call; the result of a call
    (``tool``, ``ipython``) follows the assistant message that made it (one with ``ipython=True`` or ``eot=False``) or
    another result of the same call. Empty texts pass: whether a model's format allows them is the tokenizer's matter.

    Raises:
        DataError: a rule is broken; the message names the index, the role and the way out.
    """
    if len(messages) < 2:
        raise DataError(
            f"A conversation needs at least 2 messages, this one has {len(messages)}. Drop the row with a filter_fn."
        )
    previous: Message | None = None
    for index, message in enumerate(messages):
        if not isinstance(message, Message):
            raise DataError(
                f"Message {index} is a {type(message).__name__}, not a Message. "
                "Build messages in a message_transform, or with Message.from_dict."
            )
        before = previous.role if previous is not None else None
        if (before, message.role) not in _IN_ORDER and not _is_result_of(message, previous):
            place = f"after a {before!r} message" if before is not None else "at the start"
            raise DataError(f"Message {index} ({message.role!r}) stands {place}, but {_RULES[message.role]}")
        previous = message


# (role before, role). The one pair that depends on more is assistant, then result: see _is_result_of.
_IN_ORDER = frozenset(
    [
        (None, "system"),
        *((before, "user") for before in (None, "system", "assistant", *_RESULT_ROLES)),
        *((before, "assistant") for before in ("user", *_RESULT_ROLES)),
        *((before, role) for before in _RESULT_ROLES for role in _RESULT_ROLES),
    ]
)

_RESULT_RULE = (
    "the result of a call follows the assistant message that made it. "
    "Set ipython=True or eot=False on that message, or drop the row with a filter_fn."
)
_RULES: dict[Role, str] = {
    "system": "a system message may only be the first. Move it to the front, or join it to the first one.",
    "user": "two user messages may not follow each other. Join them, or drop the row with a filter_fn.",
    "assistant": "an assistant message answers a user message or the result of a call. "
    "Add the missing turn, join the two, or drop the row with a filter_fn.",
    "tool": _RESULT_RULE,
    "ipython": _RESULT_RULE,
}


def _is_result_of(message: Message, previous: Message | None) -> bool:
    """True when the message is the result of a call that the previous one made."""
    return (
        message.role in _RESULT_ROLES
        and previous is not None
        and previous.role == "assistant"
        and (previous.ipython or not previous.eot)
    )


class MaskingStrategy(Enum):
    """Which messages are trained on. System messages never are."""

    TRAIN_ON_ALL = "train_on_all"
    """Every message, except user messages with an image in them."""
    TRAIN_ON_ASSISTANT = "train_on_assistant"
    """Every assistant message."""
    TRAIN_ON_LAST = "train_on_last"
    """The last assistant message alone."""


def _strategy(value: object) -> MaskingStrategy:
    if isinstance(value, MaskingStrategy):
        return value
    try:
        return MaskingStrategy(value)
    except ValueError:
        known = [strategy.value for strategy in MaskingStrategy]
        raise ConfigError(
            f"Unknown masking strategy {value!r}. It is one of {listed(known)}.{did_you_mean(value, known)}"
        ) from None


def mask_messages(messages: Sequence[Message], masking_strategy: str | MaskingStrategy) -> None:
    """None; sets ``masked`` on every message in place, whatever it was before.

    Raises:
        ConfigError: the strategy is none of the three.
    """
    strategy = _strategy(masking_strategy)
    trained_last = False
    for message in reversed(messages):
        if message.role == "system":
            message.masked = True
        elif strategy is MaskingStrategy.TRAIN_ON_ALL:
            message.masked = message.role == "user" and message.contains_media
        elif strategy is MaskingStrategy.TRAIN_ON_ASSISTANT:
            message.masked = message.role != "assistant"
        else:
            message.masked = message.role != "assistant" or trained_last
            trained_last = trained_last or message.role == "assistant"


def resolve_masking_strategy(
    train_on_input: bool | None,
    masking_strategy: str | MaskingStrategy | None,
    *,
    default: str | MaskingStrategy,
    stacklevel: int = 3,
) -> MaskingStrategy:
    """The one strategy that two arguments ask for: the current one, and the deprecated ``train_on_input``.

    Neither given: ``default``. ``train_on_input`` given: a DeprecationWarning, and True means train_on_all, False
    train_on_assistant. Both given: they must agree.

    Args:
        train_on_input: the deprecated switch, None when it was not given.
        masking_strategy: the strategy by name or member, None when it was not given.
        default: what to use when neither is given.
        stacklevel: where the warning points; 3 is the caller of the function that calls this one.

    Raises:
        ConfigError: an unknown strategy, a ``train_on_input`` that is not a boolean, or two answers that differ.
    """
    asked = None if masking_strategy is None else _strategy(masking_strategy)
    if train_on_input is None:
        return asked or _strategy(default)
    if not isinstance(train_on_input, bool):
        raise ConfigError(f"train_on_input={train_on_input!r} is not True or False. Use masking_strategy instead.")
    meant = MaskingStrategy.TRAIN_ON_ALL if train_on_input else MaskingStrategy.TRAIN_ON_ASSISTANT
    if asked is not None and asked is not meant:
        raise ConfigError(
            f"train_on_input={train_on_input} means masking_strategy={meant.value!r}, but masking_strategy="
            f"{asked.value!r} was given as well. Remove train_on_input."
        )
    warnings.warn(
        f"train_on_input is deprecated: write masking_strategy={meant.value!r} for train_on_input={train_on_input}.",
        DeprecationWarning,
        stacklevel=stacklevel,
    )
    return meant
