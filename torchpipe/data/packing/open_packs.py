"""Packs that have room left, found by how much: the index behind best-fit planning."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

_WORD = 10  # a word of the bit set holds 2**10 bits: wide enough to skip gaps at once, short enough to shift fast
_MASK = (1 << _WORD) - 1


class Run(NamedTuple):
    """Packs of one history: numbers ``first`` to ``first + num_packs - 1``, all filled alike.

    Attributes:
        first: number of the first pack.
        num_packs: how many there are.
        num_items: items in each.
        rooms: what each may still take of every capped quantity.
    """

    first: int
    num_packs: int
    num_items: int
    rooms: tuple[int, ...]


class OpenPacks(Protocol):
    """Runs by the tokens that each of their packs has free."""

    def put(self, free: int, run: Run) -> None:
        """Adds a run whose packs have ``free`` tokens free."""
        ...

    def take(self, length: int, needs: tuple[int, ...]) -> tuple[int, Run] | None:
        """Takes out a run with the least free tokens that still holds an item, and says how many are free."""
        ...


class EqualNeeds:
    """Open packs where every item needs the same of each capped quantity, or nothing is capped.

    A pack that has no room for one item has none for any, and is closed. Where a pack is free is one bit; the least
    free number that is enough is then a shift and the lowest set bit.
    """

    def __init__(self, needs: tuple[int, ...]) -> None:
        self._needs = needs
        self._runs: dict[int, list[Run]] = {}
        self._words: defaultdict[int, int] = defaultdict(int)
        self._used_words = 0

    def put(self, free: int, run: Run) -> None:
        """Adds a run, unless its packs have no room for another item."""
        if any(room < need for room, need in zip(run.rooms, self._needs, strict=True)):
            return
        runs = self._runs.get(free)
        if runs:
            runs.append(run)
            return
        self._runs[free] = [run]
        self._words[free >> _WORD] |= 1 << (free & _MASK)
        self._used_words |= 1 << (free >> _WORD)

    def take(self, length: int, needs: tuple[int, ...]) -> tuple[int, Run] | None:
        """The last run that was put where the free tokens are the fewest of at least ``length``."""
        word = length >> _WORD
        shift = length & _MASK
        bits = self._words[word] >> shift if self._used_words >> word & 1 else 0
        if bits:
            free = length + (bits & -bits).bit_length() - 1
        else:
            later = self._used_words >> (word + 1)
            if not later:
                return None
            word += (later & -later).bit_length()
            bits = self._words[word]
            free = (word << _WORD) + (bits & -bits).bit_length() - 1
        runs = self._runs[free]
        run = runs.pop()
        if not runs:
            del self._runs[free]
            self._words[word] ^= 1 << (free & _MASK)
            if not self._words[word]:
                self._used_words ^= 1 << word
        return free, run


@dataclass(kw_only=True)
class UnequalNeeds:
    """Open packs where items differ in what they need of a capped quantity.

    A tree over the numbers of free tokens, sparse: each node holds, for every capped quantity, the most room below it.

    Attributes:
        capacity: the most tokens that a pack may have free.
        least: the least that any item needs of each capped quantity. A pack with less room is closed.
    """

    capacity: int
    least: tuple[int, ...]
    _runs: dict[int, list[Run]] = field(default_factory=dict)
    _most: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._leaves = 1 << self.capacity.bit_length()  # node of free tokens f: leaves + f; its parent: half of that

    def put(self, free: int, run: Run) -> None:
        """Adds a run, unless its packs have no room for any item."""
        if any(room < need for room, need in zip(run.rooms, self.least, strict=True)):
            return
        self._runs.setdefault(free, []).append(run)
        node = self._leaves + free
        while node:
            most = self._most.get(node)
            wider = run.rooms if most is None else tuple(map(max, most, run.rooms))
            if wider == most:
                break
            self._most[node] = wider
            node >>= 1

    def take(self, length: int, needs: tuple[int, ...]) -> tuple[int, Run] | None:
        """The last run put with room for ``needs`` where the free tokens are the fewest of at least ``length``."""
        if length > self.capacity:
            return None
        node = self._leaves + length
        while True:
            most = self._most.get(node)
            if most is not None and all(need <= room for need, room in zip(needs, most, strict=True)):
                if node < self._leaves:
                    node *= 2
                    continue
                run = self._pop(node - self._leaves, needs)
                if run is not None:
                    return node - self._leaves, run
            while node & 1:  # a right child: what follows is right of an ancestor
                node >>= 1
            if node == 0:
                return None
            node += 1

    def _pop(self, free: int, needs: tuple[int, ...]) -> Run | None:
        runs = self._runs[free]
        for place in range(len(runs) - 1, -1, -1):
            if all(need <= room for need, room in zip(needs, runs[place].rooms, strict=True)):
                run = runs.pop(place)
                self._shrink(free, runs)
                return run
        return None

    def _shrink(self, free: int, runs: list[Run]) -> None:
        node = self._leaves + free
        most = tuple(map(max, zip(*(run.rooms for run in runs), strict=True))) if runs else None
        if not runs:
            del self._runs[free]
        while node and self._most.get(node) != most:
            if most is None:
                del self._most[node]
            else:
                self._most[node] = most
            left, right = self._most.get(node & ~1), self._most.get(node | 1)
            most = tuple(map(max, left, right)) if left and right else left or right
            node >>= 1
