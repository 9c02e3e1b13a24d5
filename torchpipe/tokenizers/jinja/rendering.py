"""What a traced render says: whose text stands where."""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from torchpipe.tokenizers.jinja.messages import Reading
from torchpipe.tokenizers.jinja.provenance import TOOLS, UNKNOWN, Mark, Source
from torchpipe.tokenizers.jinja.syntax import AT_MARK
from torchpipe.tokenizers.jinja.text import TracedText


@dataclass(frozen=True)
class Printed:
    """Where characters [source_start, source_stop) of a row's string stand: in the text from ``start`` to ``stop``."""

    start: int
    stop: int
    source_start: int
    source_stop: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Rendering:
    """A conversation's text, and where each part of it comes from.

    Attributes:
        text: what the template printed, a plain string.
        owners: (start, message) in order: from ``start`` on, the text is that of ``message``; -1 is no message's.
        template_ranges: [start, stop) of the text that the template itself wrote, in order.
        printed: for each string of the row, the places where parts of it stand, in order.
        sources: for each message, its strings that a training text has to hold.
        reading: when each message became known.
        has_unknown: whether the origin of some text was lost.
    """

    text: str
    owners: list[tuple[int, int]]
    template_ranges: list[tuple[int, int]]
    printed: Mapping[Source, list[Printed]]
    sources: list[list[Source]]
    reading: Reading
    has_unknown: bool

    @classmethod
    def of(cls, output: TracedText, sources: list[list[Source]], reading: Reading) -> "Rendering":
        """What the runs of a template's output say."""
        owners: list[tuple[int, int]] = []
        template_ranges: list[tuple[int, int]] = []
        printed: dict[Source, list[Printed]] = {}
        loops: list[tuple[int, int]] = []
        has_unknown = False
        place = 0
        for length, source, start, stop, _ in output.runs:
            if isinstance(source, Mark):
                _follow(loops, source)
                continue
            if not length:
                continue
            end = place + length
            if source is None:
                if template_ranges and template_ranges[-1][1] == place:
                    template_ranges[-1] = (template_ranges[-1][0], end)
                else:
                    template_ranges.append((place, end))
                owner = loops[-1][1] if loops else -1
            else:
                has_unknown = has_unknown or source is UNKNOWN
                owner = source.message if source.message >= 0 else (loops[-1][1] if loops else -1)
                printed.setdefault(source, []).append(Printed(place, end, start, stop))
            if not owners or owners[-1][1] != owner:
                owners.append((place, owner))
            place = end
        return cls(
            text=str.__str__(output),
            owners=owners,
            template_ranges=template_ranges,
            printed=printed,
            sources=sources,
            reading=reading,
            has_unknown=has_unknown,
        )

    @property
    def writes_tools(self) -> bool:
        """Whether any text of the tools' schemas stands there."""
        return any(source.message == TOOLS for source in self.printed)

    def end_of_turn(self, message: int, start: int) -> int:
        """Where the text of another message begins, after ``start``; the text's end where none does."""
        first = max(0, bisect_right(self.owners, start, key=itemgetter(0)) - 1)
        for place, owner in self.owners[first:]:
            if place >= start and owner not in (message, -1):
                return place
        return len(self.text)

    def start_of(self, message: int) -> int:
        """Where the message's text first stands; the text's end where there is none of it."""
        return next((place for place, owner in self.owners if owner == message), len(self.text))

    def content_end(self, message: int, start: int, stop: int) -> int:
        """Where the last character of the message's own strings in [start, stop) ends; ``start`` without any."""
        ends = (
            part.stop
            for source, parts in self.printed.items()
            if source.message == message
            for part in parts
            if start <= part.start < stop
        )
        return max(ends, default=start)


def _follow(loops: list[tuple[int, int]], mark: Mark) -> None:
    """Brings the stack of (loop number, message) up to a mark; some may be missing, with text that was cut away."""
    value: Any = mark.value
    number = value[0] if mark.kind == AT_MARK else value
    place = next((place for place, (loop, _) in enumerate(loops) if loop == number), None)
    if place is not None:
        del loops[place:]
    if mark.kind == AT_MARK:
        loops.append(value)
