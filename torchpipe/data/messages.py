"""Messages: one turn of a conversation."""

from collections.abc import Iterable, Iterator, Mapping
from math import isfinite
from typing import Any, ClassVar, Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.tool_calls import ToolCall, tool_calls_of
from torchpipe.errors import MessageError

Role = Literal["system", "developer", "user", "assistant", "ipython", "tool"]
"""Who speaks. ``tool`` and ``ipython`` both are the result of a call; ``ipython`` is Llama 3's word for it.
``developer`` is OpenAI's word for who writes the system's instructions; formats without it write ``system``."""

ROLES: tuple[Role, ...] = get_args(Role)
PART_TYPES: tuple[str, ...] = ("text", "image")
RESULT_ROLES = ("tool", "ipython")


class Message:
    """One turn of a conversation.

    Args:
        role: one of system, developer, user, assistant, ipython, tool.
        content: the text, or a list of parts ``{"type": "text", "content": str}`` and
            ``{"type": "image", "content": payload}``. Stored as a new list of new dicts either way; payloads are kept
            as they are. None where there is no text beside calls or reasoning, which is a list of no parts.
        masked: True when nothing of this message is trained on.
        ipython: True when an assistant message is a call whose result the next message brings.
        eot: True when the turn ends here; False when the same speaker goes on after this message.
        tool_calls: the calls that the assistant makes: :class:`~torchpipe.data.tool_calls.ToolCall` s, or dicts in
            OpenAI's layout. In the turn they come after the content.
        reasoning: what the assistant thinks before the content, where the data keeps it apart.
        train: what the data itself says about training on this message: False masks it, and a strategy
            (:func:`~torchpipe.data.mask_messages`) changes neither True nor False; None leaves it to the strategy.
        weight: how much each trained token of this message counts in the loss; None is 1, and 0 is not trained.
        name: who speaks, among several of one role, or the tool whose result this is.
        tool_call_id: the id of the call whose result this is.

    Raises:
        DataError: an unknown role, content that is neither text nor a list of known parts, flags that are not
            booleans, ``ipython`` on a message that is not the assistant's or carries an image; calls or reasoning that
            are not the assistant's, ``tool_call_id`` on what is no result, or a field of another type.

    >>> Message("user", "Hello").content
    [{'type': 'text', 'content': 'Hello'}]
    """

    __slots__ = (
        *(
            "content",
            "eot",
            "ipython",
            "masked",
            "name",
            "reasoning",
            "role",
            "tool_call_id",
            "tool_calls",
            "train",
            "weight",
        ),
    )

    content: list[dict[str, Any]]

    def __init__(
        self,
        role: Role,
        content: str | list[dict[str, Any]] | None,
        masked: bool = False,
        ipython: bool = False,
        eot: bool = True,
        *,
        tool_calls: Iterable[ToolCall | Mapping[str, Any]] | None = (),
        reasoning: str | None = None,
        train: bool | None = None,
        weight: float | None = None,
        name: str | None = None,
        tool_call_id: str | None = None,
    ) -> None:
        if (
            type(content) is str
            and role in ROLES
            and masked is ipython is False
            and eot is True
            and not tool_calls
            and reasoning is train is weight is name is tool_call_id is None
        ):  # a text and nothing else, as most messages are: what follows would find nothing
            self.role = role
            self.content = [{"type": "text", "content": content}]
            self.masked = self.ipython = False
            self.eot = True
            self.tool_calls = ()
            self.reasoning = self.train = self.weight = self.name = self.tool_call_id = None
            return
        if role not in ROLES:
            raise MessageError(f"Unknown role {role!r}. A role is one of {listed(ROLES)}.{did_you_mean(role, ROLES)}")
        self.role: Role = role
        if content is None and role == "assistant" and (tool_calls or reasoning):
            self.content = []
        elif isinstance(content, str):
            self.content = [{"type": "text", "content": content}]
        else:
            self.content = [dict(part) for part in _checked_parts(role, content)]
        self.masked = masked if masked is True or masked is False else _as_flag(role, "masked", masked)
        self.ipython = ipython if ipython is True or ipython is False else _as_flag(role, "ipython", ipython)
        self.eot = eot if eot is True or eot is False else _as_flag(role, "eot", eot)
        if self.ipython:
            if role != "assistant":
                raise MessageError(
                    f"A {role!r} message has ipython=True, but only the assistant makes calls. "
                    "Give the call to an assistant message, and its result the role 'tool' or 'ipython'."
                )
            if self.contains_media:
                raise MessageError("An assistant message with ipython=True has an image in it; a call is text alone.")
        self.tool_calls: tuple[ToolCall, ...] = tool_calls_of(tool_calls, f"a {role!r} message") if tool_calls else ()
        self.reasoning = reasoning
        self.train = train if train is None or train is True or train is False else _as_flag(role, "train", train)
        if train is False:
            self.masked = True
        self.weight = weight
        self.name = name
        self.tool_call_id = tool_call_id
        if not (reasoning is weight is name is tool_call_id is None) or self.tool_calls:
            self._check_optional_fields()

    def _check_optional_fields(self) -> None:
        role = self.role
        for field, value in (("reasoning", self.reasoning), ("name", self.name), ("tool_call_id", self.tool_call_id)):
            if value is not None and not isinstance(value, str):
                raise MessageError(f"{field}={value!r} of a {role!r} message is a {type(value).__name__}, not text.")
        if role != "assistant" and (self.tool_calls or self.reasoning):
            held = "tool_calls" if self.tool_calls else "reasoning"
            raise MessageError(f"A {role!r} message has {held}, which only the assistant's messages may have.")
        if self.tool_call_id is not None and role not in RESULT_ROLES:
            raise MessageError(
                f"A {role!r} message has tool_call_id={self.tool_call_id!r}, but it is no result of a call: its role "
                f"would be one of {listed(RESULT_ROLES)}."
            )
        weight = self.weight
        if weight is not None:
            if (
                isinstance(weight, bool)
                or not isinstance(weight, int | float)
                or not weight >= 0
                or not isfinite(weight)
            ):
                raise MessageError(f"weight={weight!r} of a {role!r} message must be a number, 0 or above.")
            self.masked = self.masked or weight == 0

    @classmethod
    def from_dict(cls, d: Mapping[str, Any]) -> "Message":
        """The message that a dict with ``role`` and ``content`` describes.

        The class's other arguments are taken when they are there and not null (Arrow tables fill absent keys with
        nulls); other keys are ignored. For the layouts that data sets come in, see
        :func:`~torchpipe.data.from_openai`.

        Raises:
            DataError: ``role`` or ``content`` is absent, or the message is refused (see the class).
        """
        missing = [key for key in ("role", "content") if key not in d]
        if missing:
            raise MessageError(
                f"A message needs 'role' and 'content'. Missing: {listed(missing)}; the keys are {listed(d)}."
            )
        return cls(d["role"], d["content"], **{key: d[key] for key in _OPTIONAL if d.get(key) is not None})

    def with_role(self, role: Role) -> "Message":
        """A new message of another role, with all else as it is here."""
        return Message(role, list(self.content), **{key: getattr(self, key) for key in _OPTIONAL})

    def with_content(self, content: str | list[dict[str, Any]]) -> "Message":
        """A new message with another content, and all else as it is here."""
        return Message(self.role, content, **{key: getattr(self, key) for key in _OPTIONAL})

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
        """True when all fields are equal. Arrays and tensors are equal when they are the same object."""
        if not isinstance(other, Message):
            return NotImplemented
        return (
            self.role == other.role
            and all(getattr(self, key) == getattr(other, key) for key in _OPTIONAL)
            and len(self.content) == len(other.content)
            and all(_same_part(a, b) for a, b in zip(self.content, other.content, strict=True))
        )

    __hash__: ClassVar[None]  # pyright: ignore[reportIncompatibleMethodOverride]  # mutable: masks are set in place

    def __repr__(self) -> str:
        parts = [part["content"] if part["type"] == "text" else f"<{part['type']}>" for part in self.content]
        shown = parts[0] if len(parts) == 1 and self.content[0]["type"] == "text" else parts
        more = "".join(f", {key}={getattr(self, key)!r}" for key in _MORE if getattr(self, key) not in (None, ()))
        return (
            f"Message(role={self.role!r}, content={shown!r}, masked={self.masked}, "
            f"ipython={self.ipython}, eot={self.eot}{more})"
        )


_MORE = ("tool_calls", "reasoning", "train", "weight", "name", "tool_call_id")
_OPTIONAL = ("masked", "ipython", "eot", *_MORE)


def _checked_parts(role: str, content: Any) -> Iterator[Mapping[str, Any]]:
    """Each part of a list content, once it is known to be one."""
    if content is None:
        raise MessageError(
            f"The content of a {role!r} message is None. Give it an empty string if the message really is empty.",
            reason="empty",
        )
    if not isinstance(content, list):
        raise MessageError(
            f"The content of a {role!r} message is a {type(content).__name__}; it must be a string or a list of parts."
        )
    for index, part in enumerate(content):
        if type(part) is dict and part.get("type") == "text" and isinstance(part.get("content"), str):
            yield part  # what nearly every part is
            continue
        where = f"Part {index} of a {role!r} message"
        if not isinstance(part, Mapping):
            raise MessageError(f"{where} is a {type(part).__name__}; a part is a dict with 'type' and 'content'.")
        kind = part.get("type")
        if kind not in PART_TYPES:
            given = f"has the type {kind!r}" if "type" in part else f"has no 'type', only {listed(part)}"
            near = did_you_mean(kind, PART_TYPES)
            raise MessageError(f"{where} {given}. A part's type is one of {listed(PART_TYPES)}.{near}")
        if kind == "text" and not isinstance(part.get("content"), str):
            held = (
                f"is a {type(part['content']).__name__}" if "content" in part else f"is missing, it has {listed(part)}"
            )
            raise MessageError(f"{where} is text, but its 'content' {held}. It must be a string.")
        yield part


def _as_flag(role: str, name: str, value: Any) -> bool:
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise MessageError(f"{name}={value!r} of a {role!r} message is a {type(value).__name__}; it must be True or False.")


def _same_part(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    if a["type"] != b["type"]:
        return False
    left, right = a.get("content"), b.get("content")
    if left is right:
        return True
    # Comparing two arrays gives an array, which has no truth value.
    return not (hasattr(left, "shape") or hasattr(right, "shape")) and left == right
