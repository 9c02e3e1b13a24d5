"""Messages as OpenAI's chat API writes them, and as data sets vary that, to :class:`Message` and back."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import not_text
from torchpipe.data.messages import ROLES, Message, Role
from torchpipe.data.tool_calls import ToolCall, calls_in_text, copied_json, tool_call, tool_calls_of
from torchpipe.data.turn_flags import turn_flags
from torchpipe.errors import DataError, MessageError, located

ROLE_NAMES: dict[str, Role] = {
    **{role: role for role in ROLES},
    "function": "tool",
    "observation": "tool",
    "function_call": "assistant",
    "prompter": "user",
}
"""The roles of data sets. A ``function_call`` turn's content is a call, or a list of calls, as JSON text."""

REASONING_KEYS = ("reasoning_content", "thinking", "reasoning")
"""The keys under which turns hold reasoning, and templates look for it; in the order in which transformers 5 does."""
CALL_ROLE = "function_call"

# What a message has no place for: the turn is refused, not robbed of it.
_LOST = {
    "refusal": "holds a refusal",
    "audio": "holds audio",
    "train_detail": "says which of its characters are trained",
    "training_detail": "says which of its characters are trained",
}
_PLAIN_KEYS = frozenset(["role", "content", "from", "value"])
_CALL_KEYS = ("tool_calls", "tool_call_id", "function_call")
_THINK, _THINK_END = "<think>", "</think>"

ReadImage = Callable[[Any], Any]


def as_openai(message: Message, *, reasoning_key: str = "reasoning_content") -> dict[str, Any]:
    """The message as a chat template or an OpenAI-like API takes it.

    ``content`` is the text of a message of one text part, null where calls or reasoning have no text beside them, else
    a list of ``{"type": "text", "text": ...}`` and ``{"type": "image", "image": payload}``. ``tool_calls``, reasoning,
    ``name`` and ``tool_call_id`` are there where the message has them; arguments are what they were, dict or text.
    :func:`from_openai` makes an equal message of it, but for what is no part of a conversation: ``masked``, ``train``,
    ``weight``, ``ipython`` and ``eot``.

    Args:
        message: the message.
        reasoning_key: the key under which the reader looks for reasoning; some look under "reasoning" or "thinking".

    >>> as_openai(Message("assistant", None, tool_calls=[ToolCall("now", "{}")]))["tool_calls"]
    [{'type': 'function', 'function': {'name': 'now', 'arguments': '{}'}}]
    """
    parts = message.content
    content: Any
    if len(parts) == 1 and parts[0]["type"] == "text":
        content = parts[0]["content"]
    elif parts:
        content = [_part_as_openai(part) for part in parts]
    else:
        content = None if message.tool_calls or message.reasoning else ""
    turn: dict[str, Any] = {"role": message.role, "content": content}
    if message.reasoning is not None:
        turn[reasoning_key] = message.reasoning
    if message.tool_calls:
        turn["tool_calls"] = [_call_as_openai(call) for call in message.tool_calls]
    if message.name is not None:
        turn["name"] = message.name
    if message.tool_call_id is not None:
        turn["tool_call_id"] = message.tool_call_id
    return turn


def _part_as_openai(part: Mapping[str, Any]) -> dict[str, Any]:
    key = "text" if part["type"] == "text" else "image"
    rest = {name: value for name, value in part.items() if name not in ("type", "content")}
    return {"type": part["type"], key: part.get("content"), **rest}


def _call_as_openai(call: ToolCall) -> dict[str, Any]:
    id_ = {} if call.id is None else {"id": call.id}
    return {**id_, "type": call.type, "function": {"name": call.name, "arguments": copied_json(call.arguments)}}


def from_openai(turn: Mapping[str, Any], *, index: int | None = None, split_reasoning: bool = False) -> Message:
    """The message that a turn describes; nothing of it is lost without an error.

    Understood are, beside ``role`` and ``content`` (text, null beside calls or reasoning, or a list of parts):
    ``tool_calls``, ``function_call``, ``reasoning_content``, ``reasoning``, ``thinking``, ``name``, ``tool_call_id``,
    and what :func:`~torchpipe.data.turn_flags.turn_flags` reads. The role of a ``function`` or ``observation`` turn
    becomes ``tool``, that of a ``function_call`` turn, whose content is JSON text, ``assistant``; ``prompter`` is
    ``user``, and ``developer`` stays. Parts have the types text, image, image_url, reasoning (or thinking) and
    tool_call, and their value under that name, "text", "content" or "value". Payloads of images are taken as they are.

    Args:
        turn: the dict.
        index: its place in the conversation, for errors.
        split_reasoning: True takes a ``<think>...</think>`` at the start of an assistant's text out of it, as
            ``reasoning``, with the line breaks around both removed; False leaves it in the text.

    Raises:
        DataError: the turn describes no message, or holds what a message would lose.

    >>> from_openai({"role": "assistant", "content": "2", "reasoning": "1 + 1 = 2"})
    Message(role='assistant', content='2', masked=False, ipython=False, eot=True, reasoning='1 + 1 = 2')
    """
    if not isinstance(turn, Mapping) or turn.get("role") is None:
        held = f"has {listed(turn)}" if isinstance(turn, Mapping) else f"is a {type(turn).__name__}"
        raise MessageError(f"A turn is a dict with 'role' and 'content'; this one {held}.")
    return message_of_turn(
        turn, turn["role"], turn.get("content"), index=index, read_image=lambda held: held, split=split_reasoning
    )


def message_of_turn(
    turn: Mapping[str, Any],
    speaker: Any,
    content: Any,
    *,
    index: int | None = None,
    read_image: ReadImage | None = None,
    split: bool = False,
    roles: Mapping[str, Role] = ROLE_NAMES,
    flags: Mapping[str, Any] | None = None,
    content_key: str = "content",
) -> Message:
    """The message of a turn.

    Args:
        turn: the dict, for its other keys.
        speaker, content: who speaks, and what they say.
        index: its place in the conversation.
        read_image: makes an image's payload of what the data holds for it; None refuses images.
        split: see ``split_reasoning`` of :func:`from_openai`.
        roles: the speakers that there are.
        flags: ``ipython`` and ``eot`` of the message.
        content_key: the key of the content, for errors.

    Raises:
        DataError: the turn describes no message, or holds what a message would lose.
    """
    role = roles.get(speaker) if isinstance(speaker, str) else None
    if role is not None and type(content) is str and speaker != CALL_ROLE and not (split and _THINK in content):
        for key, value in turn.items():
            if value is not None and key not in _PLAIN_KEYS:
                break
        else:  # text and nothing more, as most turns are
            return Message(role, content, **(flags or {}))
    turn_name = "the turn" if index is None else f"turn {index}"
    if role is None:
        raise MessageError(
            f"{_capital(turn_name)} has the role {speaker!r}; a role is one of {listed(roles)}."
            f"{did_you_mean(speaker, roles)} Rename it in the source, or drop such rows with a filter_fn."
        )
    where = f"{turn_name} ({speaker!r})"
    _refuse_lost(turn, where)
    said = _content(content, where, read_image, is_call=speaker == CALL_ROLE, key=content_key)
    calls = _calls(turn, where) or said.calls
    if said.calls and calls is not said.calls:
        raise MessageError(f"{_capital(where)} has calls among its parts and in 'tool_calls'. Keep one of them.")
    reasoning = _reasoning(turn, said.reasoning, where)
    parts = said.parts
    if parts is None and not (role == "assistant" and (calls or reasoning)):
        raise MessageError(f"The {content_key} of {where} {not_text(None)}", reason="empty")
    if split and role == "assistant" and reasoning is None and parts:
        reasoning, parts = split_think(parts)
    own = turn_flags(turn, where)
    try:
        return Message(
            role,
            parts,
            **(flags or {}),
            tool_calls=calls,
            reasoning=reasoning,
            train=own.train,
            weight=own.weight,
            name=turn.get("name") or None,
            tool_call_id=turn.get("tool_call_id") or None,
        )
    except DataError as error:
        raise located(error, _capital(where)) from None


class _Said(NamedTuple):
    """The parts of a content; None where it is null."""

    parts: str | list[dict[str, Any]] | None
    reasoning: str | None = None
    calls: tuple[ToolCall, ...] = ()


def _content(content: Any, where: str, read_image: ReadImage | None, *, is_call: bool, key: str) -> _Said:
    if is_call:
        if not isinstance(content, str):
            raise MessageError(f"The {key} of {where} {not_text(content)}", reason="empty" if content is None else None)
        # Some data thinks before it calls, in one text.
        end = content.find(_THINK_END) + len(_THINK_END) if content.lstrip().startswith(_THINK) else 0
        rest = content[max(end, 0) :]
        before = content[: len(content) - len(rest.lstrip())]
        return _Said(before if end else None, calls=calls_in_text(rest, _capital(where)))
    if content is None or isinstance(content, str):
        return _Said(content)
    if not isinstance(content, list):
        raise MessageError(f"The {key} of {where} {not_text(content)}", reason="empty" if content is None else None)
    parts: list[dict[str, Any]] = []
    reasoning: str | None = None
    calls: list[ToolCall] = []
    for number, part in enumerate(content):
        place = f"Part {number} of {where}"
        if not isinstance(part, Mapping):
            raise MessageError(f"{place} is a {type(part).__name__}; a part is a dict with 'type' and 'text'.")
        kind = part.get("type")
        if kind in ("reasoning", "thinking"):
            if parts or calls or reasoning is not None:
                raise MessageError(
                    f"{place} is reasoning after other parts, and a message has one reasoning, before its text. Drop "
                    "such rows with a filter_fn, or join the parts in a message_transform."
                )
            reasoning = _text(part, place, ("reasoning", "thinking"))
        elif kind == "tool_call":
            calls.append(tool_call(_held(part, ("tool_call",)) or part, place))
        elif calls:
            raise MessageError(
                f"{place} comes after a call, and a message's calls come after its text. Drop such rows with a "
                "filter_fn, or make two messages of the turn in a message_transform."
            )
        else:
            parts.append(_part(part, kind, place, read_image))
    has_more = reasoning is not None or calls
    return _Said(parts if parts or not has_more else None, reasoning, tuple(calls))


def _part(part: Mapping[str, Any], kind: Any, place: str, read_image: ReadImage | None) -> dict[str, Any]:
    if kind in ("image_url", "image") and read_image is not None:
        held = _held(part, ("image_url", "image", "url"))
        image = held.get("url", held) if isinstance(held, Mapping) else held
        if image is None or (kind == "image_url" and not isinstance(image, str)):
            raise MessageError(
                f"{place} has no address under {kind!r}; it must be {{'url': ...}}, with a path, an address or a "
                "data: URL."
            )
        try:
            return {"type": "image", "content": read_image(image)}
        except DataError as error:
            raise located(error, place) from error.__cause__
    if kind != "text":
        known = ["text", *(["image", "image_url"] if read_image is not None else []), "reasoning", "tool_call"]
        raise MessageError(
            f"{place} has the type {kind!r}, and this transform builds conversations of {listed(known)}. "
            "Drop such rows with a filter_fn."
        )
    return {"type": "text", "content": _text(part, place, ())}


def _held(part: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """What a part holds; Arrow fills the keys that a part lacks with null."""
    return next((part[key] for key in (*names, "text", "content", "value") if part.get(key) is not None), None)


def _text(part: Mapping[str, Any], place: str, names: tuple[str, ...]) -> str:
    text = _held(part, names)
    if not isinstance(text, str):
        raise MessageError(f"{place} has no string under 'text'; its keys are {listed(part)}.")
    return text


def _calls(turn: Mapping[str, Any], where: str) -> tuple[ToolCall, ...]:
    calls, old = turn.get("tool_calls"), turn.get("function_call")
    if calls and old:
        raise MessageError(f"{_capital(where)} has both 'tool_calls' and 'function_call'. Keep one of them.")
    return (tool_call(old, f"The function_call of {where}"),) if old else tool_calls_of(calls, where)


def _reasoning(turn: Mapping[str, Any], of_parts: str | None, where: str) -> str | None:
    held = {key: turn[key] for key in REASONING_KEYS if turn.get(key) is not None}
    if of_parts is not None:
        held["a part"] = of_parts
    for key, value in held.items():
        if not isinstance(value, str):
            raise MessageError(f"{key!r} of {where} is a {type(value).__name__}. Reasoning must be text.")
    texts = list(dict.fromkeys(value for value in held.values() if value)) or list(held.values())[:1]
    if len(texts) > 1:
        raise MessageError(f"{_capital(where)} has different reasoning in {listed(held)}. Keep one of them.")
    return texts[0] if texts else None


def _refuse_lost(turn: Mapping[str, Any], where: str) -> None:
    for key, value in turn.items():
        if not value or not isinstance(key, str):
            continue
        what = _LOST.get(key)
        if what is None and key.startswith(("tool_call", "function_call")) and key not in _CALL_KEYS:
            what = "has a call"
        if what is not None:
            raise MessageError(
                f"{_capital(where)} {what} in {key!r}, which a message has no place for. Drop such rows with a "
                "filter_fn, or write a message_transform that reads it."
            )


def split_think(parts: str | list[dict[str, Any]]) -> tuple[str | None, str | list[dict[str, Any]]]:
    r"""The reasoning in ``<think>...</think>`` at the start of a text, and the content without it.

    The line breaks at both ends of the reasoning and at the start of what follows are removed, as Qwen3's template
    does. Without such a beginning, None and the content as it is.

    >>> split_think("<think>\n1 + 1 = 2\n</think>\n\n2")
    ('1 + 1 = 2', '2')
    """
    text = parts if isinstance(parts, str) else parts[0]["content"] if parts[0]["type"] == "text" else ""
    start, end = text.find(_THINK), text.find(_THINK_END)
    if start < 0 or end < start or text[:start].strip():
        return None, parts
    reasoning, rest = text[start + len(_THINK) : end].strip("\n"), text[end + len(_THINK_END) :].lstrip("\n")
    return reasoning, rest if isinstance(parts, str) else [{**parts[0], "content": rest}, *parts[1:]]


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
