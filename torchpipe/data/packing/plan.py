"""Which samples share a pack, decided from their lengths alone."""

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from torchpipe.errors import ConfigError, DataError

Strategy = Literal["next_fit", "concat_then_split"]
"""How packs are filled. Both are torchtune's orders (``split_across_pack`` False and True).

``next_fit``: in order; a sample that does not fit closes the pack. ``concat_then_split``: in order, cut exactly at the
capacity, so a sample may go on in the next pack.
"""


class Span(NamedTuple):
    """Tokens ``start:stop`` of one sample."""

    sample: int
    start: int
    stop: int


@dataclass(frozen=True, kw_only=True, eq=False)
class PackPlan:
    """Which spans share a pack. Pack k is spans ``pack_offsets[k]:pack_offsets[k + 1]``; it is never empty.

    Attributes:
        sample, start, stop: int64 [spans]; stop is exclusive.
        pack_offsets: int64 [packs + 1].
    """

    sample: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    pack_offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.pack_offsets) - 1

    def spans(self, pack: int) -> list[Span]:
        """The spans of one pack, in order."""
        rows = slice(int(self.pack_offsets[pack]), int(self.pack_offsets[pack + 1]))
        columns = (self.sample[rows].tolist(), self.start[rows].tolist(), self.stop[rows].tolist())
        return [Span(*row) for row in zip(*columns, strict=True)]

    @classmethod
    def from_packs(cls, packs: Iterable[Sequence[Span]]) -> "PackPlan":
        """The plan that holds ``packs``, in order."""
        flat, offsets = array("q"), array("q", [0])  # 8 bytes a number while packs arrive
        for pack in packs:
            for span in pack:
                flat.extend(span)
            offsets.append(len(flat) // 3)
        spans = np.array(flat, dtype=np.int64).reshape(-1, 3)
        return cls(
            sample=spans[:, 0], start=spans[:, 1], stop=spans[:, 2], pack_offsets=np.array(offsets, dtype=np.int64)
        )


class PackPlanner(Protocol):
    """Plans packs while samples arrive. Both methods return the packs that are now closed."""

    def push(self, sample: int, num_tokens: int) -> list[list[Span]]:
        """Adds a sample by its number and length in tokens."""
        ...

    def flush(self) -> list[list[Span]]:
        """Closes what is open."""
        ...


class NextFit:
    """Fills one pack in order; a sample that does not fit closes it.

    Raises (from ``push``):
        DataError: a sample is longer than a pack.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._open: list[Span] = []
        self._num_tokens = 0

    def push(self, sample: int, num_tokens: int) -> list[list[Span]]:
        """Adds a sample; returns the pack that it closed, if it did."""
        if num_tokens > self._capacity:
            raise DataError(
                f"Sample {sample}: {num_tokens} tokens do not fit a pack of {self._capacity}. Raise max_seq_len, set "
                "split_across_pack=True, or give the tokenizer a max_seq_len that cuts samples."
            )
        closed = self.flush() if self._num_tokens + num_tokens > self._capacity else []
        if num_tokens:
            self._open.append(Span(sample, 0, num_tokens))
            self._num_tokens += num_tokens
        return closed

    def flush(self) -> list[list[Span]]:
        """The open pack, unless it is empty."""
        closed, self._open, self._num_tokens = self._open, [], 0
        return [closed] if closed else []


class ConcatThenSplit:
    """Fills packs in order, each to the last token; a sample that crosses the edge goes on in the next pack."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._open: list[Span] = []
        self._num_tokens = 0

    def push(self, sample: int, num_tokens: int) -> list[list[Span]]:
        """Adds a sample; returns the packs that it filled and left."""
        closed: list[list[Span]] = []
        start = 0
        while start < num_tokens:
            if self._num_tokens == self._capacity:
                closed += self.flush()
            stop = min(num_tokens, start + self._capacity - self._num_tokens)
            self._open.append(Span(sample, start, stop))
            self._num_tokens += stop - start
            start = stop
        return closed

    def flush(self) -> list[list[Span]]:
        """The open pack, unless it is empty."""
        closed, self._open, self._num_tokens = self._open, [], 0
        return [closed] if closed else []


_PLANNERS: dict[Strategy, Callable[[int], PackPlanner]] = {"next_fit": NextFit, "concat_then_split": ConcatThenSplit}


def pack_planner(strategy: Strategy, capacity: int) -> PackPlanner:
    """A new planner for packs of ``capacity`` tokens.

    Raises:
        ConfigError: the strategy is unknown, or the capacity below 1.
    """
    if strategy not in _PLANNERS:
        raise ConfigError(f"Packing strategy {strategy!r} is unknown. There are {', '.join(map(repr, _PLANNERS))}.")
    if capacity < 1:
        raise ConfigError(f"A pack of {capacity} tokens holds nothing. Give max_seq_len a whole number above 0.")
    return _PLANNERS[strategy](capacity)


def plan_packs(lengths: Sequence[int] | np.ndarray, capacity: int, *, strategy: Strategy) -> PackPlan:
    """Plans all samples at once.

    Args:
        lengths: tokens of each sample.
        capacity: tokens a pack holds.
        strategy: see :data:`Strategy`.

    >>> plan = plan_packs([4, 4, 2, 2], 6, strategy="next_fit")
    >>> [[span.sample for span in plan.spans(k)] for k in range(len(plan))]
    [[0], [1, 2], [3]]
    """
    planner = pack_planner(strategy, capacity)

    def packs() -> Iterator[list[Span]]:
        for sample, num_tokens in enumerate(np.asarray(lengths, dtype=np.int64).tolist()):
            yield from planner.push(sample, num_tokens)
        yield from planner.flush()

    return PackPlan.from_packs(packs())
