"""The sandboxes in which chat templates run: a plain one, and one whose texts know their origin.

Both render what Hugging Face's ``apply_chat_template`` renders: jinja's immutable sandbox with trimmed blocks, loop
controls, the ``{% generation %}`` tag, an unescaped ``tojson``, ``raise_exception`` and ``strftime_now``. They differ
from it in that they keep limits, and know nothing random (no ``lipsum``, no ``random``).
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache, reduce
from types import BuiltinMethodType, MethodType
from typing import Any

from jinja2.ext import loopcontrols
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from markupsafe import Markup
from markupsafe import escape as markup_escape

from torchpipe.tokenizers.jinja.compiled import DICT_NAMES, CodeGenerator, CompiledTemplate, Generation
from torchpipe.tokenizers.jinja.filters import plain_filters, traced_filters
from torchpipe.tokenizers.jinja.formatting import braces, holds_traced, lost, percent, printed
from torchpipe.tokenizers.jinja.limits import (
    GROWING_METHODS,
    Limits,
    RenderState,
    bounded_method,
    check_field,
    check_percent,
    check_power,
    check_product,
)
from torchpipe.tokenizers.jinja.markup import TracedMarkup, as_markup, escape
from torchpipe.tokenizers.jinja.messages import RowMessage
from torchpipe.tokenizers.jinja.syntax import EXITS, MARKING_FILTERS, LoopExits
from torchpipe.tokenizers.jinja.template_globals import (
    ChatNamespace,
    DictFactory,
    raise_exception,
    strftime_now,
    values_of,
)
from torchpipe.tokenizers.jinja.text import TracedText, joined

Parts = tuple[str, ...]

STATE: ContextVar[RenderState] = ContextVar("the render that is going on")
"""The state of the render in progress, of this thread and task."""

_PLAIN_METHODS = frozenset(name for name in dir(str) if not name.startswith("_")) - GROWING_METHODS
# Methods that put their arguments into the text: a literal they are called on must not lose those arguments' origin.
_INSERTING_METHODS = frozenset({"join", "replace", "format", "format_map", "center", "ljust", "rjust", "translate"})

# Methods whose many small results take more room than the text: not worth a look on texts of common length.
_SPLITTING_METHODS = frozenset({"split", "rsplit", "splitlines"})
_FEW_CHARACTERS = 100_000


class ChatEnvironment(ImmutableSandboxedEnvironment):
    """The plain environment. Immutable once made, and shared by all threads.

    Attributes:
        limits: of each render.
        adds_at_once: whether compiled templates hand all terms of a sum to ``parts`` and ``summed``.
        runtime: what compiled templates find under these names instead of jinja's own.
    """

    intercepted_binops = frozenset({"*", "**", "%"})
    code_generator_class = CodeGenerator
    template_class = CompiledTemplate
    adds_at_once = False
    runtime: Mapping[str, Any]

    def __init__(self, limits: Limits) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
        self.limits = limits
        self.filters = plain_filters(limits)
        self.globals = {
            "range": self.globals["range"],
            "cycler": self.globals["cycler"],
            "joiner": self.globals["joiner"],
            "dict": DictFactory(),
            "namespace": ChatNamespace,
            "raise_exception": raise_exception,
            "strftime_now": strftime_now,
        }
        self.runtime = {"str_join": lambda values: self.concat(map(str, values))}

    def state(self) -> RenderState:
        """The state of the render in progress; a compiled template asks for it."""
        return STATE.get()

    def concat(self, chunks: Iterable[str]) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The texts of a macro or a block as one."""
        chunks = list(chunks)
        self.limits.check_size(sum(map(len, chunks)))
        return "".join(chunks)

    def added(self, left: Any, right: Any) -> Any:
        """``left + right`` of the template."""
        total = left + right
        if isinstance(total, (str, list, tuple)):
            self.limits.check_size(len(total))
        return total

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """``left * right``, ``left ** right`` or ``left % right`` of the template."""
        if operator == "*":
            check_product(self.limits, left, right)
        elif operator == "**":
            check_power(left, right)
        elif isinstance(left, str):
            check_percent(self.limits, left, right)
        return self.binop_table[operator](left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Calls what a template calls. Methods of texts and of builtin values need none of jinja's checks."""
        kind = type(__obj)
        if kind is BuiltinMethodType or (kind is MethodType and isinstance(__obj.__self__, TracedText)):
            kwargs.pop("_loop_vars", None)
            kwargs.pop("_block_vars", None)
            return __obj(*args, **kwargs)
        return super().call(__context, __obj, *args, **kwargs)

    def item(self, obj: Any, name: str) -> Any:
        """``obj.name`` for names that are no attributes of dicts; compiled templates ask so for most of them."""
        if type(obj) is dict:
            if name in obj:
                return obj[name]
            return self.undefined(None, obj, name)
        return self.getattr(obj, name)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``obj.attribute``. For dicts and texts this goes without the exception that jinja raises and catches."""
        if type(obj) is ChatNamespace and attribute in (values := values_of(obj)):
            return values[attribute]
        if isinstance(obj, LoopContext) and attribute in _LOOP_NAMES:
            return builtins.getattr(obj, attribute)
        if isinstance(obj, dict) and _is_item(obj, attribute):
            try:
                return obj[attribute]
            except LookupError:
                return self.undefined(obj=obj, name=attribute)
        if isinstance(obj, str):
            return self._method_of_text(obj, attribute)
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """``obj[argument]``, or else ``obj.argument``."""
        try:
            return obj[argument]
        except (TypeError, LookupError):
            if isinstance(obj, str) and isinstance(argument, str):
                return self._method_of_text(obj, str.__str__(argument))
            return super().getitem(obj, argument)

    def _method_of_text(self, text: str, name: str) -> Any:
        """``text.name``: what is harmless at once, what makes long texts within limits, the rest by jinja's checks."""
        if name in _PLAIN_METHODS or (name in _SPLITTING_METHODS and len(text) < _FEW_CHARACTERS):
            return builtins.getattr(text, name)
        if name not in GROWING_METHODS:
            return super().getattr(text, name)
        method = self._format_method(text, name) if name.startswith("format") else builtins.getattr(text, name)
        return bounded_method(self.limits, name, text, method)

    def _format_method(self, text: str, name: str) -> Callable[..., str]:
        is_markup = hasattr(text, "__html__")
        formatter = _EscapeFormatter(self, escape=markup_escape) if is_markup else _Formatter(self)

        def formatted(*args: Any, **kwargs: Any) -> str:
            if name == "format_map":
                (kwargs,), args = args, ()
            return self._formatted(text, args, kwargs, formatter)

        return formatted

    def _formatted(self, text: str, args: tuple, kwargs: Mapping[str, Any], formatter: SandboxedFormatter) -> str:
        return type(text)(formatter.vformat(text, args, kwargs))


class TracedEnvironment(ChatEnvironment):
    """The environment in which every text keeps its origin.

    What a compiled template prints is texts, and tuples of texts: the terms of a sum, which nobody has to add up.

    Args:
        limits: of each render.
        loop_context: the class of the templates' ``loop`` variable.
    """

    adds_at_once = True

    def __init__(self, limits: Limits, loop_context: type[LoopContext] = LoopContext) -> None:
        super().__init__(limits)
        self.filters = traced_filters(limits) | MARKING_FILTERS
        self.runtime = {
            "LoopContext": loop_context,
            "Markup": as_markup,
            "escape": escape,
            "markup_join": lambda values: TracedMarkup("").join(values),
            "str": printed,
            "str_join": lambda values: self.concat(map(printed, values)),
            "parts": self._parts,
            "summed": self._summed,
            EXITS: LoopExits(),
        }

    def concat(self, chunks: Iterable[str | Parts]) -> TracedText:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The texts of a macro or a block as one."""
        texts: list[str] = []
        for chunk in chunks:
            if type(chunk) is tuple:
                texts += chunk
            else:
                texts.append(chunk)  # type: ignore[arg-type]
        self.limits.check_size(sum(map(len, texts)))
        return joined(texts)

    def item(self, obj: Any, name: str) -> Any:
        """As in the plain environment; the messages are of another class here."""
        kind = type(obj)
        if kind is RowMessage or kind is dict:
            if name in obj:
                return obj[name]
            return self.undefined(None, obj, name)
        return self.getattr(obj, name)

    def _parts(self, terms: Parts) -> str | Parts:
        """The terms of a printed sum; their sum, where they are not all text."""
        return terms if _are_texts(terms) else printed(reduce(self.added, terms))

    def _summed(self, terms: Parts) -> Any:
        """The sum of terms, from left to right."""
        if not _are_texts(terms):
            return reduce(self.added, terms)
        self.limits.check_size(sum(map(len, terms)))
        return joined(terms)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """As in the plain environment; a literal format keeps the origin of what it is given."""
        if operator == "%" and isinstance(left, str) and not isinstance(left, TracedText) and holds_traced(right):
            check_percent(self.limits, left, right)
            return percent(left, right)
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """As in the plain environment; text that code outside the template makes of traced text counts as lost."""
        result = super().call(__context, __obj, *args, **kwargs)
        if type(result) is str and result and not isinstance(__obj, BuiltinMethodType) and holds_traced(args):
            return lost(result)
        if type(result) is str and isinstance(getattr(__obj, "__self__", None), (bytes, bytearray)):
            return lost(result)
        return result

    def _method_of_text(self, text: str, name: str) -> Any:
        if not hasattr(Markup if isinstance(text, TracedMarkup) else str, name):
            return self.undefined(obj=text, name=name)  # a template sees nothing of the tracing
        if name in _INSERTING_METHODS and not isinstance(text, TracedText):
            text = TracedText(text)
        return super()._method_of_text(text, name)

    def _formatted(self, text: str, args: tuple, kwargs: Mapping[str, Any], formatter: SandboxedFormatter) -> str:
        if isinstance(text, TracedMarkup):
            return as_markup(lost(formatter.vformat(str.__str__(text), args, kwargs)))
        is_literal = isinstance(text, TracedText) and all(run.source is None for run in text.runs)
        return braces(str.__str__(text) if is_literal else text, args, kwargs, formatter)


def _are_texts(terms: Parts) -> bool:
    """Whether all terms are text that is joined as it is; marked text is not."""
    for term in terms:
        kind = type(term)
        if kind is not TracedText and kind is not str:
            return False
    return True


class _LimitedFields(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        check_field(format_spec)
        return super().format_field(value, format_spec)


class _Formatter(_LimitedFields):
    pass


class _EscapeFormatter(_LimitedFields, SandboxedEscapeFormatter):
    pass


@cache
def _names_of(kind: type) -> frozenset[str]:
    return frozenset(dir(kind))


_LOOP_NAMES = frozenset(name for name in dir(LoopContext) if not name.startswith("_"))


def _is_item(obj: dict[Any, Any], name: str) -> bool:
    """Whether ``obj.name`` can only mean an item of the dict."""
    if type(obj) is RowMessage:
        return name not in DICT_NAMES
    return name not in _names_of(type(obj))


@cache
def plain_environment(limits: Limits) -> ChatEnvironment:
    """The plain environment with these limits."""
    return ChatEnvironment(limits)


@cache
def traced_environment(limits: Limits, loop_context: type[LoopContext] = LoopContext) -> TracedEnvironment:
    """The traced environment with these limits and this class of the ``loop`` variable."""
    return TracedEnvironment(limits, loop_context)
