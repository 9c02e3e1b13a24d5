"""What a template is given, with each string wrapped so that it knows where it came from."""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from torchpipe.data.openai_dicts import REASONING_KEYS
from torchpipe.errors import MessageError
from torchpipe.tokenizers.jinja.messages import RowMessage
from torchpipe.tokenizers.jinja.provenance import OPTIONS, TOOLS, Source, make_run
from torchpipe.tokenizers.jinja.text import TracedText

_plain = str.__new__
_SHORT_OPTION = 1024  # characters

# Names of the message format. They are the format's words and stay plain, except within a call's arguments, where
# every key is the caller's.
_FORMAT_KEYS = frozenset(
    (
        *("role", "content", "name", "tool_calls", "tool_call_id", "id", "type", "function", "arguments"),
        *("parameters", "text", "reasoning", "reasoning_content", "thinking"),
        *("image", "image_url", "audio", "video", "url"),
    )
)

_TOO_DEEP = "is nested too deeply, or holds itself. Mend it in the source, or drop such rows with a filter_fn."
_WITHOUT_TEXT = frozenset((int, float, bool, type(None), FunctionType, BuiltinFunctionType, MethodType))


def traced_messages(messages: Any) -> list[Any]:
    """OpenAI messages with each string wrapped. A role stays plain: templates write it as part of their own text.

    Raises:
        DataError: a message is nested too deeply, or holds itself.
    """
    wrapped = []
    for i, message in enumerate(messages):
        try:
            wrapped.append(_wrapped_dict(message, i, (), True) if isinstance(message, Mapping) else message)
        except RecursionError:
            raise MessageError(f"Message {i} {_TOO_DEEP}") from None
    return wrapped


def row_messages(messages: Sequence[Mapping[str, Any]]) -> list[RowMessage]:
    """The same as messages that know their place, and whose reasoning is one text under however many names.

    Raises:
        DataError: a message is nested too deeply, or holds itself.
    """
    rows = []
    for index, message in enumerate(messages):
        row = RowMessage()
        row.index = index
        try:
            for key, item in message.items():
                if key != "role":
                    if type(item) is str:
                        item = traced_text(index, (key,), item)
                    elif type(item) not in _WITHOUT_TEXT:
                        item = _wrapped(item, index, (key,), key != "arguments")
                row[key if key in _FORMAT_KEYS else _wrapped_key(key, index)] = item
        except RecursionError:
            raise MessageError(f"Message {index} {_TOO_DEEP}") from None
        if len(row) > 2:
            _share_reasoning(row)
        rows.append(row)
    return rows


def _share_reasoning(message: dict[str, Any]) -> None:
    """Makes reasoning that stands under several names one text: a template writes one of them."""
    names = [key for key in REASONING_KEYS if key in message]
    for key in names[1:]:
        if message[key] == message[names[0]]:
            message[key] = message[names[0]]


def traced_tools(tools: Any) -> Any:
    """Tool schemas with each string and each key wrapped.

    Raises:
        DataError: they are nested too deeply, or hold themselves.
    """
    try:
        return _wrapped(tools, TOOLS, (), False)
    except RecursionError:
        raise MessageError(f"The row's tools: one {_TOO_DEEP}") from None


def traced_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with each string wrapped, except the texts of control tokens (``bos_token`` and the like)."""
    wrapped = dict(options)
    for name, value in options.items():
        if type(value) not in _WITHOUT_TEXT and not name.endswith("_token"):
            is_short = type(value) is str and len(value) <= _SHORT_OPTION
            wrapped[name] = _option_text(name, value) if is_short else _wrapped(value, OPTIONS, (name,), False)
    return wrapped


@lru_cache(maxsize=256)
def _option_text(name: str, value: str) -> TracedText:
    """An option's text, which is the same for all rows: made once."""
    return TracedText.of(Source(OPTIONS, (name,), value))


def _wrapped(value: Any, message: int, path: tuple[str | int, ...], format_keys: bool) -> Any:
    """Any value, with the strings inside wrapped; what is wrapped already stays."""
    if type(value) is str:
        return traced_text(message, path, value)
    if isinstance(value, Mapping):
        return _wrapped_dict(value, message, path, format_keys)
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        make = getattr(value, "_make", type(value))  # a named tuple is made otherwise
        return make([_wrapped(item, message, (*path, i), format_keys) for i, item in enumerate(value)])
    if isinstance(value, str):  # numpy's, an enum's
        return value if isinstance(value, TracedText) else TracedText.of(Source(message, path, str.__str__(value)))
    if getattr(getattr(value, "dtype", None), "kind", "") in ("O", "S", "T", "U"):  # numpy's arrays of texts
        return _wrapped(value.tolist(), message, path, format_keys)
    return value


def _wrapped_dict(
    value: Mapping[Any, Any], message: int, path: tuple[str | int, ...], format_keys: bool
) -> dict[Any, Any]:
    wrapped: dict[Any, Any] = {}
    for key, item in value.items():
        if path or key != "role":
            if type(item) is str:
                item = traced_text(message, (*path, key), item)
            elif type(item) not in _WITHOUT_TEXT:
                item = _wrapped(item, message, (*path, key), format_keys and key != "arguments")
        wrapped[key if format_keys and key in _FORMAT_KEYS else _wrapped_key(key, message, path)] = item
    return wrapped


def _wrapped_key(key: Any, message: int, path: tuple[str | int, ...] = ()) -> Any:
    return _wrapped(key, message, (*path, f"key:{key}"), False) if isinstance(key, str) else key


def traced_text(message: int, path: tuple[str | int, ...], text: str) -> TracedText:
    """A string of the row: the whole text of a new source."""
    length = len(text)
    made = _plain(TracedText, text)
    made.runs = (make_run((length, Source(message, path, text), 0, length, True)),) if text else ()
    return made
