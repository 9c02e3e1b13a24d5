"""Packs in the samples' order, as torchtune fills them: next-fit, and concatenate-then-split."""

from bisect import bisect_right
from typing import Any, cast

import numpy as np

from torchpipe.data.packing.items import Items, Placed, too_long
from torchpipe.data.packing.pack_plan import Span
from torchpipe.data.packing.ramps import ramps
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
    """Fills packs in order, each to the last token; a sample that crosses the edge goes on in the next pack.

    With a cap on documents a pack also ends behind the last document that it may hold, before it is full. A sample's
    tokens in one pack are one document, or several where they are more than ``max_span``.

    Args:
        capacity: tokens a pack holds.
        max_documents: the most spans of a pack; None: any number.
        max_span: the most tokens of a span; None: any number.
    """

    def __init__(self, capacity: int, *, max_documents: int | None = None, max_span: int | None = None) -> None:
        self._capacity = capacity
        self._max_documents = max_documents
        self._max_span = capacity if max_span is None else max_span
        self._open: list[Span] = []
        self._num_tokens = 0

    def push(self, sample: int, num_tokens: int) -> list[list[Span]]:
        """Adds a sample; returns the packs that it filled and left."""
        closed: list[list[Span]] = []
        start = 0
        while start < num_tokens:
            if self._num_tokens == self._capacity or len(self._open) == self._max_documents:
                closed += self.flush()
            stop = min(num_tokens, start + self._capacity - self._num_tokens, start + self._max_span)
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


def concat_then_split(items: Items, capacity: int, *, max_span: int | None = None) -> Placed:
    """What :class:`ConcatThenSplit` makes of all items at once: cut at each item's end and each pack's end.

    A cap on documents is one of the items' caps.
    """
    ends = np.cumsum(items.lengths, dtype=np.int64)
    total = int(ends[-1]) if ends.size else 0
    longest = capacity if max_span is None else min(max_span, capacity)
    if items.caps:
        pack_begins = _begins_of_capped(ends, items.lengths, capacity, longest, items.caps[0].limit)
    else:
        pack_begins = np.arange(0, total, capacity)
    run_ends = np.sort(np.concatenate([ends, pack_begins[1:]]), kind="stable")  # merges two sorted runs
    run_ends = run_ends[np.append(run_ends[1:] != run_ends[:-1], True)] if total else ends
    span_ends = _cut_runs(run_ends, longest)
    begins = np.concatenate([[0], span_ends[:-1]])
    order = np.searchsorted(ends, begins, side="right")
    item_begins = ends[order] - items.lengths[order]
    return Placed(
        order=order,
        pack_offsets=np.append(np.searchsorted(begins, pack_begins), len(begins)),
        start=begins - item_begins,
        stop=span_ends - item_begins,
    )


def _begins_of_capped(ends: np.ndarray, lengths: np.ndarray, capacity: int, longest: int, cap: int) -> np.ndarray:
    """Where packs of at most ``cap`` spans begin among all tokens, int64: two searches a pack.

    Args:
        ends: where each item ends among all tokens, int64 [items].
        lengths: tokens of each item, 1 or more [items].
        capacity: tokens a pack holds.
        longest: tokens of the longest span.
        cap: spans of a pack.
    """
    num_items = len(ends)
    # Spans of all items up to each one, if none were cut by the end of a pack.
    spans = np.cumsum(-(-lengths.astype(np.int64) // longest))
    item_ends, span_counts = memoryview(cast(Any, ends)), memoryview(cast(Any, spans))
    begins: list[int] = []
    begin = 0
    while num_items and begin < item_ends[-1]:
        begins.append(begin)
        item = bisect_right(item_ends, begin)
        in_first = -(-(item_ends[item] - begin) // longest)
        stop = begin + cap * longest  # of the item that the pack begins in, whose spans are cut from here on
        if in_first <= cap:
            allowed = span_counts[item] + cap - in_first
            last = bisect_right(span_counts, allowed, item)  # the first item that has spans too many
            stop = item_ends[last - 1]
            if last < num_items:
                stop += (allowed - span_counts[last - 1]) * longest
        begin = min(stop, begin + capacity, item_ends[-1])
    return np.array(begins, dtype=np.int64)


def _cut_runs(run_ends: np.ndarray, longest: int) -> np.ndarray:
    """Where spans end, of runs of tokens of one item in one pack, each cut after every ``longest`` tokens; int64."""
    lengths = np.diff(run_ends, prepend=0)
    if lengths.max(initial=0) <= longest:
        return run_ends
    parts = -(-lengths // longest)
    cut = np.repeat(run_ends - lengths, parts) + longest * (1 + ramps(np.zeros_like(parts), parts))
    return np.minimum(cut, np.repeat(run_ends, parts))
