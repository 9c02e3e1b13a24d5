"""The control token at which a model stops."""

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from torchpipe.tokenizers.jinja.rendering import ControlSpan, Rendering


class Ending(NamedTuple):
    """How a template ends a turn: what it writes after the turn's last string, and the stop token."""

    before: str
    control: ControlSpan


def stop_token(
    rendering: Rendering, controls: Sequence[ControlSpan], content_end: int, end: int, stop_texts: Collection[str]
) -> ControlSpan | None:
    """The control token at which the model stops: after the content, inside the turn; None where there is none.

    The first that is known as a stop, or else the last there, or else the one that opens the next message.

    Args:
        rendering: the conversation.
        controls: its control tokens, in order.
        content_end: where the turn's own strings end.
        end: where another message's text begins.
        stop_texts: control tokens at which sampling stops.
    """
    first = bisect_left(controls, (content_end,))
    last: ControlSpan | None = None
    for number in range(first, len(controls)):
        control = controls[number]
        start, _, text, _ = control
        if start >= end:
            opens_next = not rendering.text[end:start].strip()
            return last or (control if opens_next else None)
        if text in stop_texts:
            return control
        last = control
    return last


def kind_of_turn(message: Mapping[str, Any]) -> Literal["call", "reply"]:
    """Whether a turn of the assistant ends with a call or with a reply: models may stop at different tokens."""
    return "call" if message.get("tool_calls") else "reply"
