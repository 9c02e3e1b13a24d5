"""JSON as chat templates print it."""

import json
from typing import Any

from torchpipe.data.tool_calls import ToolCall


def to_json(value: Any, *, indent: int | None = None) -> str:
    """JSON text as the filter ``tojson`` of chat templates gives it: characters unescaped, keys in their order."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def arguments_text(call: ToolCall) -> str:
    """The arguments as JSON text: text as the data has it, to the letter, and a dict as :func:`to_json` gives it."""
    return call.arguments if isinstance(call.arguments, str) else to_json(call.arguments)
