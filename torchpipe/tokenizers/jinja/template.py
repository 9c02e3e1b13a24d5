"""A model's chat template, compiled once for plain renders and once for traced ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar, cast

from jinja2 import Template, TemplateSyntaxError, nodes
from jinja2.exceptions import TemplateError, UndefinedError
from jinja2.runtime import LoopContext

from torchpipe.errors import RenderError, TokenizerError
from torchpipe.tokenizers.jinja.compiled import CompiledTemplate
from torchpipe.tokenizers.jinja.environment import STATE, ChatEnvironment, plain_environment, traced_environment
from torchpipe.tokenizers.jinja.limits import Limits, RenderState
from torchpipe.tokenizers.jinja.text import TracedText, joined
from torchpipe.tokenizers.jinja.wrapping import traced_messages, traced_options, traced_tools

Result = TypeVar("Result")
_TRACED_NAME = re.compile(r"(torchpipe\.[a-z.]+\.)?Traced(Text|Markup)")
Transform = Callable[[nodes.Template], nodes.Template]


class ChatTemplate:
    """A chat template in a sandbox.

    >>> template = ChatTemplate("{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}", name="tiny")
    >>> messages = [{"role": "user", "content": " Hi "}]
    >>> template.render(messages)
    '<user>Hi'
    >>> [(run.length, run.source and run.source.path) for run in template.render_traced(messages).runs]
    [(6, None), (2, ('content',))]

    Args:
        text: the template.
        name: what errors call it.
        limits: of each render.
        transform: changes the syntax tree of the traced form, so that it marks or notes what it does. It must print
            the same characters.
        loop_context: the class of the ``loop`` variable of the traced form.

    Raises:
        TokenizerError: the template isn't valid jinja.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"name", "_plain", "_traced"})
    _libraries: ClassVar[tuple[str, ...]] = ("jinja2",)

    def __init__(
        self,
        text: str,
        *,
        name: str = "chat template",
        limits: Limits | None = None,
        transform: Transform | None = None,
        loop_context: type[LoopContext] = LoopContext,
    ) -> None:
        self.text = text
        self.name = name
        self.limits = limits or Limits()
        self._transform = transform
        self._loop_context = loop_context
        self._plain = self._compiled(plain_environment(self.limits), None)
        self._traced = self._compiled(traced_environment(self.limits, loop_context), transform)

    def __reduce__(self) -> tuple[Callable[..., ChatTemplate], tuple[Any, ...]]:
        return _remade, (self.text, self.name, self.limits, self._transform, self._loop_context)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        **options: Any,
    ) -> str:
        """The conversation as text.

        Args:
            messages: as OpenAI's API has them.
            tools: their schemas.
            add_generation_prompt: whether the header of a reply follows.
            **options: what else the template may ask for (``bos_token``, ``enable_thinking``).

        Raises:
            TokenizerError: the template refuses the conversation, in its own words; it fails; it exceeds its limits.
        """
        context = {"messages": messages, "tools": tools, "add_generation_prompt": add_generation_prompt, **options}
        state = RenderState(self.limits)
        return self._rendered(self._plain, context, state, state.text_of)

    def render_traced(
        self,
        messages: Any,
        tools: Any = None,
        add_generation_prompt: Any = False,
        *,
        options: Mapping[str, Any] | None = None,
        state: RenderState | None = None,
    ) -> TracedText:
        """The same text with the origin of each character.

        Args:
            messages: a plain list gets its strings wrapped; an object of any other class is taken as it is, its
                strings :class:`TracedText` already.
            tools: likewise.
            add_generation_prompt: whether the header of a reply follows.
            options: what else the template may ask for. Plain strings are wrapped, except ``..._token``.
            state: counts what this render uses; given by who wants to read it while the template runs.

        Raises:
            TokenizerError: as :meth:`render`.
        """
        context = {
            "messages": traced_messages(messages) if type(messages) in (list, tuple) else messages,
            "tools": traced_tools(tools) if type(tools) in (list, tuple) else tools,
            "add_generation_prompt": add_generation_prompt,
            **traced_options(options or {}),
        }
        state = state or RenderState(self.limits)
        return self._rendered(self._traced, context, state, lambda chunks: joined(state.counted(chunks)))

    def _compiled(self, environment: ChatEnvironment, transform: Transform | None) -> CompiledTemplate:
        try:
            tree = environment.parse(self.text)
            if transform is not None:
                tree = transform(tree)
                tree.set_environment(environment)
            return cast(CompiledTemplate, environment.from_string(tree))
        except TemplateSyntaxError as error:
            raise TokenizerError(f"{self.name}, line {error.lineno}: no valid jinja. {error.message}") from error
        except (RecursionError, MemoryError, SyntaxError) as error:
            raise TokenizerError(f"{self.name}: its expressions are nested too deeply to be compiled.") from error

    def _rendered(
        self,
        template: CompiledTemplate,
        context: dict[str, Any],
        state: RenderState,
        read: Callable[[Any], Result],
    ) -> Result:
        token = STATE.set(state)
        try:
            return read(template.chunks(context))
        except Exception as error:
            raise RenderError(f"{self.name}: {_sentence(error, template)}") from error
        finally:
            STATE.reset(token)


def _remade(
    text: str, name: str, limits: Limits, transform: Transform | None, loop_context: type[LoopContext]
) -> ChatTemplate:
    return ChatTemplate(text, name=name, limits=limits, transform=transform, loop_context=loop_context)


def _sentence(error: Exception, template: Template) -> str:
    """What went wrong in a render. A template that refuses on purpose speaks for itself."""
    if isinstance(error, TokenizerError) or type(error) is TemplateError:
        return str(error)
    line = 0
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_globals.get("__jinja_template__") is template:
            line = template.get_corresponding_lineno(traceback.tb_lineno)
        traceback = traceback.tb_next
    what = str(error) if isinstance(error, UndefinedError) else f"{type(error).__name__}: {error}"
    what = _TRACED_NAME.sub("str", what).replace("torchpipe.tokenizers.jinja.messages.RowMessage", "dict")
    return f"it fails in line {line}: {what.rstrip('.')}."
