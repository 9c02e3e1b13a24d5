"""What a traced render says: whose text stands where."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torchpipe.tokenizers.jinja.limits import RenderState
from torchpipe.tokenizers.jinja.messages import Reading, RowMessage
from torchpipe.tokenizers.jinja.provenance import TOOLS, UNKNOWN, Mark, Run, Source
from torchpipe.tokenizers.jinja.syntax import AT_MARK
from torchpipe.tokenizers.jinja.text import TracedText, runs_of


class ControlSpan(NamedTuple):
    """A control token that stands in the template's own text, in characters [start, stop)."""

    start: int
    stop: int
    text: str
    token_id: int = -1


class Printed(NamedTuple):
    """Where characters [source_start, source_stop) of a row's string stand: in the text from ``start`` to ``stop``."""

    start: int
    stop: int
    source: Source
    source_start: int
    source_stop: int


control_span: Callable[[tuple[Any, ...]], ControlSpan] = partial(tuple.__new__, ControlSpan)
"""A control token of its four fields; faster than :class:`ControlSpan` itself."""

_printed: Callable[[tuple[Any, ...]], Printed] = partial(tuple.__new__, Printed)
_AFTER_ALL = float("inf")
"""Beside a place, behind all tuples that start with it."""


class Rendering:
    """A conversation's text, and where each part of it comes from.

    Args:
        chunks: what the traced template prints: texts, and tuples of texts. They are read once, and counted.
        rows: the messages that it reads.
        reading: when each message became known.
        state: of the render.

    Attributes:
        text: what the template printed, a plain string.
        owners: (start, message) in order: from ``start`` on, the text is that of ``message``; -1 is no message's.
        template_ranges: [start, stop) of the text that the template itself wrote, in order.
        printed: where strings of the row stand, in order.
        rows: the messages.
        reading: when each message became known.
        has_unknown: whether the origin of some text was lost.
        controls: the control tokens in the template's own text, once somebody has found them.
        num_written: the characters that the template wrote; less than the text's where something was appended.
    """

    __slots__ = (
        *("_of_messages", "_starts", "controls", "has_unknown", "num_written", "owners", "printed"),
        *("reading", "rows", "template_ranges", "text"),
    )

    def __init__(self, chunks: Iterable[Any], rows: Sequence[RowMessage], reading: Reading, state: RenderState) -> None:
        self.rows = rows
        self.reading = reading
        self.controls: Sequence[ControlSpan] | None = None
        self.owners: list[tuple[int, int]] = []
        self.template_ranges: list[tuple[int, int]] = []
        self.printed: list[Printed] = []
        self.has_unknown = False
        self._of_messages: dict[int, list[Printed]] | None = None
        self._starts: dict[int, int] | None = None
        self.text = self._read(chunks, state)
        self.num_written = len(self.text)

    def _read(self, chunks: Iterable[Any], state: RenderState) -> str:
        """All text of the chunks. One pass: this is where most time goes that isn't the template's."""
        owners, ranges, printed = self.owners, self.template_ranges, self.printed
        texts: list[str] = []
        loops: list[tuple[int, int]] = []  # the loops that the template is in, and the message that each stands at
        owner = speaker = -1  # of the last text; of the template's own text here
        place = state.printed
        begun = -1  # where the template's own text began that has no range yet; -1: there is none
        allowed = state.limits.max_characters
        for chunk in chunks:
            for text in chunk if type(chunk) is tuple else (chunk,):
                runs: tuple[Run, ...]
                if type(text) is TracedText:
                    runs = text.runs
                elif type(text) is str:
                    if not text:
                        continue
                    texts.append(text)
                    if owner != speaker or not place:
                        owners.append((place, speaker))
                        owner = speaker
                    if begun < 0:
                        begun = place
                    place += len(text)
                    continue
                else:
                    runs = runs_of(text)
                texts.append(text)
                for length, source, start, stop, _ in runs:
                    if not length:
                        if type(source) is not Mark:
                            continue
                        value: Any = source.value
                        if source.kind == AT_MARK and loops and loops[-1][0] == value[0]:  # the loop's next pass
                            loops[-1] = value
                            speaker = value[1]
                        else:
                            speaker = _follow(loops, source)
                        continue
                    if source is None:
                        now = speaker
                        if begun < 0:
                            begun = place
                    else:
                        now = source.message  # type: ignore[union-attr]
                        if now < 0:
                            self.has_unknown = self.has_unknown or source is UNKNOWN
                            now = speaker
                        if begun >= 0:
                            ranges.append((begun, place))
                            begun = -1
                        printed.append(_printed((place, place + length, source, start, stop)))
                    if owner != now or not place:
                        owners.append((place, now))
                        owner = now
                    place += length
            state.printed = place
            if place > allowed:
                state.limits.check_size(place)
        if begun >= 0:
            ranges.append((begun, place))
        return "".join(texts)

    def append(self, text: str, control: ControlSpan, message: int) -> None:
        """Ends the message with a text and a control token, as if the template had written them."""
        place, start = len(self.text), len(self.text) + len(text)
        self.text += text + control.text
        self.template_ranges.append((place, len(self.text)))
        self.owners.append((place, message))
        if self.controls is not None:
            self.controls = [*self.controls, control._replace(start=start, stop=len(self.text))]

    def printed_of(self, message: int) -> Sequence[Printed]:
        """Where the message's own strings stand, in order."""
        if self._of_messages is None:
            self._of_messages = {}
            for part in self.printed:
                self._of_messages.setdefault(part[2].message, []).append(part)
        return self._of_messages.get(message, ())

    @property
    def writes_tools(self) -> bool:
        """Whether any text of the tools' schemas stands there."""
        return any(part[2].message == TOOLS for part in self.printed)

    def end_of_turn(self, message: int, start: int) -> int:
        """Where the text of another message begins, after ``start``; the text's end where none does."""
        owners = self.owners
        for number in range(max(0, bisect_right(owners, (start, _AFTER_ALL)) - 1), len(owners)):
            place, owner = owners[number]
            if owner != message and place >= start and owner != -1:
                return place
        return len(self.text)

    def start_of(self, message: int) -> int:
        """Where the message's text first stands; the text's end where there is none of it."""
        if self._starts is None:
            self._starts = {owner: place for place, owner in reversed(self.owners)}
        return self._starts.get(message, len(self.text))

    def content_end(self, message: int, start: int, stop: int) -> int:
        """Where the last character of the message's own strings in [start, stop) ends; ``start`` without any."""
        parts = self.printed_of(message)
        last = bisect_right(parts, (stop - 1, _AFTER_ALL)) - 1
        return parts[last].stop if last >= 0 and parts[last].start >= start else start


def _follow(loops: list[tuple[int, int]], mark: Mark) -> int:
    """Brings the stack of loops up to a mark: where the template's own text is, from there on.

    Some marks may be missing, with text that was cut away.
    """
    value: Any = mark.value
    is_at = mark.kind == AT_MARK
    number = value[0] if is_at else value
    if loops and loops[-1][0] == number:
        loops.pop()
    else:
        place = next((place for place, (loop, _) in enumerate(loops) if loop == number), None)
        if place is not None:
            del loops[place:]
    if is_at:
        loops.append(value)
    return loops[-1][1] if loops else -1
