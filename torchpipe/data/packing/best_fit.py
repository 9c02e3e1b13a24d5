"""Best-fit-decreasing: the longest item first, each into the fullest pack that holds it.

Items of one length are one step, however many they are. Of the packs with the least room that is enough, r tokens, each
takes ``r // length`` items in a row, because what is left of it stays the best fit until it is too small; so a whole
run of equal packs moves at once. The work in Python grows with the number of distinct lengths, not of items, and which
item goes where is then a counting sort in numpy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe.data.packing.items import Items, Placed
from torchpipe.data.packing.open_packs import EqualNeeds, OpenPacks, Run, UnequalNeeds
from torchpipe.data.packing.ramps import ramps

_CHUNK = 1 << 21  # items handled at a time: bounds memory beside the result
_SHUFFLED_TOGETHER = 1 << 21  # another number makes other plans of a seed
_DIRECT = 1 << 20  # up to this length, lengths are counted as they are; beyond, their ranks are


def best_fit_decreasing(items: Items, capacities: Sequence[int], seed: int | None) -> Placed:
    """Where each item goes: the result of best-fit-decreasing.

    A new pack has the smallest capacity that holds its first item. Items of one length go in their order, or, with a
    seed, in a hashed order.

    Args:
        items: what is packed; items of length 0 are skipped.
        capacities: lengths that a pack may have, ascending.
        seed: chooses among items of equal length and needs.
    """
    classes = _classes_of(items)
    parts = _fill(classes, capacities, tuple(cap.limit for cap in items.caps))
    position, offsets = _positions(parts, classes)
    if seed is not None:
        _shuffle_ties(position, classes, seed)
    return Placed(order=_scatter(position, classes), pack_offsets=offsets)


@dataclass(frozen=True, kw_only=True)
class _Classes:
    """Items that planning can't tell apart, by class; in descending order they are in the order of planning.

    Attributes:
        of_item: the class of each item, an unsigned integer.
        lengths: tokens of an item of each class; class 0 may be the items of no tokens, which are skipped.
        needs: what an item of each class needs of every capped quantity.
        counts: int64, items of each class.
    """

    of_item: np.ndarray
    lengths: np.ndarray
    needs: list[np.ndarray]
    counts: np.ndarray

    def firsts(self) -> np.ndarray:
        """Where each class begins when all items lie in the order of planning; int64."""
        placed = np.where(self.lengths > 0, self.counts, 0)
        return placed.sum() - np.cumsum(placed)


def _classes_of(items: Items) -> _Classes:
    lengths = items.lengths
    needs = [cap.needs for cap in items.caps]
    longest = int(lengths.max(initial=0))
    if longest <= _DIRECT and all(values.size == 0 or (values == values[0]).all() for values in needs):
        counts = np.zeros(longest + 1, dtype=np.int64)
        of_item = lengths.astype(np.uint16 if longest < 1 << 16 else np.uint32, copy=False)
        for start in range(0, len(lengths), _CHUNK):  # bincount makes an int64 copy of what it counts
            counts += np.bincount(of_item[start : start + _CHUNK], minlength=longest + 1)
        equal = [np.full(longest + 1, values[0] if values.size else 0) for values in needs]
        return _Classes(of_item=of_item, lengths=np.arange(longest + 1), needs=equal, counts=counts)
    order = np.lexsort([*needs[::-1], lengths])
    columns = [values[order] for values in (lengths, *needs)]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.logical_or.reduce([values[1:] != values[:-1] for values in columns])
    of_item = np.empty(len(order), dtype=np.uint32)
    of_item[order] = np.cumsum(new) - 1
    begins = np.flatnonzero(new)
    lengths, *needs = (values[begins] for values in columns)
    counts = np.diff(np.append(begins, len(order)))
    return _Classes(of_item=of_item, lengths=lengths, needs=needs, counts=counts)


def _fill(classes: _Classes, capacities: Sequence[int], limits: tuple[int, ...]) -> np.ndarray:
    """What was put where: int64 [parts, 4], in the order of planning.

    A part is ``first, num_packs, each, slot``: packs ``first`` to ``first + num_packs - 1`` take the next
    ``num_packs * each`` items, each pack ``each`` of them in a row, after the ``slot`` items that it had.
    """
    used = np.flatnonzero((classes.counts > 0) & (classes.lengths > 0))[::-1]
    lengths, counts = classes.lengths[used].tolist(), classes.counts[used].tolist()
    needs = list(zip(*(values[used].tolist() for values in classes.needs), strict=True)) or [()] * len(used)
    shortest = lengths[-1] if lengths else 0
    least = tuple(map(min, zip(*needs, strict=True)))
    equal = all(need == least for need in needs)
    packs: OpenPacks = EqualNeeds(least) if equal else UnequalNeeds(capacity=capacities[-1], least=least)
    smallest = np.searchsorted(capacities, lengths).tolist()
    parts: list[int] = []
    num_packs = 0
    for length, count, need, fitting in zip(lengths, counts, needs, smallest, strict=True):
        while count:
            found = packs.take(length, need)
            free, run = found or (capacities[fitting], Run(num_packs, count, 0, limits))
            first, available, slot, rooms = run
            each = free // length
            for room, one in zip(rooms, need, strict=True):
                each = min(each, room // one) if one else each
            each = min(each, count)
            full = min(available, count // each)
            taken = [(first, full, each)]
            count -= full * each
            if count and full < available:  # what is left of the class goes into one pack
                taken.append((first + full, 1, count))
                full, count = full + 1, 0
            for start, number, put in taken:
                parts += (start, number, put, slot)
                if free - put * length >= shortest:
                    left = tuple([room - put * one for room, one in zip(rooms, need, strict=True)])
                    packs.put(free - put * length, Run(start, number, slot + put, left))
            if found is None:
                num_packs += full
            elif full < available:
                packs.put(free, Run(first + full, available - full, slot, rooms))
    return np.array(parts, dtype=np.int64).reshape(-1, 4)


def _positions(parts: np.ndarray, classes: _Classes) -> tuple[np.ndarray, np.ndarray]:
    """Where each item, in the order of planning, stands among the spans; and where packs begin, int64 [packs + 1]."""
    first, num_packs, each, slot = parts.T
    changes = np.zeros(int((first + num_packs).max(initial=0)) + 1, dtype=np.int64)
    np.add.at(changes, first, each)
    np.add.at(changes, first + num_packs, -each)
    offsets = np.zeros(len(changes), dtype=np.int64)
    np.cumsum(np.cumsum(changes[:-1], out=changes[:-1]), out=offsets[1:])
    total = int(offsets[-1])
    position = np.empty(total, dtype=np.int32 if total < 1 << 31 else np.int64)
    sizes = num_packs * each
    ends = np.cumsum(sizes)
    start = 0
    while start < len(parts):  # a chunk of parts at a time
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] - sizes[start] + _CHUNK, side="right")))
        chunk = slice(start, stop)
        before = int(ends[start] - sizes[start])
        pack = ramps(first[chunk], num_packs[chunk])
        begin = offsets[pack] + np.repeat(slot[chunk], num_packs[chunk])
        position[before : int(ends[stop - 1])] = ramps(begin, np.repeat(each[chunk], num_packs[chunk]))
        start = stop
    return position, offsets


def _shuffle_ties(position: np.ndarray, classes: _Classes, seed: int) -> None:
    """Reorders the positions of each class, in place, so that a class's items swap places."""
    counts = np.where(classes.lengths > 0, classes.counts, 0)[::-1]
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):  # as many classes at a time as have so many items; a longer one alone
        begin = int(ends[first] - counts[first])
        stop = max(first + 1, int(np.searchsorted(ends, begin + _SHUFFLED_TOGETHER, side="right")))
        end = int(ends[stop - 1])
        order = hashed_permutation(end - begin, derive(seed, "ties", begin))
        number = np.repeat(np.arange(stop - first, dtype=np.uint32), counts[first:stop])
        position[begin:end] = position[begin:end][order[_stable_argsort(number[order])]]
        first = stop


def _scatter(position: np.ndarray, classes: _Classes) -> np.ndarray:
    """The item at each position, int64: a counting sort, a chunk of items at a time."""
    order = np.empty(len(position), dtype=np.int64)
    following = classes.firsts()  # where the next item of each class stands in the order of planning
    for start in range(0, len(classes.of_item), _CHUNK):
        of_item = classes.of_item[start : start + _CHUNK]
        by_class = _stable_argsort(of_item)
        counts = np.bincount(of_item, minlength=len(following))
        ends = np.cumsum(counts)
        skipped = int(counts[classes.lengths == 0].sum())  # all in front: no class is below that of no tokens
        rank = np.arange(len(of_item))
        rank += np.repeat(following - (ends - counts), counts)
        order[position[rank[skipped:]]] = by_class[skipped:] + start
        following += counts
    return order


def _stable_argsort(values: np.ndarray) -> np.ndarray:
    """A stable argsort of unsigned integers. numpy sorts 16 bits by counting, about ten times as fast as more."""
    if values.dtype.itemsize <= 2:
        return np.argsort(values, kind="stable")
    low = np.argsort((values & 0xFFFF).astype(np.uint16), kind="stable")
    return low[np.argsort((values >> 16).astype(np.uint16)[low], kind="stable")]
