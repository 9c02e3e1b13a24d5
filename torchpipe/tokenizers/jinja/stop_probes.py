"""The control tokens that a template writes, and at which its model stops, found by writing conversations with it."""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from torchpipe._suggest import listed
from torchpipe.errors import ConfigError, TokenizerError, TorchpipeError
from torchpipe.tokenizers.jinja.provable import ProvableTemplate
from torchpipe.tokenizers.jinja.rendering import ControlSpan, Rendering
from torchpipe.tokenizers.jinja.stop_token import Ending, kind_of_turn, stop_token

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


# Control tokens of public models as they are spelled, but for those that could be anything else.
_SPELLED = re.compile(r"<\|[^|<>\s]{1,40}\|>|<｜[^｜<>\s]{1,40}｜>")

ControlsIn = Callable[[Rendering], Sequence[ControlSpan]]
EndingsToAppend = dict[ProvableTemplate, dict[str, Ending]]
"""What ends a last turn that a template leaves open: by template, and by "reply" or "call"."""


def stops_of(
    templates: Iterable[ProvableTemplate], options: Mapping[str, Any], controls_in: ControlsIn
) -> frozenset[str]:
    """The :func:`probed_stops` of all templates, with a warning of what looks like a control token and is none.

    Args:
        templates: of one tokenizer.
        options: what they may ask for.
        controls_in: finds the tokenizer's control tokens.
    """
    stops: frozenset[str] = frozenset()
    unknown: dict[str, None] = {}
    for template in dict.fromkeys(templates):
        stops |= probed_stops(template, options, controls_in)
        unknown |= dict.fromkeys(unknown_controls(template, options, controls_in))
    if unknown:
        warnings.warn(
            f"The chat template writes {listed(unknown)}, and none of the vocabulary's control tokens is "
            "that: it becomes ordinary text. Some models are trained so; otherwise take the model's own tokenizer, or "
            "give the ids in special_tokens.",
            stacklevel=3,
        )
    return stops


def probed_stops(template: ProvableTemplate, options: Mapping[str, Any], controls_in: ControlsIn) -> frozenset[str]:
    """The last control tokens that the template writes after a reply, and after a call, that others follow.

    A probe that the template refuses tells nothing; a template that writes no such token gives the empty set.

    Raises:
        TokenizerError: the template exceeds its limits.
    """
    found: set[str] = set()
    for rendering in _renderings(template, options):
        start = rendering.start_of(1)
        end = rendering.end_of_turn(1, start)
        after = rendering.content_end(1, start, end)
        inside = [control.text for control in controls_in(rendering) if after <= control.start < end]
        if after > start and inside:
            found.add(inside[-1])
    return frozenset(found)


def endings_to_append(
    templates: Iterable[ProvableTemplate],
    options: Mapping[str, Any],
    controls_in: ControlsIn,
    stop_texts: Collection[str],
) -> EndingsToAppend:
    """The :func:`endings_of` of each template.

    Raises:
        ConfigError: one has none after a reply, so that there is nothing to append.
    """
    found = {each: endings_of(each, options, controls_in, stop_texts) for each in dict.fromkeys(templates)}
    for template, stops in found.items():
        if "reply" not in stops:
            raise ConfigError(
                f"append_stop is true, and the {template.name} writes no control token after a reply, in the middle of "
                "a conversation either. Add one to the template, or set append_stop: false and on_unproved."
            )
    return found


def endings_of(
    template: ProvableTemplate, options: Mapping[str, Any], controls_in: ControlsIn, stop_texts: Collection[str]
) -> dict[str, Ending]:
    """How the template ends a turn that another message follows, by what the turn is: reply or call.

    Raises:
        TokenizerError: the template exceeds its limits.
    """
    found: dict[str, Ending] = {}
    for rendering in _renderings(template, options):
        start = rendering.start_of(1)
        end = rendering.end_of_turn(1, start)
        after = rendering.content_end(1, start, end)
        stop = stop_token(rendering, controls_in(rendering), after, end, stop_texts)
        if after > start and stop is not None:
            ending = Ending(rendering.text[after : stop.start], stop)
            found.setdefault(kind_of_turn(rendering.rows[1]), ending)
    return found


def unknown_controls(template: ProvableTemplate, options: Mapping[str, Any], controls_in: ControlsIn) -> list[str]:
    """What the template writes and looks like a control token, but is none; in the order in which it is written.

    A token that a template makes of the role of a tool counts only where the template spells it: few know that role.

    Raises:
        TokenizerError: the template exceeds its limits.
    """
    found: dict[str, None] = {}
    for rendering in _renderings(template, options):
        known = {control.start for control in controls_in(rendering)}
        for start, stop in rendering.template_ranges:
            spelled = _SPELLED.finditer(rendering.text, start, stop)
            unknown = [match.group() for match in spelled if match.start() not in known]
            found |= dict.fromkeys(text for text in unknown if text in template.text or "tool" not in text)
    return list(found)


def _renderings(template: ProvableTemplate, options: Mapping[str, Any]) -> Iterator[Rendering]:
    for messages, tools in _PROBES:
        try:
            yield template.trace(messages, tools, False, options)
        except TorchpipeError as error:
            if isinstance(error.__cause__, TokenizerError):
                raise  # its limits, which two messages should not exceed
            # A template without tools refuses a call, which is an answer too.
