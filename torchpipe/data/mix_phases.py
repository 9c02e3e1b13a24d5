"""A mix whose weights change on the way: from a place on, sources have other shares.

Inside a phase it is the schedule of :mod:`torchpipe.data.mixing`: an item stands where the middle of its units, counted
from the begin of the phase, comes over the source's weight. What was given before counts for nothing in the next phase,
so that each phase has its own shares from its first place on.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from torchpipe._seeds import derive
from torchpipe.data.mix_source import MixSource
from torchpipe.data.mixing import MixSchedule, Stop, items_of_pass, schedule_of
from torchpipe.errors import ConfigError

_MOST_AT_ONCE = 1 << 22
"""So many items of a source are looked at together."""

_PASSES = 1 << 20
"""The first passes of so many epochs have orders of their own; further passes of an epoch come after them."""


def phased_schedule(
    sources: Sequence[MixSource],
    weights: Sequence[Mapping[int, float]],
    *,
    stop: Stop = "first",
    first_place: int = 0,
    seed: int = 0,
    shuffle: bool = True,
    epoch: int = 0,
) -> MixSchedule:
    """The schedule of an epoch in which each source's weight depends on the place.

    Args:
        sources: of different names; their own weights are not looked at.
        weights: for each source its weight by the first place that it holds for, 0 among them.
        stop: "first" or "all", see :func:`~torchpipe.data.mixing.mix_schedule`.
        first_place: how many places earlier epochs had.
        seed, shuffle, epoch: of the order of each source's items, as there.

    Raises:
        ConfigError: an argument is not possible.

    >>> sources = [MixSource(name=name, num_items=6, weight=1) for name in "ab"]
    >>> schedule = phased_schedule(sources, [{0: 1, 4: 3}, {0: 1}], shuffle=False)
    >>> "".join("ab"[source] for source in schedule.source)
    'ababaabaa'
    """
    if stop not in ("first", "all"):
        raise ConfigError(f"stop is {stop!r}. A mix whose weights change ends with 'first' or 'all'.")
    given = [number for number, source in enumerate(sources) if source.num_items]
    if not given:
        raise ConfigError("There is nothing to mix: no source has an item.")
    turns = sorted({place for number in given for place in weights[number]})
    by_name = sorted(given, key=lambda number: derive(seed, "mix, equal times", sources[number].name))
    drawn = [_Drawn(sources[number], seed=seed, shuffle=shuffle, epoch=epoch, stop=stop) for number in by_name]
    owners, items, place, has_ended = [], [], first_place, False
    most = min(_MOST_AT_ONCE, 1 + sum(sources[number].num_items for number in given))
    while not has_ended:
        room = min((turn - place for turn in turns if turn > place), default=most)
        now = [_weight_at(weights[number], place) for number in by_name]
        if place in turns:
            for one in drawn:
                one.begin_phase()
        if stop == "all":
            _check_passes(drawn, now, room if any(turn > place for turn in turns) else math.inf)
        owner, item, has_ended = _places(drawn, now, min(room, most))
        owners.append(owner)
        items.append(item)
        place += len(owner)
    order = {number: place for place, number in enumerate(given)}
    source = np.array([order[number] for number in by_name])[np.concatenate(owners)]
    at_the_end = [replace(sources[number], weight=_weight_at(weights[number], place)) for number in given]
    return schedule_of(at_the_end, source, np.concatenate(items))


def _check_passes(drawn: Sequence["_Drawn"], weights: Sequence[float], room: float) -> None:
    """Refuses a phase of so many places in which a source would be gone through for ever until the others are through.

    Raises:
        ConfigError: there is one.
    """
    end = max((one.units_left / weight for one, weight in zip(drawn, weights, strict=True)), default=0.0)
    for one, weight in zip(drawn, weights, strict=True):
        one.check_passes(end * weight, room)


def _places(drawn: Sequence["_Drawn"], weights: Sequence[float], room: int) -> tuple[np.ndarray, np.ndarray, bool]:
    """The next places, at most ``room``: the number of each one's source, its item, and whether the epoch ends then."""
    found = [one.next_items(room + 1) for one in drawn]  # one more tells whether the epoch goes on
    times = np.concatenate([middles / weight for (_, middles, _), weight in zip(found, weights, strict=True)])
    ends = [end / weight for (_, _, end), weight in zip(found, weights, strict=True)]
    if drawn[0].stop == "first":
        end = min(ends)  # before one begins again
    else:
        end = max((end for end, one in zip(ends, drawn, strict=True) if not one.is_through), default=0.0)
    order = np.argsort(times, kind="stable")
    order = order[times[order] <= end]
    owner = np.repeat(np.arange(len(drawn)), [len(items) for items, _, _ in found])[order[:room]]
    item = np.concatenate([items for items, _, _ in found])[order[:room]]
    for number, one in enumerate(drawn):
        one.gave(int((owner == number).sum()))
    return owner, item, math.isfinite(end) and len(order) <= room


class _Drawn:
    """What a source has given of its items, pass after pass.

    Attributes:
        num_given: items until now.
        stop: when the epoch ends.
    """

    def __init__(self, source: MixSource, *, seed: int, shuffle: bool, epoch: int, stop: Stop) -> None:
        self.num_given = 0
        self.stop = stop
        self._source, self._seed, self._shuffle, self._epoch = source, seed, shuffle, epoch
        most = source.most_passes
        self._most: float = math.inf if most is None and stop == "all" else math.floor((most or 1) * source.num_items)
        self._base = 0  # half units that it has given in the phase
        self._before = source.items_before or 0
        self._pass: tuple[int, np.ndarray, np.ndarray] | None = None  # the one that was looked at last

    def begin_phase(self) -> None:
        """Counts units anew."""
        self._base = 0

    def gave(self, number: int) -> None:
        """Goes on by so many items."""
        for turn, part in self._parts(number):
            _, units = self._items(turn)
            self._base += 2 * int(units[part.stop - 1] - (units[part.start - 1] if part.start else 0))
        self.num_given += number

    def _parts(self, number: int) -> Iterator[tuple[int, slice]]:
        """The passes that the next so many items are of, and which items of each."""
        place = self._before + self.num_given
        end = place + number
        while place < end:
            turn, begin = divmod(place, self._source.num_items)
            stop = min(begin + end - place, self._source.num_items)
            yield turn, slice(begin, stop)
            place += stop - begin

    @property
    def is_through(self) -> bool:
        """Whether it has given every item, or as many as it may."""
        return self.num_given >= min(self._most, self._source.num_items)

    @property
    def units_left(self) -> float:
        """About how many units it has to give until it is through."""
        left = min(self._most, self._source.num_items) - self.num_given
        return max(left, 0) / self._source.num_items * self._source.num_units

    def check_passes(self, num_units: float, num_places: float) -> None:
        """Refuses to give so many units, unless it has fewer places or items for them."""
        most = min(num_places, self._most - self.num_given) / self._source.num_items
        self._source.check_passes(min(num_units / self._source.num_units, most))

    def next_items(self, number: int) -> tuple[np.ndarray, np.ndarray, float]:
        """The next items, at most so many, the middle of each in half units of the phase, and when it ends.

        It ends behind the last item that it may give or, where all are to be gone through, that it has not given yet;
        ``inf`` where that is not among these items.
        """
        last = self._most if self.stop == "first" else min(self._most, self._source.num_items)
        number = int(min(number, self._most - self.num_given))
        items, middles, base, place, end = [], [], self._base, self.num_given, math.inf
        for turn, part in self._parts(number):
            order, units = self._items(turn)
            before = int(units[part.start - 1]) if part.start else 0
            here = units[part]
            items.append(order[part])
            middles.append(np.concatenate([[before], here[:-1]]) + here - 2 * before + base)
            if place < last <= place + len(here):
                end = float(2 * (int(here[int(last) - place - 1]) - before) + base)
            base += 2 * (int(here[-1]) - before)
            place += len(here)
        if not items:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), 0.0 if self.stop == "first" else math.inf
        return np.concatenate(items), np.concatenate(middles), end

    def _items(self, turn: int) -> tuple[np.ndarray, np.ndarray]:
        """The items of a pass in order, and the units until the end of each."""
        if self._pass is None or self._pass[0] != turn:
            number = turn if self._source.items_before is not None else self._epoch + turn * _PASSES
            order = items_of_pass(self._source, number, seed=self._seed, shuffle=self._shuffle)
            sizes = self._source.sizes
            units = np.arange(1, len(order) + 1) if sizes is None else np.cumsum(sizes[order], dtype=np.int64)
            self._pass = (turn, order, units)
        return self._pass[1], self._pass[2]


def _weight_at(weights: Mapping[int, float], place: int) -> float:
    return weights[max(first for first in weights if first <= place)]
