"""The weighted schedule of :mod:`torchpipe.data.mixing` for sources that are met item by item.

It is the same rule: an item's time is the middle of the units that it covers in its source's order, over the source's
weight, and the item with the smallest time comes next. Only the next item of each source need be known. Times are
whole numbers here, so that no order depends on rounding, and all that is kept are counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from torchpipe._seeds import derive


class Turn(NamedTuple):
    """Which source is next, and when: the time of its next item, as a whole number of its own unit."""

    source: int
    time: int


@dataclass(frozen=True, kw_only=True)
class ServedShare:
    """What a source of a mix was meant to give, and has given.

    Attributes:
        name: of the source.
        target: its share by the weights, 0 to 1.
        realised: its share of the units so far.
        rows, units: that it has given.
    """

    name: str
    target: float
    realised: float
    rows: int
    units: int


class MixTurns:
    """Whose turn it is, item by item.

    Where weights change at an item of the mix, shares are counted anew from there on.

    Args:
        names: of the sources, by a hash of which equal times are ordered.
        weights: of each source, by the first item of the mix that it holds for; 0 is among them.
        seed: of the order of equal times.

    Attributes:
        rows, units: that each source has given.

    >>> turns = MixTurns(["a", "b"], [{0: 3.0}, {0: 1.0}], seed=0)
    >>> given = ""
    >>> for _ in range(8):
    ...     source = turns.next_turn([1, 1]).source
    ...     turns.give(source, 1)
    ...     given += "ab"[source]
    >>> given
    'aabaaaba'
    """

    def __init__(self, names: Sequence[str], weights: Sequence[Mapping[int, float]], *, seed: int) -> None:
        self._names = list(names)
        self._ranks = tie_ranks(names, seed)
        firsts = sorted({first for one in weights for first in one})
        held = [[one[max(key for key in one if key <= first)] for one in weights] for first in firsts]
        self._phases = [(first, now, scales_of(now)) for first, now in zip(firsts, held, strict=True)]
        self.rows = [0] * len(self._names)
        self.units = [0] * len(self._names)
        self._in_phase = [0] * len(self._names)
        self._phase = 0

    @property
    def phase(self) -> int:
        """How often the weights have changed."""
        return self._phase

    def next_turn(self, sizes: Sequence[int | None]) -> Turn | None:
        """The source whose next item has the smallest time; None where no source has one.

        Args:
            sizes: the units of each source's next item; None where it has none.
        """
        scales = self._phases[self._phase][2]
        times = [
            (((2 * units + size) * scale), rank, source)
            for source, (units, size, scale, rank) in enumerate(
                zip(self._in_phase, sizes, scales, self._ranks, strict=True)
            )
            if size is not None
        ]
        if not times:
            return None
        time, _, source = min(times)
        return Turn(source, time)

    def give(self, source: int, size: int) -> None:
        """Counts an item that the source has given."""
        self.rows[source] += 1
        self.units[source] += size
        self._in_phase[source] += size
        if self._phase + 1 < len(self._phases) and sum(self.rows) >= self._phases[self._phase + 1][0]:
            self._phase += 1
            self._in_phase = [0] * len(self._names)

    def time_of(self, source: int) -> int:
        """The time at which what the source has given ends."""
        return 2 * self._in_phase[source] * self._phases[self._phase][2][source]

    def shares(self) -> list[ServedShare]:
        """What each source was meant to give, by the weights that hold now, and has given."""
        weights, total = self._phases[self._phase][1], sum(self.units) or 1
        return [
            ServedShare(name=name, target=weight / sum(weights), realised=units / total, rows=rows, units=units)
            for name, weight, units, rows in zip(self._names, weights, self.units, self.rows, strict=True)
        ]

    def get_state(self) -> dict[str, Any]:
        """The counts, whole numbers alone."""
        return {"rows": list(self.rows), "units": list(self.units), "in_phase": list(self._in_phase)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from where the counts were taken."""
        self.rows, self.units, self._in_phase = (list(state[name]) for name in ("rows", "units", "in_phase"))
        given = sum(self.rows)
        self._phase = max(number for number, (first, _, _) in enumerate(self._phases) if first <= given)


def turn_at(place: int, scales: Sequence[int], ranks: Sequence[int]) -> tuple[Turn, int]:
    """Which source stands at a place where each item is one unit and none ever ends, and which of its items that is.

    Args:
        place: from 0 on.
        scales: of :func:`scales_of`.
        ranks: of :func:`tie_ranks`.

    >>> [turn_at(place, scales_of([3.0, 1.0]), [0, 1]) for place in range(3)]
    [(Turn(source=0, time=1), 0), (Turn(source=0, time=3), 1), (Turn(source=1, time=3), 0)]
    """
    # Item j of a source has the time (2 j + 1) * scale, so (time // scale + 1) // 2 of its items come no later.
    low, high = 0, (2 * place + 1) * min(scales)
    while low < high:
        middle = (low + high) // 2
        if sum((middle // scale + 1) // 2 for scale in scales) > place:
            high = middle
        else:
            low = middle + 1
    before = sum(((low - 1) // scale + 1) // 2 for scale in scales)
    tied = [source for source, scale in enumerate(scales) if low % scale == 0 and low // scale % 2]
    source = sorted(tied, key=lambda one: ranks[one])[place - before]
    return Turn(source, low), low // scales[source] // 2


def scales_of(weights: Sequence[float]) -> list[int]:
    """What a unit of each source takes of the time: whole numbers in inverse proportion to the weights.

    A weight is the decimal number that was written: 0.3 is 3/10.

    >>> scales_of([0.3, 0.1])
    [1, 3]
    """
    shares = [Fraction(repr(float(weight))) for weight in weights]
    denominator = math.lcm(*(share.denominator for share in shares))
    whole = [int(share * denominator) for share in shares]
    together = math.lcm(*whole)
    return [together // one for one in whole]


def tie_ranks(names: Sequence[str], seed: int) -> list[int]:
    """The place of each source where times are equal: by a hash of the names, so that none depends on the others."""
    order = sorted(range(len(names)), key=lambda number: derive(seed, "mix, equal times", names[number]))
    return [order.index(number) for number in range(len(names))]
