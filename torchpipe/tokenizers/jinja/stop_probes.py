"""The control tokens at which a template's model stops, found by writing two conversations with it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchpipe.errors import TorchpipeError
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.turns import ControlSpan

_QUESTION = {"role": "user", "content": "Question one?"}
_REPLY = {"role": "assistant", "content": "Reply one."}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "description": "Looks a word up.",
            "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
        },
    }
]


def _call(arguments: Any) -> list[dict[str, Any]]:
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "look_up", "arguments": arguments}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "look_up", "tool_call_id": "abcdefgh1", "content": "Result one."},
    ]


# In the middle of a conversation: the last turn may get the end of the document too, which is another token.
_PROBES: tuple[tuple[list[dict[str, Any]], Any], ...] = (
    ([_QUESTION, _REPLY, {"role": "user", "content": "Question two?"}], None),
    ([_QUESTION, *_call({"word": "one"}), _REPLY], _TOOLS),
    ([_QUESTION, *_call('{"word": "one"}'), _REPLY], _TOOLS),
)


def probed_stops(
    template: ProvableTemplate,
    options: Mapping[str, Any],
    controls_in: Callable[[Rendering], Sequence[ControlSpan]],
) -> frozenset[str]:
    """The last control tokens that the template writes after a reply, and after a call, that others follow.

    A probe that the template refuses tells nothing; a template that writes no such token gives the empty set.
    """
    found: set[str] = set()
    for messages, tools in _PROBES:
        try:
            rendering = template.trace(messages, tools, False, options)
        except TorchpipeError:
            continue  # a template without tools refuses a call, which is an answer too
        start = rendering.start_of(1)
        end = rendering.end_of_turn(1, start)
        after = rendering.content_end(1, start, end)
        inside = [control.text for control in controls_in(rendering) if after <= control.start < end]
        if after > start and inside:
            found.add(inside[-1])
    return frozenset(found)
