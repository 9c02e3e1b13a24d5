"""The ``messages`` that a traced template reads: they note how much text stood there when each first became known.

Text that was printed before message k became known can depend on the messages before k alone. That is what makes the
proof of :mod:`torchpipe.tokenizers.jinja.turns` need one render instead of one for each turn.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, SupportsIndex

from jinja2.runtime import LoopContext

from torchpipe.tokenizers.jinja.limits import RenderState
from torchpipe.tokenizers.jinja.provenance import Source
from torchpipe.tokenizers.jinja.text import TracedText


class RowMessage(dict[str, Any]):
    """One message of a row, which knows its place."""

    __slots__ = ("index",)
    index: int


class Reading:
    """What a template has asked of a conversation of n messages, while it is rendered.

    Args:
        num_messages: n.
        state: of the render, which counts what is printed.

    Attributes:
        known_at: int [n + 1], the characters printed when message i first became known, -1 while it isn't; n stands
            for the conversation's end.
        by_step: bool [n + 1], whether message i became known by a step of the template's last loop and nothing beyond
            it was known before.
        looks_ahead: True while a loop asks for its next item without a step.
    """

    __slots__ = ("_highest", "_state", "by_step", "known_at", "looks_ahead")

    def __init__(self, num_messages: int, state: RenderState) -> None:
        self._state = state
        self.known_at = [-1] * (num_messages + 1)
        self.by_step = [False] * (num_messages + 1)
        self.looks_ahead = False
        self._highest = -1

    def note(self, index: int, by_step: bool = False) -> None:
        """Message ``index`` and all before it are known from here on."""
        if index > self._highest:
            self.by_step[index] = by_step and not self.looks_ahead
            for known in range(self._highest + 1, index + 1):
                self.known_at[known] = self._state.printed
            self._highest = index


class RowMessages(list[Any]):
    """The messages from ``start`` on, in a list's clothes.

    Nothing is stored in the list itself: code that reads it past these methods finds it empty, which the comparison
    with a plain render shows.
    """

    __slots__ = ("_items", "_reading", "_start")

    def __init__(self, items: Sequence[RowMessage], reading: Reading, start: int = 0) -> None:
        super().__init__()
        self._items = items
        self._reading = reading
        self._start = min(start, len(items))

    def steps(self, by_step: bool = True) -> Iterator[RowMessage]:
        """The messages one after the other, each noted as it comes."""
        note = self._reading.note
        for index in range(self._start, len(self._items)):
            note(index, by_step)
            yield self._items[index]
        note(len(self._items), by_step)

    def __iter__(self) -> Iterator[RowMessage]:
        return self.steps(by_step=False)

    def __bool__(self) -> bool:
        self._reading.note(self._start)
        return self._start < len(self._items)

    def __len__(self) -> int:
        self._reading.note(len(self._items))
        return len(self._items) - self._start

    def __getitem__(self, key: Any) -> Any:
        end = len(self._items)
        if not isinstance(key, slice):
            position = key.__index__()
            if position < 0:
                return self._all()[position]
            self._reading.note(min(self._start + position, end))
            return self._items[self._start + position]
        from_start = key.start is None or key.start >= 0
        forward = key.step is None or key.step > 0
        if from_start and key.stop is None and key.step in (None, 1):
            return RowMessages(self._items, self._reading, self._start + (key.start or 0))
        if not (from_start and forward and key.stop is not None and key.stop > 0):
            return self._all()[key]
        self._reading.note(min(self._start + key.stop - 1, end))
        return list(self._items[self._start : self._start + key.stop])[key]

    def _all(self) -> list[Any]:
        self._reading.note(len(self._items))
        return list(self._items[self._start :])

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self._all())

    def __add__(self, other: Any) -> list[Any]:
        return self._all() + list(other)

    def __radd__(self, other: Any) -> list[Any]:
        return list(other) + self._all()

    def __mul__(self, times: SupportsIndex) -> list[Any]:
        return self._all() * times

    __rmul__ = __mul__

    def __contains__(self, item: object) -> bool:
        return item in self._all()

    def __eq__(self, other: object) -> bool:
        return self._all() == (other._all() if isinstance(other, RowMessages) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def index(self, *arguments: Any) -> int:
        """As a list's."""
        return self._all().index(*arguments)

    def count(self, item: Any) -> int:
        """As a list's."""
        return self._all().count(item)

    def copy(self) -> list[Any]:
        """A plain list of the messages."""
        return self._all()

    def __reduce__(self) -> NoReturn:
        raise TypeError("Messages that are being rendered can't be pickled.")


class NotedLoop(LoopContext):
    """``loop`` of a traced template: what it asks ahead of its step is noted as such."""

    def _peek_next(self) -> Any:
        return self._ahead(super()._peek_next)

    @property
    def length(self) -> int:
        """How many items the loop has."""
        return self._ahead(lambda: super(NotedLoop, self).length)

    def _ahead(self, ask: Any) -> Any:
        reading = getattr(getattr(self._iterable, "messages", self._iterable), "_reading", None)
        if reading is None:
            return ask()
        reading.looks_ahead = True
        try:
            return ask()
        finally:
            reading.looks_ahead = False


class Steps:
    """The conversation, as the template's last loop steps through it."""

    __slots__ = ("messages",)

    def __init__(self, messages: RowMessages) -> None:
        self.messages = messages

    def __iter__(self) -> Iterator[RowMessage]:
        return self.messages.steps()

    def __len__(self) -> int:
        return len(self.messages)


def steps_of(iterable: Any) -> Any:
    """What the last loop steps through, noted as its steps where it is the conversation."""
    return Steps(iterable) if type(iterable) is RowMessages else iterable


def message_of(item: Any) -> int | None:
    """The message that a loop stands at; -1 for one that can't be told, None for what is no message.

    A dict that the template made takes it from the first text in it that is a message's.
    """
    if type(item) is RowMessage:
        return item.index
    if type(item) is not dict or "role" not in item:
        return None
    return next(_messages_in(item), -1)


def _messages_in(value: Any) -> Iterator[int]:
    if isinstance(value, TracedText):
        yield from (
            run.source.message for run in value.runs if isinstance(run.source, Source) and run.source.message >= 0
        )
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _messages_in(item)
