"""Traced text that ``|safe`` made: it joins with other text as MarkupSafe's ``Markup`` does, which escapes the other.

Public chat templates (of Mistral, of Functionary) print ``&#34;`` in places because of it, and models were trained so.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Self, SupportsIndex

from markupsafe import Markup
from markupsafe import escape as markup_escape

from torchpipe.tokenizers.jinja.formatting import html_escaped, lost, printed
from torchpipe.tokenizers.jinja.text import TracedText


class TracedMarkup(TracedText):
    """Text that is taken as HTML already; what is joined to it is escaped first."""

    __slots__ = ()

    def __html__(self) -> Self:
        return self

    def __str__(self) -> str:
        return TracedText(str.__str__(self), self.runs)

    def __add__(self, other: Any) -> Any:
        return super().__add__(escape(other)) if isinstance(other, str) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return super().__radd__(escape(other)) if isinstance(other, str) else NotImplemented

    def join(self, texts: Iterable[Any], /) -> Self:
        return super().join(map(escape, texts))

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Self:
        return super().replace(old, escape(new), count)

    def ljust(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        return super().ljust(width, escape(fillchar))

    def rjust(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        return super().rjust(width, escape(fillchar))

    def center(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        return super().center(width, escape(fillchar))

    # Nobody formats marked text in a chat template: these give the right characters, of unknown origin.

    def _plain(self) -> Markup:
        return Markup(str.__str__(self))

    def __mod__(self, values: Any) -> TracedText:
        return as_markup(lost(self._plain() % values))

    def format(self, *args: Any, **kwargs: Any) -> TracedText:
        return as_markup(lost(self._plain().format(*args, **kwargs)))

    def format_map(self, mapping: Mapping[str, Any], /) -> TracedText:
        return as_markup(lost(self._plain().format_map(mapping)))

    def translate(self, table: Any, /) -> TracedText:
        return as_markup(super().translate(table))

    def unescape(self) -> TracedText:
        return lost(self._plain().unescape())

    def striptags(self) -> TracedText:
        return lost(self._plain().striptags())


def as_markup(value: Any) -> TracedMarkup:
    """A value as marked text, as it is."""
    if isinstance(value, TracedMarkup):
        return value
    text = printed(value)
    return TracedMarkup(str.__str__(text), text.runs if isinstance(text, TracedText) else None)


def escape(value: Any) -> TracedMarkup:
    """A value as marked text, with HTML's own characters escaped unless it is marked already."""
    if hasattr(value, "__html__"):
        return as_markup(value)
    text = printed(value)
    return as_markup(html_escaped(text, str(markup_escape(str.__str__(text)))))
