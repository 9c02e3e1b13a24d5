"""The filters of chat templates: jinja's own without the random one, and Hugging Face's ``tojson``.

The traced environment has the same filters, of the same results. Those that keep no provenance by themselves are
written here again; any other whose text was made of traced text gives it the origin ``UNKNOWN``.
"""

import json
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from jinja2.filters import FILTERS, do_format, do_indent, do_title, make_attrgetter, sync_do_join
from jinja2.nodes import EvalContext
from jinja2.utils import pass_eval_context

from torchpipe.tokenizers.jinja.formatting import holds_traced, lost, percent, printed, to_json
from torchpipe.tokenizers.jinja.limits import Limits, bounded_method, check_percent, check_widths
from torchpipe.tokenizers.jinja.markup import TracedMarkup, as_markup, escape
from torchpipe.tokenizers.jinja.text import TracedText, joined

Filter = Callable[..., Any]

# Filters whose numbers are widths and counts.
_WITH_WIDTHS = ("batch", "center", "indent", "slice", "tojson", "truncate", "urlize", "wordwrap", "round")
# Filters that hand on what they are given, or write no text.
_HANDING_ON = frozenset(
    (
        *("abs", "attr", "batch", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items"),
        *("last", "length", "list", "map", "max", "min", "reject", "rejectattr", "reverse", "round", "select"),
        *("selectattr", "slice", "sort", "sum", "unique", "wordcount"),
    )
)
# Filters that turn what they are given into text first.
_OF_TEXT = ("capitalize", "center", "lower", "upper")


def plain_filters(limits: Limits) -> dict[str, Filter]:
    """The filters of the plain environment, within limits."""
    filters: dict[str, Filter] = {name: own for name, own in FILTERS.items() if name != "random"}
    filters["tojson"] = _tojson

    @pass_eval_context
    def join(context: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
        items = list(value if attribute is None else map(make_attrgetter(context.environment, attribute), value))
        texts = [item if isinstance(item, str) else str(item) for item in items]
        limits.check_size(sum(map(len, texts)) + len(texts) * len(str(d)))
        return sync_do_join(context, items, d)

    @pass_eval_context
    def replace(context: EvalContext, s: str, old: str, new: str, count: int | None = None) -> str:
        function = FILTERS["replace"]
        return bounded_method(limits, "replace", str(s), lambda *_: function(context, s, old, new, count))(
            str(old), str(new)
        )

    def formatted(value: str, *args: Any, **kwargs: Any) -> str:
        check_percent(limits, str(value), kwargs or args)
        return do_format(value, *args, **kwargs)

    def listed(value: Iterable[Any]) -> list[Any]:
        if isinstance(value, str):
            limits.check_size(50 * len(value))  # a string of one character takes that much room
        return list(value)

    filters |= {"list": listed, "join": join, "replace": replace, "format": formatted}
    return filters | {name: _with_checked_widths(filters[name], limits) for name in _WITH_WIDTHS}


def traced_filters(limits: Limits) -> dict[str, Filter]:
    """The same filters for the traced environment."""
    plain = plain_filters(limits)
    traced = {name: own if name in _HANDING_ON else _losing_visibly(own) for name, own in plain.items()}
    traced |= {name: _of_text(traced[name]) for name in _OF_TEXT}
    plain_join, plain_replace = traced["join"], traced["replace"]

    @pass_eval_context
    def join(context: EvalContext, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
        items = list(value if attribute is None else map(make_attrgetter(context.environment, attribute), value))
        if context.autoescape:
            return plain_join(context, items, d)
        texts = list(map(printed, items))
        limits.check_size(sum(map(len, texts)) + len(texts) * len(str(d)))
        return TracedText(str.__str__(printed(d)), getattr(d, "runs", None)).join(texts)

    @pass_eval_context
    def replace(context: EvalContext, s: str, old: str, new: str, count: int | None = None) -> str:
        if context.autoescape:
            return plain_replace(context, s, old, new, count)
        text = joined([printed(s)])
        method = bounded_method(limits, "replace", text, text.replace)
        return method(str(old), printed(new), -1 if count is None else count)

    def formatted(value: str, *args: Any, **kwargs: Any) -> str:
        text = value if isinstance(value, str) else printed(value)
        check_percent(limits, text, kwargs or args)
        return text % (kwargs or args) if isinstance(text, TracedText) else percent(text, kwargs or args)

    return traced | {
        "join": join,
        "replace": replace,
        "format": formatted,
        "indent": _with_checked_widths(_indent, limits),
        "tojson": _with_checked_widths(to_json, limits),
        "title": _title,
        "trim": _trim,
        "string": lambda value: value if isinstance(value, str) else printed(value),
        "safe": as_markup,
        "e": escape,
        "escape": escape,
        "forceescape": lambda value: escape(printed(value)),
    }


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Hugging Face's chat templates expect it: with the same arguments, and HTML's characters unescaped."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _with_checked_widths(function: Filter, limits: Limits) -> Filter:
    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_widths([value for value in (*args[1:], *kwargs.values()) if not isinstance(value, str)])
        result = function(*args, **kwargs)
        if isinstance(result, str):
            limits.check_size(len(result))
        return result

    return checked


def _of_text(function: Filter) -> Filter:
    @wraps(function)
    def of_text(value: Any, *args: Any, **kwargs: Any) -> Any:
        return function(value if isinstance(value, str) else printed(value), *args, **kwargs)

    return of_text


def _losing_visibly(function: Filter) -> Filter:
    """A filter whose plain text counts as lost where it was made of traced text."""

    @wraps(function)
    def visible(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not isinstance(result, str) or isinstance(result, TracedText):
            return result
        text = str.__str__(result)
        if holds_traced((*args, *kwargs.values())):
            text = lost(text)
        return as_markup(text) if hasattr(result, "__html__") else text

    return visible


def _indent(s: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    if not isinstance(s, str) or not holds_traced((s, width)):
        return do_indent(s, width, first, blank)
    margin = width if isinstance(width, str) else " " * width
    chunks: list[str] = []
    for i, line in enumerate((s + "\n").splitlines()):
        chunks.append("\n" if i else "")
        chunks.append(margin if (line or blank if i else first) else "")
        chunks.append(line)
    return joined(chunks, TracedMarkup if isinstance(s, TracedMarkup) else TracedText)


def _title(value: Any) -> str:
    text = value if isinstance(value, str) else printed(value)
    plain = do_title(str.__str__(text))
    return text.recased(plain) if isinstance(text, TracedText) else plain


def _trim(value: Any, chars: str | None = None) -> str:
    return (value if isinstance(value, str) else printed(value)).strip(chars)
