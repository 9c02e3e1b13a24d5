"""Calls that an assistant makes of tools."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torchpipe._suggest import listed
from torchpipe.errors import DataError, MessageError


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool.

    Attributes:
        name: the tool's name.
        arguments: as the data has them: a dict, or JSON text. Neither is turned into the other, and JSON text is kept
            to the letter even where it is no JSON; a dict is copied, so that nobody changes the call.
        id: what the call's result refers to; None where the data has none.
        type: "function", the only kind in use.

    Raises:
        DataError: the name is empty or no text, the arguments are neither, or the id or type is no text.

    >>> ToolCall("add", '{"a": 1,  "b": 2}').parsed()
    {'a': 1, 'b': 2}
    """

    name: str
    arguments: dict[str, Any] | str
    id: str | None = None
    type: str = "function"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise MessageError(f"The name of a tool call is {self.name!r}. It must be the tool's name, as text.")
        if isinstance(self.arguments, Mapping):
            object.__setattr__(self, "arguments", copied_json(self.arguments))
        elif not isinstance(self.arguments, str):
            held = "None" if self.arguments is None else f"a {type(self.arguments).__name__}"
            raise MessageError(
                f"The arguments of the call of {self.name!r} are {held}. They must be a dict or JSON text; a call "
                "without arguments has {}."
            )
        if self.id is not None and not isinstance(self.id, str):
            raise MessageError(f"The id of the call of {self.name!r} is {self.id!r}. It must be text, or None.")
        if not isinstance(self.type, str):
            raise MessageError(f"The type of the call of {self.name!r} is {self.type!r}. It must be 'function'.")

    def parsed(self) -> dict[str, Any]:
        """The arguments as a new dict.

        Raises:
            DataError: they are text that is no JSON object.
        """
        if not isinstance(self.arguments, str):
            return copied_json(self.arguments)
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError) as error:
            raise MessageError(
                f"The arguments of the call of {self.name!r} are no JSON ({error}): {_short(self.arguments)}. Mend "
                "them in the source, or drop such rows with a filter_fn."
            ) from None
        if not isinstance(value, dict):
            raise MessageError(
                f"The arguments of the call of {self.name!r} are JSON, but no object: {_short(self.arguments)}. Mend "
                "them in the source, or drop such rows with a filter_fn."
            )
        return value


def tool_call(value: Any, where: str) -> ToolCall:
    """The call that ``value`` describes.

    Args:
        value: a call; a dict of OpenAI's layout, ``{"type", "id", "function": {"name", "arguments"}}``; a dict
            ``{"name", "arguments"}``, perhaps with an ``id``; or JSON text of one of these.
        where: what errors call it: "Call 0 of turn 3 ('assistant')".

    Raises:
        DataError: it describes none.
    """
    if isinstance(value, ToolCall):
        return value
    if isinstance(value, str):
        value = _parsed_call(value, where)
    if not isinstance(value, Mapping):
        raise MessageError(f"{where} is a {type(value).__name__}. It must be a dict with 'name' and 'arguments'.")
    function = value.get("function")
    described = value if function is None else function
    if not isinstance(described, Mapping):
        raise MessageError(f"{where} has a {type(described).__name__} under 'function'. It must be a dict.")
    missing = [key for key in ("name", "arguments") if described.get(key) is None]
    if missing:
        raise MessageError(
            f"{where} lacks {listed(missing)}; it has {listed(key for key in described if described[key] is not None)}."
            " Mend it in the source, or drop such rows with a filter_fn."
        )
    kind = value.get("type")
    try:
        return ToolCall(
            described["name"], described["arguments"], value.get("id"), "function" if kind is None else kind
        )
    except DataError as error:
        raise MessageError(f"{where}: {error}") from None


def tool_calls_of(values: Any, where: str) -> tuple[ToolCall, ...]:
    """The calls of a list of them, in order; of null none.

    Raises:
        DataError: it is no list, or holds something that describes no call.
    """
    if values is None:
        return ()
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise MessageError(f"The tool_calls of {where} are a {type(values).__name__}. They must be a list of calls.")
    return tuple(tool_call(value, f"Call {index} of {where}") for index, value in enumerate(values))


def calls_in_text(text: str, where: str) -> tuple[ToolCall, ...]:
    """The calls of a JSON text: one call, or a list of them. Arguments are what the JSON holds there.

    Raises:
        DataError: it is no JSON, or describes something else.
    """
    value = _parsed_call(text, where)
    if isinstance(value, list):
        return tool_calls_of(value, where)
    return (tool_call(value, where),)


def copied_json(value: Any) -> Any:
    """A copy whose dicts and lists are new; what they hold in the end is the same."""
    if isinstance(value, Mapping):
        return {key: copied_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [copied_json(item) for item in value]
    return value


def _parsed_call(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(
            f"{where} is text that is no JSON ({error}): {_short(text)}. Mend it in the source, or drop such rows with "
            "a filter_fn."
        ) from None


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
