"""A chat template whose renders tell where all their text comes from, and when each message became known."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from jinja2 import nodes

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.jinja import syntax
from torchpipe.tokenizers.jinja.limits import Limits, RenderState
from torchpipe.tokenizers.jinja.messages import NotedLoop, Reading, RowMessage, RowMessages
from torchpipe.tokenizers.jinja.rendering import Rendering
from torchpipe.tokenizers.jinja.template import ChatTemplate
from torchpipe.tokenizers.jinja.wrapping import row_messages, traced_options, traced_tools

THINKING_OPTIONS = ("enable_thinking", "thinking")
"""The names under which templates ask whether the reply will have reasoning."""

_MOST_ENDINGS = 1_000


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

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"shape", "_endings"})

    def __init__(self, text: str, *, name: str = "chat template", limits: Limits | None = None) -> None:
        super().__init__(text, name=name, limits=limits, transform=self._instrument, loop_context=NotedLoop)
        self.thinking_options = self.shape.names_read.intersection(THINKING_OPTIONS)
        self._ending_names = sorted(self.shape.ending_options - {syntax.PROMPT_FLAG})
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
        rows, wrapped_tools = row_messages(messages), _wrapped_tools(tools)
        text = self.render(messages, tools, add_generation_prompt, **options)
        rendering = self._rendering(rows, wrapped_tools, add_generation_prompt, options)
        if rendering.text != text:
            raise TokenizerError(
                f"{self.name}: it does something with the messages that can't be followed: traced, it writes another "
                "text. Please report the template."
            )
        return rendering

    def traced(
        self, messages: Sequence[Mapping[str, Any]], tools: Any, add_generation_prompt: bool, options: Mapping[str, Any]
    ) -> Rendering:
        """What :meth:`trace` gives, without the comparison with a plain render."""
        return self._rendering(row_messages(messages), _wrapped_tools(tools), add_generation_prompt, options)

    def _rendering(
        self, rows: Sequence[RowMessage], tools: Any, add_generation_prompt: bool, options: Mapping[str, Any]
    ) -> Rendering:
        """The traced render of messages and tools that are wrapped already."""
        state = RenderState(self.limits)
        reading = Reading(len(rows), state)
        context = {
            "messages": RowMessages(rows, reading),
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
            **traced_options(options),
        }
        return self._rendered(self._traced, context, state, lambda chunks: Rendering(chunks, rows, reading, state))

    def prompt_ending(
        self, messages: Sequence[Mapping[str, Any]], end: int, tools: Any, options: Mapping[str, Any]
    ) -> str:
        """What the template writes after its last loop, for a model to go on from: the same for all conversations.

        Args:
            messages: a conversation that the template accepts. ``messages[:end]`` end before a reply.
            end: their number.
            tools, options: what it depends on.

        Raises:
            TokenizerError: as :meth:`trace`.
        """
        key = tuple([repr(tools if name == "tools" else options.get(name)) for name in self._ending_names])
        if key not in self._endings:
            rendering = self.traced(messages[:end], tools, True, options)
            if len(self._endings) >= _MOST_ENDINGS:
                self._endings.clear()  # every row may have tools of its own
            self._endings[key] = rendering.text[rendering.reading.known_at[end] :]
        return self._endings[key]


def _wrapped_tools(tools: Any) -> Any:
    return traced_tools(tools) if tools else tools


def _remade(text: str, name: str, limits: Limits) -> ProvableTemplate:
    return ProvableTemplate(text, name=name, limits=limits)
