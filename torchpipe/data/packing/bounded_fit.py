"""Packs of samples that arrive one by one, of which only some are open at a time: best fit and first fit."""

from abc import ABC, abstractmethod
from bisect import bisect_left, insort
from collections.abc import Sequence
from operator import itemgetter

from torchpipe.data.packing.items import too_long
from torchpipe.data.packing.pack_plan import Span
from torchpipe.errors import DataError

DEFAULT_OPEN_PACKS = 64


class BoundedFit(ABC):
    """Opens packs, puts each sample into one that holds it, and closes the fullest when too many are open.

    Args:
        capacity: tokens a pack holds; several: a new pack has the smallest that holds its first sample.
        max_open_packs: packs that may be open at a time.
        max_documents: the most samples of a pack; None: any number.
        max_costs: the most of each capped quantity in a pack.
        closing: places of quantities that every sample needs some of: a pack without room for more of one is closed at
            once, as one of ``max_documents`` is.
    """

    def __init__(
        self,
        capacity: int | Sequence[int],
        *,
        max_open_packs: int = DEFAULT_OPEN_PACKS,
        max_documents: int | None = None,
        max_costs: Sequence[int] = (),
        closing: Sequence[int] = (),
    ) -> None:
        self._capacities = [capacity] if isinstance(capacity, int) else sorted(capacity)
        self._max_open_packs = max_open_packs
        self._max_documents = max_documents
        self._max_costs = tuple(max_costs)
        self._closing = tuple(closing)
        self._packs: dict[int, list[Span]] = {}  # open packs by number, in the order of opening
        self._open: list[tuple[int, int]] = []  # free tokens and number of each; kept in order by _put
        self._rooms: dict[int, tuple[int, ...]] = {}  # what each may still take of the capped quantities
        self._num_opened = 0

    def push(self, sample: int, num_tokens: int, costs: tuple[int, ...] = ()) -> list[list[Span]]:
        """Adds a sample; returns the packs that it filled, or closed to open its own.

        Args:
            sample: its number.
            num_tokens: its tokens; one without is skipped.
            costs: what it needs of each capped quantity.

        Raises:
            DataError: it is longer than a pack, or needs more of a quantity than a pack may have.
        """
        if num_tokens == 0:
            return []
        closed: list[list[Span]] = []
        found = self._take(num_tokens, costs)
        if found is None:
            free = self._free_in_new(sample, num_tokens, costs)
            if len(self._packs) >= self._max_open_packs:
                closed.append(self._close_fullest())
            number, self._num_opened = self._num_opened, self._num_opened + 1
            self._packs[number] = []
            rooms = self._max_costs
        else:
            free, number = found
            rooms = self._rooms[number] if costs else ()
        spans = self._packs[number]
        spans.append(Span(sample, 0, num_tokens))
        free -= num_tokens
        rooms = tuple([room - cost for room, cost in zip(rooms, costs, strict=True)])
        is_full = any(rooms[place] == 0 for place in self._closing)
        if not free or len(spans) == self._max_documents or is_full:
            closed.append(self._packs.pop(number))
            self._rooms.pop(number, None)
            return closed
        if costs:
            self._rooms[number] = rooms
        self._put(free, number)
        return closed

    def flush(self) -> list[list[Span]]:
        """The open packs, in the order of their opening."""
        closed = list(self._packs.values())
        self._packs, self._rooms, self._open = {}, {}, []
        return closed

    def _free_in_new(self, sample: int, num_tokens: int, costs: tuple[int, ...]) -> int:
        if num_tokens > self._capacities[-1]:
            raise DataError(too_long(sample, num_tokens, self._capacities[-1]))
        if any(cost > most for cost, most in zip(costs, self._max_costs, strict=True)):
            raise DataError(f"Sample {sample}: costs of {costs} are more than a pack may have, {self._max_costs}.")
        return next(capacity for capacity in self._capacities if capacity >= num_tokens)

    def _holds(self, number: int, costs: tuple[int, ...]) -> bool:
        return all(cost <= room for cost, room in zip(costs, self._rooms[number], strict=True))

    def _close_fullest(self) -> list[Span]:
        free, number = min(self._open)
        self._open.remove((free, number))
        self._rooms.pop(number, None)
        return self._packs.pop(number)

    @abstractmethod
    def _put(self, free: int, number: int) -> None:
        """Adds an open pack with ``free`` tokens free."""

    @abstractmethod
    def _take(self, num_tokens: int, costs: tuple[int, ...]) -> tuple[int, int] | None:
        """Takes out the pack that the sample goes into: its free tokens and number; None if none holds it."""


class BestFit(BoundedFit):
    """Puts each sample into the fullest of the packs that hold it; of equally full ones, into that opened first."""

    def _put(self, free: int, number: int) -> None:
        insort(self._open, (free, number))

    def _take(self, num_tokens: int, costs: tuple[int, ...]) -> tuple[int, int] | None:
        for place in range(bisect_left(self._open, (num_tokens, -1)), len(self._open)):
            if not costs or self._holds(self._open[place][1], costs):
                return self._open.pop(place)
        return None


class FirstFit(BoundedFit):
    """Puts each sample into the pack that was opened first of those that hold it."""

    def _put(self, free: int, number: int) -> None:
        insort(self._open, (free, number), key=itemgetter(1))

    def _take(self, num_tokens: int, costs: tuple[int, ...]) -> tuple[int, int] | None:
        for place, (free, number) in enumerate(self._open):
            if free >= num_tokens and (not costs or self._holds(number, costs)):
                return self._open.pop(place)
        return None
