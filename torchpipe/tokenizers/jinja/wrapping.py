"""What a template is given, with each string wrapped so that it knows where it came from."""

from collections.abc import Mapping
from typing import Any

from torchpipe.tokenizers.jinja.provenance import OPTIONS, TOOLS, Source
from torchpipe.tokenizers.jinja.text import TracedText

# Names of the message format. They are the format's words and stay plain, except within a call's arguments, where
# every key is the caller's.
_FORMAT_KEYS = frozenset(
    (
        *("role", "content", "name", "tool_calls", "tool_call_id", "id", "type", "function", "arguments"),
        *("parameters", "text", "reasoning", "reasoning_content", "thinking"),
        *("image", "image_url", "audio", "video", "url"),
    )
)


def traced_messages(messages: Any) -> list[Any]:
    """OpenAI messages with each string wrapped. A role stays plain: templates write it as part of their own text."""
    return [
        _wrapped_dict(message, i, (), True) if isinstance(message, dict) else message
        for i, message in enumerate(messages)
    ]


def traced_tools(tools: Any) -> Any:
    """Tool schemas with each string and each key wrapped."""
    return _wrapped(tools, TOOLS, (), False)


def traced_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with each string wrapped, except the texts of control tokens (``bos_token`` and the like)."""
    return {
        name: value if name.endswith("_token") else _wrapped(value, OPTIONS, (name,), False)
        for name, value in options.items()
    }


def _wrapped(value: Any, message: int, path: tuple[str | int, ...], format_keys: bool) -> Any:
    """Any value, with the strings inside wrapped; what is wrapped already stays."""
    if type(value) is str:
        return TracedText.of(Source(message, path, value))
    if isinstance(value, dict):
        return _wrapped_dict(value, message, path, format_keys)
    if isinstance(value, (list, tuple)):
        return type(value)([_wrapped(item, message, (*path, i), format_keys) for i, item in enumerate(value)])
    return value


def _wrapped_dict(
    value: dict[Any, Any], message: int, path: tuple[str | int, ...], format_keys: bool
) -> dict[Any, Any]:
    wrapped: dict[Any, Any] = {}
    for key, item in value.items():
        inside = (*path, key)
        if type(item) is str:
            if path or key != "role":
                item = TracedText.of(Source(message, inside, item))
        elif isinstance(item, (dict, list, tuple)):
            item = _wrapped(item, message, inside, format_keys and key != "arguments")
        if type(key) is str and not (format_keys and key in _FORMAT_KEYS):
            key = TracedText.of(Source(message, (*path, f"key:{key}"), key))
        wrapped[key] = item
    return wrapped
