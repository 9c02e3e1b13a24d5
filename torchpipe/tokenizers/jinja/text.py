"""A string that knows where each of its characters came from, and keeps knowing it through every operation.

>>> from torchpipe.tokenizers.jinja.provenance import Source
>>> text = "<user>" + TracedText.of(Source(0, ("content",), " Hello ")).strip() + "</user>"
>>> [(run.length, run.source and run.source.path, run.start, run.stop) for run in text.runs]
[(6, None, 0, 0), (5, ('content',), 1, 6), (7, None, 0, 0)]

An operation that can't follow its characters gives them the source ``UNKNOWN``, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, TypeVar

from torchpipe.tokenizers.jinja.provenance import (
    TEMPLATE,
    UNKNOWN,
    Mark,
    Run,
    Source,
    append_run,
    chained,
    cut,
    make_run,
    merged_origin,
    part_of,
    recased_runs,
    template_run,
)

__all__ = ["TEMPLATE", "UNKNOWN", "Mark", "Run", "Source", "TracedText", "joined", "mark_text", "runs_of"]

_plain = str.__new__


class TracedText(str):
    """A string with the provenance of its characters.

    It equals, hashes, compares, searches and prints as the plain string, and all that gives text gives a
    :class:`TracedText` with the same characters as the plain string gives. A plain string counts as template text.

    Attributes:
        runs: in the order of the characters; their lengths sum to the text's.
    """

    __slots__ = ("runs",)
    runs: tuple[Run, ...]

    def __new__(cls, text: str = "", runs: tuple[Run, ...] | None = None) -> Self:
        self = _plain(cls, text)
        self.runs = runs_of(text) if runs is None else runs
        return self

    @classmethod
    def of(cls, source: Source) -> Self:
        """The whole text of a source."""
        text = source.text
        length = len(text)
        return _made(cls, text, (make_run((length, source, 0, length, True)),) if text else ())

    def __str__(self) -> str:
        return self

    def __getitem__(self, key: SupportsIndex | slice) -> Self:
        text = str.__getitem__(self, key)
        if not isinstance(key, slice):
            start = key.__index__()
            start += len(self) if start < 0 else 0
            return _made(type(self), text, cut(self.runs, start, start + 1))
        start, stop, step = key.indices(len(self))
        if step == 1:
            return _made(type(self), text, cut(self.runs, start, max(start, stop)))
        return joined((self._part(i, i + 1) for i in range(start, stop, step)), type(self))

    def __iter__(self) -> Iterator[TracedText]:
        for i, character in enumerate(str.__iter__(self)):
            yield _made(TracedText, character, cut(self.runs, i, i + 1))

    def _part(self, start: int, stop: int) -> Self:
        """``self[start:stop]``, for positions within the text."""
        return _made(type(self), str.__getitem__(self, slice(start, stop)), cut(self.runs, start, stop))

    def _parts(self, lengths: Iterable[int], gap: int = 0) -> list[Self]:
        """Parts of the given lengths, with a gap between them."""
        parts, at = [], 0
        for length in lengths:
            parts.append(self._part(at, at + length))
            at += length + gap
        return parts

    def _trimmed(self, text: str, start: int) -> Self:
        """The text without what was removed from its ends; no mark is lost."""
        if len(text) == len(self):
            return self
        return _made(type(self), text, cut(self.runs, start, start + len(text), keep_marks=True))

    # --- concatenation

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, str):
            return str.__str__(self) + other  # what a plain string says to it
        return _made(type(self), str.__add__(self, other), chained(self.runs, runs_of(other)))

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, str):
            return other + str.__str__(self)
        return _made(type(self), str.__add__(other, self), chained(runs_of(other), self.runs))

    def __mul__(self, count: SupportsIndex) -> Self:
        _ = str.__str__(self[:1]) * count  # refuses what a plain string refuses
        return joined([self] * count.__index__(), type(self))

    def __rmul__(self, count: SupportsIndex) -> Self:
        return self * count

    def join(self, texts: Iterable[str], /) -> Self:
        texts = list(texts)
        str.join("", texts)  # refuses what a plain string refuses
        spaced: list[str] = [self] * max(2 * len(texts) - 1, 0)
        spaced[::2] = texts
        return joined(spaced, type(self))

    # --- cutting

    def strip(self, chars: str | None = None, /) -> Self:
        text = str.strip(self, chars)
        return self if len(text) == len(self) else self._trimmed(text, len(self) - len(str.lstrip(self, chars)))

    def lstrip(self, chars: str | None = None, /) -> Self:
        text = str.lstrip(self, chars)
        return self._trimmed(text, len(self) - len(text))

    def rstrip(self, chars: str | None = None, /) -> Self:
        return self._trimmed(str.rstrip(self, chars), 0)

    def removeprefix(self, prefix: str, /) -> Self:
        text = str.removeprefix(self, prefix)
        return self._trimmed(text, len(self) - len(text))

    def removesuffix(self, suffix: str, /) -> Self:
        return self._trimmed(str.removesuffix(self, suffix), 0)

    def split(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        texts = str.split(self, sep, maxsplit)
        if sep is not None:
            return [*self._parts(map(len, texts), gap=len(sep))]
        parts: list[str] = []
        at = 0
        for text in texts:
            at = str.index(self, text, at)
            parts.append(self._part(at, at + len(text)))
            at += len(text)
        return parts

    def rsplit(self, sep: str | None = None, maxsplit: SupportsIndex = -1) -> list[str]:
        texts = str.rsplit(self, sep, maxsplit)
        if sep is not None:
            return [*self._parts(map(len, texts), gap=len(sep))]
        parts: list[str] = []
        end = len(self)
        for text in reversed(texts):
            end = str.rindex(self, text, 0, end)
            parts.append(self._part(end, end + len(text)))
        return parts[::-1]

    def splitlines(self, keepends: bool = False) -> list[str]:
        lines = self._parts(map(len, str.splitlines(self, True)))
        return [line if keepends else line._part(0, len(str.splitlines(line)[0])) for line in lines]

    def partition(self, sep: str, /) -> tuple[Self, Self, Self]:
        before, found, after = self._parts(map(len, str.partition(self, sep)))
        return before, found, after

    def rpartition(self, sep: str, /) -> tuple[Self, Self, Self]:
        before, found, after = self._parts(map(len, str.rpartition(self, sep)))
        return before, found, after

    def replace(self, old: str, new: str, count: SupportsIndex = -1, /) -> Self:
        str.replace("", old, new, count)  # refuses what a plain string refuses
        left = count.__index__()
        if left == 0 or not str.__contains__(self, old):
            return self
        chunks: list[str] = []
        if not old:
            at = (len(self) + 1 if left < 0 else min(left, len(self) + 1)) - 1
            chunks = [chunk for i in range(at) for chunk in (new, self._part(i, i + 1))]
            return joined([*chunks, new, self._part(at, len(self))], type(self))
        at = 0
        while left and (found := str.find(self, old, at)) >= 0:
            chunks += (self._part(at, found), new)
            at = found + len(old)
            left -= 1
        return joined([*chunks, self._part(at, len(self))], type(self))

    # --- padding

    def _padded(self, text: str, before: int, fill: str) -> Self:
        """The text with ``before`` fill characters before it, and as many behind it as ``text`` is longer."""
        after = len(text) - len(self) - before
        return joined([fill * before, self, fill * after], type(self)) if len(text) > len(self) else self

    def ljust(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        return self._padded(str.ljust(self, width, fillchar), 0, fillchar)

    def rjust(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        text = str.rjust(self, width, fillchar)
        return self._padded(text, len(text) - len(self), fillchar)

    def center(self, width: SupportsIndex, fillchar: str = " ", /) -> Self:
        text = str.center(self, width, fillchar)
        pad = len(text) - len(self)
        return self._padded(text, pad // 2 + (pad & width.__index__() & 1), fillchar)

    def zfill(self, width: SupportsIndex, /) -> Self:
        zeros = "0" * (len(str.zfill(self, width)) - len(self))
        sign = 1 if str.startswith(self, ("+", "-")) else 0
        return joined([self._part(0, sign), zeros, self._part(sign, len(self))], type(self)) if zeros else self

    # --- respelling

    def remade(self, text: str) -> Self:
        """Another text, made from this one in a way that doesn't show which character from which."""
        return type(self)(text, merged_origin(self.runs, len(text)))

    def spelled(self, spellings: Mapping[int, str]) -> Self:
        """The text with the characters at some positions, in rising order, spelled differently: escapes."""
        texts: list[str] = []
        runs: list[Run] = []
        changes = iter(spellings.items())
        position, spelling = next(changes, (-1, ""))
        at = end = 0
        for run in self.runs:
            start, end = end, end + run.length
            while at <= position < end:
                if spelling != str.__getitem__(self, position):
                    if at < position:
                        append_run(runs, part_of(run, at - start, position - start))
                    runs += merged_origin((part_of(run, position - start, position + 1 - start),), len(spelling))
                    texts += (str.__getitem__(self, slice(at, position)), spelling)
                    at = position + 1
                position, spelling = next(changes, (-1, ""))
            if at < end or not run.length:
                append_run(runs, part_of(run, at - start, run.length))
                texts.append(str.__getitem__(self, slice(at, end)))
                at = end
        return type(self)("".join(texts), tuple(runs))

    def recased(self, text: str, recase: Callable[[str], str] | None = None) -> Self:
        """The text in other letters: ``text`` is the whole, ``recase`` gives the length of a part of it."""
        return _made(type(self), text, recased_runs(self.runs, str.__str__(self), text, recase))

    def upper(self) -> Self:
        return self.recased(str.upper(self), str.upper)

    def lower(self) -> Self:
        return self.recased(str.lower(self), str.lower)

    def casefold(self) -> Self:
        return self.recased(str.casefold(self), str.casefold)

    def swapcase(self) -> Self:
        return self.recased(str.swapcase(self), str.swapcase)

    def title(self) -> Self:
        return self.recased(str.title(self))

    def capitalize(self) -> Self:
        return self.recased(str.capitalize(self))

    def expandtabs(self, tabsize: SupportsIndex = 8) -> Self:
        def width(stop: int) -> int:
            return len(str.expandtabs(str.__getitem__(self, slice(stop)), tabsize))

        tabs = [i for i, character in enumerate(str.__iter__(self)) if character == "\t"]
        return self.spelled({i: " " * (width(i + 1) - width(i)) for i in tabs})

    def translate(self, table: Any, /) -> TracedText:
        return _formatting().lost(str.translate(self, table))  # the table's texts may come from anywhere

    # --- formatting, where the text is the format

    def __mod__(self, values: Any) -> TracedText:
        return _formatting().percent(self, values)

    def __rmod__(self, template: str) -> TracedText:
        return _formatting().percent(template, self) if isinstance(template, str) else NotImplemented

    def format(self, *args: Any, **kwargs: Any) -> TracedText:
        return _formatting().braces(self, args, kwargs)

    def format_map(self, mapping: Any, /) -> TracedText:
        return _formatting().braces(self, (), mapping)

    def __format__(self, spec: str) -> str:
        text = str.__format__(self, spec)
        return self if text == self else self.remade(text)


Text = TypeVar("Text", bound=TracedText)


def _made(kind: type[Text], text: str, runs: tuple[Run, ...]) -> Text:
    """``kind(text, runs)``, without the cost of a constructor in Python."""
    made = _plain(kind, text)
    made.runs = runs
    return made


def _formatting() -> Any:
    from torchpipe.tokenizers.jinja import formatting  # which builds on this file

    return formatting


def runs_of(text: str) -> tuple[Run, ...]:
    """The provenance of any string; a plain one is template text."""
    if isinstance(text, TracedText):
        return text.runs
    return (template_run(len(text)),) if text else ()


def joined(chunks: Iterable[str], kind: type[Text] = TracedText) -> Text:
    """One text of many, with the provenance of each; plain strings are template text.

    >>> joined(["<", "b", ">"]).runs
    (Run(length=3, source=None, start=0, stop=0, exact=True),)
    """
    texts: list[str] = []
    runs: list[Run] = []
    written = 0  # characters of template text that stand in no run yet
    for chunk in chunks:
        texts.append(chunk)
        if type(chunk) is str or not isinstance(chunk, TracedText):
            written += len(chunk)
        elif more := chunk.runs:
            if written:
                append_run(runs, template_run(written))
                written = 0
            append_run(runs, more[0])
            if len(more) > 1:
                runs += more[1:]
    if written:
        append_run(runs, template_run(written))
    return _made(kind, "".join(texts), tuple(runs))


def mark_text(mark: Mark) -> TracedText:
    """An empty text that carries a mark; joined with others, the mark stays between them."""
    return TracedText("", (Run(0, mark, 0, 0, False),))
