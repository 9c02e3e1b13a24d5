"""Packs in the samples' order, as torchtune fills them: next-fit, and concatenate-then-split."""

from bisect import bisect_right
from typing import Any, cast

import numpy as np

from torchpipe.data.packing.items import Items, Placed, too_long
from torchpipe.data.packing.pack_plan import Span
from torchpipe.errors import DataError


class NextFit:
    """Fills one pack in order; a sample that does not fit closes it.

    Args:
        capacity: tokens a pack holds.
        max_documents: the most samples of a pack; None: any number.

    Raises (from ``push``):
        DataError: a sample is longer than a pack.
    """

    def __init__(self, capacity: int, *, max_documents: int | None = None) -> None:
        self._capacity = capacity
        self._max_documents = max_documents
        self._open: list[Span] = []
        self._num_tokens = 0

    def push(self, sample: int, num_tokens: int) -> list[list[Span]]:
        """Adds a sample; returns the pack that it closed, if it did."""
        if num_tokens > self._capacity:
            raise DataError(too_long(sample, num_tokens, self._capacity))
        if num_tokens == 0:
            return []
        is_full = self._num_tokens + num_tokens > self._capacity or len(self._open) == self._max_documents
        closed = self.flush() if is_full else []
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


def next_fit(items: Items, capacity: int) -> Placed:
    """What :class:`NextFit` makes of all items at once: one search a pack. Caps close a pack as tokens do."""
    quantities = [(items.lengths, capacity), *((cap.needs, cap.limit) for cap in items.caps)]
    # bisect over a memoryview reads Python integers without holding one for each item.
    sums = [memoryview(cast(Any, np.cumsum(values, dtype=np.int64))) for values, _ in quantities]
    limits = [limit for _, limit in quantities]
    num_items = len(items.lengths)
    offsets = [0]
    while (first := offsets[-1]) < num_items:
        stop = min(num_items, first + capacity)  # no item is of less than one token
        for ends, limit in zip(sums, limits, strict=True):
            stop = bisect_right(ends, (ends[first - 1] if first else 0) + limit, first, stop)
        offsets.append(stop)
    return Placed(order=np.arange(num_items), pack_offsets=np.array(offsets, dtype=np.int64))


def concat_then_split(items: Items, capacity: int) -> Placed:
    """What :class:`ConcatThenSplit` makes of all items at once: cut at each item's end and each pack's end."""
    ends = np.cumsum(items.lengths, dtype=np.int64)
    total = int(ends[-1]) if ends.size else 0
    pack_begins = np.arange(0, total, capacity)
    span_ends = np.sort(np.concatenate([ends, pack_begins[1:]]), kind="stable")  # merges two sorted runs
    span_ends = span_ends[np.append(span_ends[1:] != span_ends[:-1], True)] if total else ends
    begins = np.concatenate([[0], span_ends[:-1]])
    order = np.searchsorted(ends, begins, side="right")
    item_begins = ends[order] - items.lengths[order]
    return Placed(
        order=order,
        pack_offsets=np.append(np.searchsorted(begins, pack_begins), len(begins)),
        start=begins - item_begins,
        stop=span_ends - item_begins,
    )
