"""A chat template whose renders tell where all their text comes from, and when each message became known."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import nodes

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.jinja import syntax
from torchpipe.tokenizers.jinja.limits import Limits, RenderState
from torchpipe.tokenizers.jinja.messages import (
    REASONING_KEYS,
    NotedLoop,
    Reading,
    RowMessage,
    RowMessages,
)
from torchpipe.tokenizers.jinja.provenance import Source
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.template import ChatTemplate
from torchpipe.tokenizers.jinja.text import TracedText
from torchpipe.tokenizers.jinja.wrapping import traced_messages

THINKING_OPTIONS = ("enable_thinking", "thinking")
"""The names under which templates ask whether the reply will have reasoning."""

_MOST_ENDINGS = 1_000
_RARE_KEYS = ("refusal", "audio", "function_call")


class ProvableTemplate(ChatTemplate):
    """A chat template that a :class:`~torchpipe.tokenizers.jinja.turns.TurnProver` can read.

    Args:
        text: the template.
        name: what errors call it.
        limits: of each render.

    Attributes:
        shape: what its syntax tells.
        thinking_options: those of :data:`THINKING_OPTIONS` that it reads.

    Raises:
        TokenizerError: the template isn't valid jinja.
    """

    shape: syntax.Shape

    def __init__(self, text: str, *, name: str = "chat template", limits: Limits | None = None) -> None:
        super().__init__(text, name=name, limits=limits, transform=self._instrument, loop_context=NotedLoop)
        self.thinking_options = self.shape.names_read.intersection(THINKING_OPTIONS)
        self._exits = syntax.exit_marks(self.shape.num_loops)
        self._endings: dict[tuple[Any, ...], str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.text, self.name, self.limits)

    def _instrument(self, tree: nodes.Template) -> nodes.Template:
        self.shape = syntax.instrument(tree)
        return tree

    def trace(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Any = None,
        add_generation_prompt: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Rendering:
        """The conversation as text whose origin is known, equal to the plain render to the character.

        Args:
            messages: as OpenAI's API has them.
            tools: their schemas.
            add_generation_prompt: whether the header of a reply follows.
            options: what else the template may ask for.

        Raises:
            TokenizerError: the template refuses the conversation, in its own words; it fails; it exceeds its limits;
                or it does something that can't be followed without changing the text.
        """
        options = options or {}
        rendering = self._traced_render(messages, tools, add_generation_prompt, options)
        if rendering.text != self.render(messages, tools, add_generation_prompt, **options):
            raise TokenizerError(
                f"{self.name}: it does something with the messages that can't be followed: traced, it writes another "
                "text. Please report the template."
            )
        return rendering

    def _traced_render(
        self, messages: Sequence[Mapping[str, Any]], tools: Any, add_generation_prompt: bool, options: Mapping[str, Any]
    ) -> Rendering:
        state = RenderState(self.limits)
        reading = Reading(len(messages), state)
        wrapped = traced_messages(messages)
        for message in wrapped:
            _share_reasoning(message)
        rows = [RowMessage(message, index) for index, message in enumerate(wrapped)]
        output = self.render_traced(
            RowMessages(rows, reading), tools, add_generation_prompt, options={**options, **self._exits}, state=state
        )
        return Rendering.of(output, [list(_training_sources(row)) for row in rows], reading)

    def prompt_ending(self, messages: Sequence[Mapping[str, Any]], tools: Any, options: Mapping[str, Any]) -> str:
        """What the template writes after its last loop, for a model to go on from: the same for all conversations.

        Args:
            messages: a conversation that the template accepts, ending before a reply.
            tools, options: what it depends on.

        Raises:
            TokenizerError: as :meth:`trace`.
        """
        names = sorted(self.shape.ending_options - {syntax.PROMPT_FLAG})
        key = tuple(repr(tools if name == "tools" else options.get(name)) for name in names)
        if key not in self._endings:
            rendering = self._traced_render(messages, tools, True, options)
            if len(self._endings) >= _MOST_ENDINGS:
                self._endings.clear()  # every row may have tools of its own
            self._endings[key] = rendering.text[rendering.reading.known_at[len(messages)] :]
        return self._endings[key]


def _remade(text: str, name: str, limits: Limits) -> ProvableTemplate:
    return ProvableTemplate(text, name=name, limits=limits)


def _share_reasoning(message: dict[str, Any]) -> None:
    """Makes reasoning that stands under several names one text: a template writes one of them."""
    names = [key for key in REASONING_KEYS if key in message]
    for key in names[1:]:
        if message[key] == message[names[0]]:
            message[key] = message[names[0]]


def _training_sources(message: Mapping[str, Any]) -> Iterator[Source]:
    """The strings of a message that a training text has to hold: content, reasoning, names and arguments of calls.

    So are a refusal, the transcript of audio and the call of OpenAI's older layout, which few templates know.
    """
    content = message.get("content")
    if isinstance(content, list):
        for part in content:
            yield from _strings(part.get("text") if isinstance(part, dict) else part)
    else:
        yield from _strings(content)
    seen: list[Any] = []
    for key in REASONING_KEYS:
        if key in message and not any(message[key] is other for other in seen):
            seen.append(message[key])
            yield from _strings(message[key])
    for key in _RARE_KEYS:
        held = message.get(key)
        yield from _strings(list(held.values()) if isinstance(held, dict) else held)
    for call in message.get("tool_calls") or ():
        function = call.get("function", call) if isinstance(call, dict) else {}
        if isinstance(function, dict):
            yield from _strings(function.get("name"))
            yield from _strings(function.get("arguments"))


def _strings(value: Any) -> Iterator[Source]:
    """The sources of all strings within a value, keys included."""
    if isinstance(value, TracedText):
        yield from (run.source for run in value.runs if isinstance(run.source, Source))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
