"""A weighted mix of nodes, row by row as they give them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from torchpipe.data.mix_turns import MixTurns, ServedShare, Turn
from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.by_grain.order import none_left, why_none_left
from torchpipe.pipeline.by_grain.packed_rows import num_tokens_of, num_trained_of
from torchpipe.pipeline.by_grain.reading import GrainDataset, read_in_order
from torchpipe.pipeline.dataset import MixBy, MixStop

_MOST_WITHOUT_UNITS = 10_000
"""So many rows of a child in a row that count for nothing: it would be asked for ever."""

_UNITS = {"rows": lambda row: 1, "tokens": num_tokens_of, "trained_tokens": num_trained_of}


@dataclass(frozen=True, kw_only=True, eq=False)
class MixChild:
    """A child of a mix, built.

    Attributes:
        name: of the child.
        dataset: its rows.
        weights: by the first item of the mix that they hold for.
        max_passes: how often it is gone through; None: any number of times.
        is_endless: it begins again by itself, so that it has one pass that never ends.
        part, num_parts: whose rows these are.
    """

    name: str
    dataset: GrainDataset
    weights: Mapping[int, float]
    max_passes: float | None
    is_endless: bool
    part: int
    num_parts: int


class MixStream(grain.IterDataset[Any]):
    """The rows of several children, each of which gives its share.

    Args:
        children: what is mixed.
        by: what shares are counted in.
        stop: when it ends; None: when no child has a row left.
        seed: of the order of rows whose turn is at the same time.
        read_options: for children that are read by number.
    """

    def __init__(
        self,
        children: Sequence[MixChild],
        *,
        by: MixBy,
        stop: MixStop | None,
        seed: int,
        read_options: grain.ReadOptions | None,
    ) -> None:
        super().__init__([child.dataset for child in children])
        self._children = tuple(children)
        self._by: MixBy = by
        self._stop: MixStop | None = stop
        self._seed = seed
        self._read_options = read_options
        for child in children:
            passes = child.max_passes
            if passes is not None and passes % 1 and not _is_read_by_number(child.dataset):
                raise ConfigError(
                    f"max_epochs of {child.name} is {passes}, and a stream does not say where a part of it ends. Give "
                    "a whole number."
                )

    def __iter__(self) -> "MixIterator":
        rows = [
            (_NumberedRows if _is_read_by_number(child.dataset) else _StreamRows)(child, self._read_options)
            for child in self._children
        ]
        turns = MixTurns([c.name for c in self._children], [c.weights for c in self._children], seed=self._seed)
        return MixIterator(rows, turns, by=self._by, stop=self._stop)

    def __str__(self) -> str:
        return f"MixStream({', '.join(child.name for child in self._children)})"


class MixIterator(grain.DatasetIterator[Any]):
    """Iterates over a :class:`MixStream`. Its state is counts, and the state of each child."""

    def __init__(self, rows: Sequence["_Rows"], turns: MixTurns, *, by: MixBy, stop: MixStop | None) -> None:
        super().__init__([one.iterator for one in rows])
        self._rows = rows
        self._turns = turns
        self._size_of = _UNITS[by]
        self._by = by
        self._stop = stop
        self._num_without_units = 0

    def shares(self) -> list[ServedShare]:
        """What each child was meant to give, and has given so far."""
        return self._turns.shares()

    def __next__(self) -> Any:
        self._assert_not_closed()
        for number, one in enumerate(self._rows):
            one.fill(self._turns, number)
        sizes = [None if one.held is None else self._size_of(one.held) for one in self._rows]
        turn = self._turns.next_turn(sizes)
        if turn is None or self._is_over(turn):
            raise StopIteration
        size = sizes[turn.source]
        assert size is not None
        self._turns.give(turn.source, size)
        self._num_without_units = 0 if size else self._num_without_units + 1
        if self._num_without_units > _MOST_WITHOUT_UNITS:
            raise DataError(
                f"{self._rows[turn.source].name} gave {_MOST_WITHOUT_UNITS:,} rows in a row without "
                f"{self._by.replace('_', ' ')}, by which the mix is weighted. Mix by rows, or take it out."
            )
        return self._rows[turn.source].take()

    def _is_over(self, turn: Turn) -> bool:
        """Whether the item stands behind the end of the mix."""
        if self._stop is None:
            return False
        ends = [one.ended_at for one in self._rows if one.ended_at is not None]
        if self._stop == "first":
            ends = [one.ended_at for one in self._rows if one.is_over and one.ended_at is not None]
        elif len(ends) < len(self._rows):
            return False
        if not ends:
            return False
        phase, time = min(ends) if self._stop == "first" else max(ends)
        return phase < self._turns.phase or turn.time >= time

    def get_state(self) -> dict[str, Any]:
        """The state of each child in front of the row that it holds, and the counts."""
        return {
            "children": [one.get_state() for one in self._rows],
            "turns": self._turns.get_state(),
            "without_units": self._num_without_units,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from there.

        Raises:
            ConfigError: the state has another number of children.
        """
        if len(state["children"]) != len(self._rows):
            raise ConfigError(
                f"The state is of a mix of {len(state['children'])} children, and this one has {len(self._rows)}."
            )
        for one, own in zip(self._rows, state["children"], strict=True):
            one.set_state(own)
        self._turns.set_state(state["turns"])
        self._num_without_units = state["without_units"]


def mix_shares(iterator: Any) -> list[list[ServedShare]]:
    """For each mix of a graph, from its end to its sources, what each child was meant to give and has given.

    Args:
        iterator: over what a node's ``build`` gave.
    """
    own = [iterator.shares()] if isinstance(iterator, MixIterator) else []
    return own + [found for parent in getattr(iterator, "_parents", ()) for found in mix_shares(parent)]


class _Rows(ABC):
    """The rows of a child, of which the next one is held: its size decides when its turn is.

    A state is that before the held row, which is read again.

    Attributes:
        held: the next row.
        is_over: whether there is none any more.
        ended_at: when the first pass, or all of it, ended: the phase, and the time in it.
    """

    iterator: Any

    def __init__(self, child: MixChild) -> None:
        self.name, self._dataset = child.name, child.dataset
        self.held: Any = None
        self.is_over = False
        self.ended_at: tuple[int, int] | None = None
        self._before: dict[str, Any] | None = None
        self._gave = False

    def fill(self, turns: MixTurns, number: int) -> None:
        """Sees to it that the next row is held, if there is one."""
        if self.held is not None or self.is_over:
            return
        before = self._now()
        passes = self._passes()
        self.held = self._read()
        self.is_over = self.held is None
        if self.ended_at is None and (self.is_over or (passes == 0 and self._passes() > 0)):
            self.ended_at = (turns.phase, turns.time_of(number))
        self._before = None if self.is_over else before

    def take(self) -> Any:
        """The row that is held."""
        row, self.held, self._before = self.held, None, None
        return row

    def get_state(self) -> dict[str, Any]:
        """The state before the row that is held."""
        return self._now() if self._before is None else self._before

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from there."""
        self.held = self._before = None
        self.is_over, self._gave = state["is_over"], state["gave"]
        self.ended_at = None if state["ended_at"] is None else (state["ended_at"][0], state["ended_at"][1])
        self.iterator.set_state(state["parent"])
        self._go_to(state["place"])

    def _now(self) -> dict[str, Any]:
        return {
            "parent": self.iterator.get_state(),
            "place": self._place(),
            "is_over": self.is_over,
            "ended_at": None if self.ended_at is None else list(self.ended_at),
            "gave": self._gave,
        }

    @abstractmethod
    def _read(self) -> Any:
        """The next row; None: there is none."""

    @abstractmethod
    def _passes(self) -> int:
        """How often it was gone through, up to the row that was read last."""

    @abstractmethod
    def _place(self) -> int: ...

    @abstractmethod
    def _go_to(self, place: int) -> None: ...


class _NumberedRows(_Rows):
    """Rows that are read by number: those past the end are of the next pass, in its own order."""

    def __init__(self, child: MixChild, read_options: grain.ReadOptions | None) -> None:
        super().__init__(child)
        dataset: Any = child.dataset
        self._num_rows = len(dataset)
        passes = None if child.max_passes is None else Fraction(repr(float(child.max_passes)))
        self._stop = None if passes is None else int(passes * self._num_rows)
        endless = dataset if child.is_endless else dataset.repeat()
        self._is_endless = child.is_endless
        # With what is left out as None, so that it is known how many rows were read.
        self.iterator = iter(read_in_order(endless, read_options, allow_nones=True))
        self._next = 0

    def _read(self) -> Any:
        while self._stop is None or self._next < self._stop:
            row = next(self.iterator)
            self._next += 1
            if row is not None:
                self._gave = True
                return row
            if self._next == self._num_rows and not self._gave:
                break
        if not self._gave:
            raise none_left(self.name, self._num_rows, self._dataset)
        return None

    def _passes(self) -> int:
        return 0 if self._is_endless else max(self._next - 1, 0) // self._num_rows

    def _place(self) -> int:
        return self._next

    def _go_to(self, place: int) -> None:
        self._next = place


class _StreamRows(_Rows):
    """Rows of a stream, which is begun again where it ends and more is wanted: in the same order."""

    def __init__(self, child: MixChild, read_options: grain.ReadOptions | None) -> None:
        super().__init__(child)
        dataset: Any = child.dataset
        if isinstance(dataset, grain.MapDataset):
            dataset = read_in_order(dataset, read_options)
        self._part, self._num_parts = child.part, child.num_parts
        self.iterator = iter(dataset)
        self._begin = self.iterator.get_state()
        self._max_passes = child.max_passes
        self._num_passes = 0

    def _read(self) -> Any:
        while True:
            try:
                row = next(self.iterator)
            except StopIteration:
                if not self._gave:
                    raise self._none_left() from None
                self._num_passes += 1
                if self._max_passes is not None and self._num_passes >= self._max_passes:
                    return None
                self.iterator.set_state(self._begin)
            else:
                self._gave = True
                return row

    def _none_left(self) -> DataError:
        here, fewer = "", ""
        if self._num_parts > 1:
            here = f" in part {self._part} of {self._num_parts}"
            fewer = ", give it more rows, use fewer ranks (or num_logical_shards)"
        return DataError(
            f"{self.name}: none of its rows is left{here}. Loosen its filters{fewer}, or take it "
            f"out.{why_none_left(self._dataset)}"
        )

    def _passes(self) -> int:
        return self._num_passes

    def _place(self) -> int:
        return self._num_passes

    def _go_to(self, place: int) -> None:
        self._num_passes = place


def _is_read_by_number(dataset: GrainDataset) -> bool:
    """Whether passes end at a row's number. A mix by number does not know beforehand where its rows end."""
    return isinstance(dataset, grain.MapDataset) and not getattr(dataset, "ends_early", False)
