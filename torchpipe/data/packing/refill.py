"""Packs that are left with room, emptied and filled again: together they hold more than best-fit-decreasing puts there.

Best-fit-decreasing comes to the short items last, and has none left when the last rooms would need one. The packs with
the most room are taken apart. Their items go into new packs, one pattern of lengths at a time, for as many packs as
there are items for: the longest first, then, until the pack is full, the longest that fits, or two that fill it exactly
where there are such two. It is kept where that makes fewer packs.
"""

from bisect import bisect_left, bisect_right
from collections import Counter

import numpy as np

from torchpipe.data.packing.items import Items, Placed
from torchpipe.data.packing.ramps import ramps

_CHUNK = 1 << 20  # packs, or places, handled at a time: bounds memory beside the result
_MOST_REFILLED = 1 << 22  # items taken out at most: bounds memory and time where there are very many
_MOST_LENGTHS = 1 << 16  # distinct lengths among them at most: the time in Python grows with their number
_LOOKED_AT = 24  # lengths tried as the first of two that fill a pack


def refilled(placed: Placed, items: Items, capacity: int) -> Placed:
    """The same items in fewer packs, or what was given. Packs that stay keep their order; the new ones follow.

    Args:
        placed: whole items, in packs of at most ``capacity`` tokens; ``placed.order`` may be overwritten.
        items: all items. Where they have caps, nothing is changed.
        capacity: tokens of a pack.
    """
    if items.caps or len(placed.pack_offsets) < 3:
        return placed
    taken = _with_most_room(placed, items.lengths, capacity)
    sizes = np.diff(placed.pack_offsets)
    places = ramps(placed.pack_offsets[:-1][taken], sizes[taken])
    ids = placed.order[places]
    lengths = items.lengths[ids]
    distinct, counts = np.unique(lengths, return_counts=True)
    if len(distinct) > _MOST_LENGTHS:
        return placed
    patterns = _patterns(distinct.tolist(), counts.tolist(), capacity)
    if sum(times for times, _ in patterns) >= len(taken):
        return placed
    wanted = np.concatenate([np.tile(np.array(pattern), times) for times, pattern in patterns])
    new_sizes = np.repeat([len(pattern) for _, pattern in patterns], [times for times, _ in patterns])
    filled = np.empty_like(ids)
    filled[np.argsort(wanted, kind="stable")] = ids[np.argsort(lengths, kind="stable")]
    is_kept = np.ones(len(sizes), dtype=bool)
    is_kept[taken] = False
    stop = _closed_up(placed.order, np.repeat(is_kept, sizes))
    placed.order[stop:] = filled
    return Placed(
        order=placed.order, pack_offsets=np.concatenate([[0], np.cumsum(np.append(sizes[is_kept], new_sizes))])
    )


def _with_most_room(placed: Placed, lengths: np.ndarray, capacity: int) -> np.ndarray:
    """The numbers of packs with room, those with the most of it if they are too many; ascending."""
    offsets = placed.pack_offsets
    room = np.empty(len(offsets) - 1, dtype=np.int64)
    for start in range(0, len(room), _CHUNK):
        stop = min(start + _CHUNK, len(room))
        held = lengths[placed.order[offsets[start] : offsets[stop]]]
        room[start:stop] = capacity - np.add.reduceat(held, offsets[start:stop] - offsets[start], dtype=np.int64)
    taken = np.flatnonzero(room > 0)
    if len(taken):
        taken = taken[np.argsort(-room[taken], kind="stable")]
        held = np.cumsum(offsets[taken + 1] - offsets[taken])
        taken = np.sort(taken[: np.searchsorted(held, _MOST_REFILLED, side="right")])
    return taken


def _patterns(lengths: list[int], counts: list[int], capacity: int) -> list[tuple[int, list[int]]]:
    """Packs that hold all items: how many packs, and the lengths in each of them.

    >>> _patterns([2, 3, 5], [4, 2, 2], 7)
    [(2, [5, 2]), (1, [3, 2, 2]), (1, [3])]
    """
    left = dict(zip(lengths, counts, strict=True))
    there = list(lengths)  # of which some are left, ascending
    patterns: list[tuple[int, list[int]]] = []
    while there:
        pattern = _pattern(there, left, capacity)
        used = Counter(pattern)
        times = min(left[length] // number for length, number in used.items())
        for length, number in used.items():
            left[length] -= times * number
            if not left[length]:
                del there[bisect_left(there, length)]
        patterns.append((times, pattern))
    return patterns


def _pattern(there: list[int], left: dict[int, int], capacity: int) -> list[int]:
    """The lengths of one pack."""
    pattern = [there[-1]]
    room = capacity - there[-1]
    place = len(there) - 1  # longer lengths don't fit any more, or are used up
    while room:
        place = min(place, bisect_right(there, room) - 1)
        while place >= 0 and pattern.count(there[place]) == left[there[place]]:
            place -= 1
        if place < 0:
            break
        length = there[place]
        if length < room and (two := _two_of(there, left, pattern, place, room)) is not None:
            pattern += two
            break
        pattern.append(length)
        room -= length
    return pattern


def _two_of(
    there: list[int], left: dict[int, int], pattern: list[int], place: int, room: int
) -> tuple[int, int] | None:
    """Two lengths that fill the room exactly, the first of them among the longest that fit."""
    for first in there[place : max(-1, place - _LOOKED_AT) if place >= _LOOKED_AT else None : -1]:
        second = room - first
        if second > first:
            break
        if left.get(second, 0) > pattern.count(second) + (first == second) and left[first] > pattern.count(first):
            return first, second
    return None


def _closed_up(order: np.ndarray, is_kept: np.ndarray) -> int:
    """How many places are kept; their items are moved, in place, to the front."""
    stop = 0
    for start in range(0, len(order), _CHUNK):
        kept = order[start : start + _CHUNK][is_kept[start : start + _CHUNK]]
        order[stop : stop + len(kept)] = kept
        stop += len(kept)
    return stop
