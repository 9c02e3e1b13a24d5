"""The one weighted schedule: which source, and which item of it, stands at each place of an epoch.

Every item of a source has a time: the middle of the units (rows or tokens) that it covers in its source's order, over
the source's weight. The schedule is all items by their times, up to the time at which it stops::

    weights 2 : 1      a a b a a b ...      a: 1/4, 3/4, 5/4, ...     b: 1/2, 3/2, ...

So at every place each source has given its share of the units, to within half an item and its neighbour's. An item's
time depends on its own source alone, as the order within a source does: it is hashed from the seed, the source's name
and the number of the pass. A source that is put in or taken out leaves the order of the others as it was.

How often a source is gone through is a fraction of whole numbers, so that nothing is lost to rounding. Times are those
numbers over the weight, one division each, which IEEE 754 rounds alike on every machine.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.mix_source import MixSource
from torchpipe.errors import ConfigError

Stop = Literal["first", "all", "never"]
"""When an epoch ends: before a source would have to begin again; once every source was gone through; or after a number
of items that is asked for."""

_PLACES_AT_ONCE = 1 << 20
"""So many places are sorted together, which bounds the memory that sorting takes."""
_SAMPLED = 1 << 10
"""Of so many items in a row, one is looked at to cut the places into parts of about that size."""


@dataclass(frozen=True, kw_only=True)
class SourceShare:
    """What a source was meant to give, and what it gives.

    Attributes:
        name: of the source.
        target: its share by the weights, 0 to 1.
        realised: its share of the units in the epoch.
        items: places that it has; num_items: items that it has to give.
        passes: how often its units are gone through.
    """

    name: str
    target: float
    realised: float
    items: int
    num_items: int
    passes: float


@dataclass(frozen=True, kw_only=True, eq=False)
class MixSchedule:
    """Which item stands at each place of an epoch. Made by :func:`mix_schedule`.

    It takes 5 bytes a place: any place is looked up without those before it.

    Attributes:
        shares: of each source that has items, in their order, what it gives.
        source: the number in ``shares`` of each place's source: uint8 or more [places].
        item: the item's number in its source: uint32, or int64 where numbers are larger [places].
        fingerprint: 32 hexadecimal digits that two share only if the same items of equally named sources stand at the
            same places.
    """

    shares: Sequence[SourceShare]
    source: np.ndarray = field(repr=False)
    item: np.ndarray = field(repr=False)
    fingerprint: str

    def __len__(self) -> int:
        return len(self.source)


def mix_schedule(
    sources: Sequence[MixSource],
    *,
    stop: Stop = "first",
    num_places: int | None = None,
    seed: int = 0,
    shuffle: bool = True,
    epoch: int = 0,
) -> MixSchedule:
    """The schedule of an epoch. It is decided by the arguments alone.

    ``stop="first"``: no item stands at more than one place (at ``ceil(max_passes)``, where a source has that), and one
    source gives all of its items. ``"all"``: every item of every source stands at one place or more, those of one
    source differ by one at most, and those of the source that takes longest stand at exactly one (for a source with
    ``max_passes``, within that). ``"never"``: sources begin again as often as it takes for ``num_places`` places.

    A source that has reached its ``max_passes`` gives no more; the others go on, with the same weights between them.
    One that is gone through less than once goes on in the next epoch where it ended in this one; with ``"never"``, to
    within an item and its neighbour, since a number of places rounds every source's share.

    Args:
        sources: of different names.
        stop: when the epoch ends.
        num_places: for ``stop="never"`` and for that alone.
        seed: of the order of each source's items.
        shuffle: False leaves each source's items in their order.
        epoch: from 0 on.

    Raises:
        ConfigError: an argument is not possible, or no source has an item.

    >>> sources = [MixSource(name=name, num_items=6, weight=weight) for name, weight in (("a", 2), ("b", 1))]
    >>> schedule = mix_schedule(sources, shuffle=False)
    >>> ["ab"[source] + str(item) for source, item in zip(schedule.source, schedule.item)]
    ['a0', 'b0', 'a1', 'a2', 'b1', 'a3', 'a4', 'b2', 'a5']
    >>> [share.passes for share in mix_schedule(sources, stop="all").shares]
    [2.0, 1.0]
    """
    _check_arguments(sources, stop, num_places, seed, epoch)
    given = [source for source in sources if source.num_items]
    if not given:
        raise ConfigError("There is nothing to mix: no source has an item.")
    # Equal times go by a hash of the names, which does not depend on the other sources.
    by_name = sorted(range(len(given)), key=lambda number: derive(seed, "mix, equal times", given[number].name))

    epoch_end = _end(given, stop) if num_places is None else _mean_end(given, num_places)

    def drawn_until(end: Fraction) -> dict[int, _Drawn]:
        return {
            number: _draw(
                given[number],
                given[number].passes_until(end),
                passes_an_epoch=given[number].passes_until(epoch_end),
                seed=seed,
                epoch=epoch,
                shuffle=shuffle,
            )
            for number in by_name
        }

    end, drawn = epoch_end, drawn_until(epoch_end)
    while num_places is not None and (num_drawn := sum(len(one.items) for one in drawn.values())) < num_places:
        # The items so far are larger than the mean. A fixed step could be a whole pass of a large source, in which a
        # small one goes round a million times.
        if all(source.most_passes == source.passes_until(end) for source in given):
            raise _too_few(num_places, num_drawn)
        end *= Fraction(9, 8)
        drawn = drawn_until(end)
    source, item = _merged(drawn, given, num_places)
    return schedule_of(given, source, item)


def schedule_of(sources: Sequence[MixSource], source: np.ndarray, item: np.ndarray) -> MixSchedule:
    """The schedule in which these items of these sources stand at its places.

    Args:
        sources: those that have items.
        source: the number of each place's source; item: the item's number there. Whole numbers [places].
    """
    return MixSchedule(
        shares=_shares(sources, source, item),
        source=source,
        item=item,
        fingerprint=_fingerprint(sources, source, item),
    )


def items_of_pass(source: MixSource, number: int, *, seed: int, shuffle: bool) -> np.ndarray:
    """The items of a source in the order of one pass, int64 [items]; in theirs without ``shuffle``."""
    if not shuffle:
        return np.arange(source.num_items)
    return hashed_permutation(source.num_items, derive(seed, "mix", source.name, number))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Drawn:
    """Items that a source gives in an epoch, in order, and when: int64 and float64 [items]."""

    items: np.ndarray
    times: np.ndarray


def _end(sources: Sequence[MixSource], stop: Stop) -> Fraction:
    """The time at which an epoch ends."""
    if stop == "first":
        return min((source.most_passes or 1) / source.passes_a_time for source in sources)
    return max(min(source.most_passes or 1, 1) / source.passes_a_time for source in sources)


def _mean_end(sources: Sequence[MixSource], num_places: int) -> Fraction:
    """The time by which there are so many places, if each item has the mean size of its source.

    Raises:
        ConfigError: there never are, for every source has its ``max_passes``.
    """

    def places(end: Fraction) -> Fraction:
        return sum((source.passes_until(end) * source.num_items for source in sources), Fraction(0))

    most = [None if source.most_passes is None else source.most_passes * source.num_items for source in sources]
    if None not in most and (left := math.floor(sum(filter(None, most)))) < num_places:
        raise _too_few(num_places, left)
    speed = sum((source.passes_a_time * source.num_items for source in sources), Fraction(0))
    end = num_places / speed
    while places(end) < num_places:  # where a source ends early, the others have to go on
        end *= 2
    low, high = Fraction(0), end
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if places(middle) >= num_places else (middle, high)
    return high


def _too_few(num_places: int, left: int) -> ConfigError:
    return ConfigError(
        f"The mix is to have {num_places:,} items, and with their epochs the sources have {left:,}. Raise epochs, "
        "or ask for fewer."
    )


def _draw(
    source: MixSource, passes: Fraction, *, passes_an_epoch: Fraction, seed: int, epoch: int, shuffle: bool
) -> _Drawn:
    """What a source gives where it is gone through so often; ``passes_an_epoch``, how often by its share, decides where
    each epoch begins.
    """
    source.check_passes(passes)
    twice = 2 * source.num_units  # middles of items are halves of units: all counts here are of half units

    def ordered(number: int) -> tuple[np.ndarray, np.ndarray]:
        """The items of a pass, and the middle of each in half units."""
        items = items_of_pass(source, number, seed=seed, shuffle=shuffle)
        if source.sizes is None:
            return items, 2 * np.arange(source.num_items) + 1
        sizes = source.sizes[items].astype(np.int64, copy=False)
        return items, 2 * np.cumsum(sizes) - sizes

    drawn: list[tuple[np.ndarray, np.ndarray]] = []
    if source.items_before is not None:
        (number, skipped), begin = divmod(source.items_before, source.num_items), 0
        while begin < passes * twice:
            items, middles = ordered(number)
            before = 2 * source.units_of(items[:skipped])
            items, middles = items[skipped:], middles[skipped:] - before + begin
            begin += twice - before
            last = len(items) if begin <= passes * twice else _count_before(middles, passes * twice)
            drawn.append((items[:last], middles[:last]))
            number, skipped = number + 1, 0
    elif passes_an_epoch < 1:  # each epoch goes on where the last one ended, round and round one order
        items, middles = ordered(0)
        exactly = passes_an_epoch * epoch % 1 * twice
        begin, end = math.ceil(exactly), math.ceil(exactly + passes * twice)
        for before in range(0, end, twice):
            first, last = np.searchsorted(middles, [begin - before, end - before]).tolist()
            drawn.append((items[first:last], middles[first:last] + (before - begin)))
    else:
        for number in range(math.ceil(passes)):
            items, middles = ordered(epoch * math.ceil(passes_an_epoch) + number)
            last = len(items) if number + 1 <= passes else _count_before(middles, (passes % 1) * twice)
            drawn.append((items[:last], middles[:last] + number * twice))
    items = np.concatenate([some for some, _ in drawn])
    middles = np.concatenate([some for _, some in drawn])
    return _Drawn(items=items, times=middles / source.weight)


def _count_before(middles: np.ndarray, end: Fraction) -> int:
    return int(np.searchsorted(middles, math.ceil(end)))


def _merged(
    drawn: dict[int, _Drawn], sources: Sequence[MixSource], num_places: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """All items by their times: the source of each and its number there. At equal times the order of ``drawn`` counts.

    Each source's times ascend, so that parts of the result are sorted one after the other.
    """
    total = sum(len(one.items) for one in drawn.values())
    source = np.empty(total, np.min_scalar_type(max(len(sources) - 1, 0)))
    largest = max(one.num_items for one in sources)
    item = np.empty(total, np.uint32 if largest <= 2**32 else np.int64)
    samples = np.sort(np.concatenate([one.times[::_SAMPLED] for one in drawn.values()]))
    bounds = [*samples[_PLACES_AT_ONCE // _SAMPLED :: _PLACES_AT_ONCE // _SAMPLED].tolist(), math.inf]
    begins, at = dict.fromkeys(drawn, 0), 0
    for bound in bounds:
        ends = {number: int(np.searchsorted(one.times, bound)) for number, one in drawn.items()}
        parts = [(number, slice(begins[number], ends[number])) for number in drawn]
        order = np.argsort(np.concatenate([drawn[number].times[part] for number, part in parts]), kind="stable")
        here = slice(at, at + len(order))
        owners = np.repeat(
            np.array([number for number, _ in parts], source.dtype), [part.stop - part.start for _, part in parts]
        )
        source[here] = owners[order]
        item[here] = np.concatenate([drawn[number].items[part] for number, part in parts])[order]
        begins, at = ends, here.stop
    return (source, item) if num_places is None else (source[:num_places].copy(), item[:num_places].copy())


def _shares(sources: Sequence[MixSource], source: np.ndarray, item: np.ndarray) -> list[SourceShare]:
    """What each source was meant to give, and gives."""
    counts = np.bincount(source, minlength=len(sources)).tolist()
    units = [
        count if one.sizes is None else int(one.sizes[item[source == number]].sum(dtype=np.int64))
        for number, (one, count) in enumerate(zip(sources, counts, strict=True))
    ]
    total, weights = sum(units) or 1, sum(one.share for one in sources)
    return [
        SourceShare(
            name=one.name,
            target=float(one.share / weights),
            realised=given / total,
            items=count,
            num_items=one.num_items,
            passes=given / one.num_units,
        )
        for one, given, count in zip(sources, units, counts, strict=True)
    ]


def _fingerprint(sources: Iterable[MixSource], source: np.ndarray, item: np.ndarray) -> str:
    hashed = hashlib.blake2b(repr([(one.name, one.num_items) for one in sources]).encode(), digest_size=16)
    for array in (source, item):
        hashed.update(np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False)).data)
    return hashed.hexdigest()


def _check_arguments(sources: Sequence[MixSource], stop: Any, num_places: int | None, seed: int, epoch: int) -> None:
    if stop not in (words := get_args(Stop)):
        raise ConfigError(f"stop is {stop!r}. It is one of {listed(words)}.{did_you_mean(str(stop), words)}")
    if (num_places is not None) != (stop == "never"):
        raise ConfigError(
            "stop='never' has no end of its own: say how many items an epoch has (num_items)."
            if stop == "never"
            else f"num_items={num_places!r} has no effect with stop={stop!r}, which ends by itself. Leave it out, or "
            "set stop='never'."
        )
    for name, value, least in (("num_items", num_places, 1), ("seed", seed, None), ("epoch", epoch, 0)):
        if value is None:
            continue
        if type(value) is not int or (least is not None and value < least):
            told = "" if least is None else f", {least} or more"
            raise ConfigError(f"{name} is {value!r}. Give a whole number{told}.")
    names = [source.name for source in sources]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"Several sources of a mix are called {listed(sorted(twice))}. Give each a name of its own.")
