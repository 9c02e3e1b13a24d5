"""Where characters come from: sources, runs of characters, and marks between them."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple


class Source:
    """One string that was given to a template. Two sources are the same only if they are one object.

    Attributes:
        message: index of the message; :data:`TOOLS` or :data:`OPTIONS` for what belongs to no message.
        path: where the string stands, as ``("content",)``, ``("tool_calls", 0, "function", "arguments")``, or for a
            key of a dict ``(..., "key:name")``.
        text: the string.
    """

    __slots__ = ("message", "path", "text")

    def __init__(self, message: int, path: tuple[str | int, ...], text: str) -> None:
        self.message = message
        self.path = path
        self.text = text

    def __repr__(self) -> str:
        return f"Source({self.message}, {self.path}, {self.text!r})"


class Mark:
    """A position in a text, which takes no room there. Two marks are the same only if they are one object."""

    __slots__ = ("kind", "value")

    def __init__(self, kind: str, value: object = None) -> None:
        self.kind = kind
        self.value = value

    def __repr__(self) -> str:
        return f"Mark({self.kind!r}, {self.value!r})"


TOOLS: Final = -1
"""``Source.message`` of the tools' schemas."""
OPTIONS: Final = -2
"""``Source.message`` of the options that the caller passes to the template."""
TEMPLATE: Final = None
"""The source of what the template itself writes: its literals, numbers, roles, the names of control tokens."""
UNKNOWN: Final = Source(-3, (), "")
"""The source of characters whose origin was lost. They hold text of some source, and nobody can say which."""


class Run(NamedTuple):
    """Characters that stand together in a text and come from the same place.

    Attributes:
        length: how many characters; 0 for a mark.
        source: where they come from.
        start, stop: the characters of ``source.text`` that they come from; both 0 where there is no such text.
        exact: whether they are the characters ``source.text[start:stop]``. Otherwise they were made from those: a JSON
            escape, capitals.
    """

    length: int
    source: Source | Mark | None
    start: int
    stop: int
    exact: bool


make_run: Callable[[tuple[Any, ...]], Run] = partial(tuple.__new__, Run)
"""A run of its five fields; twice as fast as :class:`Run` itself."""


def template_run(length: int) -> Run:
    """A run of characters that the template itself writes."""
    return make_run((length, TEMPLATE, 0, 0, True))


def append_run(runs: list[Run], run: Run) -> None:
    """Adds a run to the end of others; it is merged with the last one where both are one stretch of one source."""
    if runs:
        last = runs[-1]
        if last.source is run.source and last.exact and run.exact and last.stop == run.start:
            runs[-1] = make_run((last.length + run.length, run.source, last.start, run.stop, True))
            return
    runs.append(run)


def chained(left: tuple[Run, ...], right: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs of two texts, one after the other."""
    if not left or not right:
        return left or right
    last, first = left[-1], right[0]
    if last.source is first.source and last.exact and first.exact and last.stop == first.start:
        run = make_run((last.length + first.length, first.source, last.start, first.stop, True))
        return (*left[:-1], run, *right[1:])
    return left + right


def part_of(run: Run, start: int, stop: int) -> Run:
    """The run of characters [start, stop) of a run."""
    length, source, first, last, exact = run
    if stop - start == length:
        return run
    if exact and source is not None:
        return make_run((stop - start, source, first + start, first + stop, True))
    return make_run((stop - start, source, first, last, exact))


def cut(runs: tuple[Run, ...], start: int, stop: int, *, keep_marks: bool = False) -> tuple[Run, ...]:
    """The runs of characters [start, stop) of a text.

    Args:
        runs: of the whole text.
        start, stop: where to cut. Marks that stand there are kept.
        keep_marks: whether marks outside are kept too, and move to the nearer end.
    """
    if len(runs) == 1 and runs[0].length:
        return (part_of(runs[0], start, stop),) if start < stop else ()
    kept: list[Run] = []
    at = 0
    for run in runs:
        end = at + run.length
        if at == end:
            if keep_marks or start <= at <= stop:
                kept.append(run)
        elif start < end and at < stop and start < stop:
            kept.append(part_of(run, max(start, at) - at, min(stop, end) - at))
        elif at > stop and not keep_marks:
            break
        at = end
    return tuple(kept)


def merged_origin(runs: Iterable[Run], length: int) -> tuple[Run, ...]:
    """One run for characters of which nobody knows which of the given runs they were made from.

    They are the template's if all of that is, and made from a stretch of a source if all comes from there.
    """
    origins = [run for run in runs if run.length]
    sources = {id(run.source): run.source for run in origins}
    if not length:
        return ()
    if len(sources) == 1:
        (source,) = sources.values()
        if source is TEMPLATE:
            return (template_run(length),)
        if source is not UNKNOWN:
            return (Run(length, source, min(r.start for r in origins), max(r.stop for r in origins), False),)
    return (Run(length, UNKNOWN, 0, 0, False),) if sources else (template_run(length),)


def recased_runs(
    runs: tuple[Run, ...], old: str, new: str, recase: Callable[[str], str] | None = None
) -> tuple[Run, ...]:
    """The runs of a text in other letters. What stayed the same is still exact.

    Args:
        runs: of the text as it was.
        old, new: the text before and after. Cases never shorten a text, so equal lengths say that every character
            stands where it stood.
        recase: says how long a part of the text becomes, for texts that grow; without it their characters are lost.
    """
    kept: list[Run] = []
    aligned = len(old) == len(new)
    at = to = 0
    for run in runs:
        part = old[at : at + run.length]
        length = run.length if aligned else len(recase(part)) if recase else 0
        if run.source is TEMPLATE:
            append_run(kept, template_run(length))
        else:
            append_run(kept, run if new[to : to + length] == part else run._replace(length=length, exact=False))
        at, to = at + run.length, to + length
    return tuple(kept) if to == len(new) else merged_origin(runs, len(new))
