"""Rows made of rows: what is chosen, joined, cut and packed is told by spans of samples all the way.

A :class:`~torchpipe.data.packing.PackPlan` says of each row which spans of samples it holds, in order. These functions
make such rows of others, on arrays of whole numbers alone; no token is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from torchpipe.data.overflow import Overflow
from torchpipe.data.packing.pack_plan import PackPlan
from torchpipe.data.packing.ramps import ramps


def rows_of_samples(lengths: np.ndarray, row_of: np.ndarray | None = None) -> PackPlan:
    """Rows of whole samples, each as long as what it holds.

    Args:
        lengths: tokens of each sample, whole numbers [samples].
        row_of: the row of each sample, ascending [samples]; None: each sample is a row.

    >>> rows = rows_of_samples(np.array([3, 2, 4]), np.array([7, 7, 9]))
    >>> [[tuple(span) for span in rows.spans(row)] for row in range(len(rows))]
    [[(0, 0, 3), (1, 0, 2)], [(2, 0, 4)]]
    """
    num = len(lengths)
    stop = np.asarray(lengths, dtype=np.int64)
    firsts = np.arange(num) if row_of is None else np.flatnonzero(np.diff(row_of, prepend=-1))
    offsets = np.append(firsts, num).astype(np.int64)
    return PackPlan(
        sample=np.arange(num),
        start=np.broadcast_to(np.int64(0), num),
        stop=stop,
        pack_offsets=offsets,
        pack_lens=stop if row_of is None else np.add.reduceat(stop, firsts) if num else stop,
        num_samples=num,
    )


def joined_rows(parts: Sequence[PackPlan], first_samples: Sequence[int]) -> PackPlan:
    """The rows of several, one after the other.

    Args:
        parts: the rows.
        first_samples: what is added to the sample numbers of each: where its samples begin among those of all.
    """
    if len(parts) == 1 and first_samples[0] == 0:
        return parts[0]
    offsets = np.cumsum([0, *(len(part.sample) for part in parts)])
    return PackPlan(
        sample=np.concatenate([part.sample + first for part, first in zip(parts, first_samples, strict=True)]),
        start=np.concatenate([part.start for part in parts]),
        stop=np.concatenate([part.stop for part in parts]),
        pack_offsets=np.concatenate(
            [[0], *(part.pack_offsets[1:] + first for part, first in zip(parts, offsets, strict=False))]
        ),
        pack_lens=np.concatenate([part.pack_lens for part in parts]),
        num_samples=sum(part.num_samples for part in parts),
    )


def rows_in_packs(packs: PackPlan, rows: PackPlan) -> PackPlan:
    """Packs of rows, as packs of the samples that the rows are of.

    Args:
        packs: whose samples are rows, by number; of a row that is cut, they hold the parts.
        rows: of samples.

    >>> rows = rows_of_samples(np.array([3, 2, 4]), np.array([0, 0, 1]))
    >>> packs = PackPlan.from_packs([[(0, 0, 4)], [(0, 4, 5), (1, 0, 4)]], capacity=5)
    >>> [[tuple(span) for span in rows_in_packs(packs, rows).spans(pack)] for pack in range(2)]
    [[(0, 0, 3), (1, 0, 1)], [(1, 1, 2), (2, 0, 4)]]
    """
    row = packs.sample
    if len(rows) == len(rows.sample):  # each is one span
        begin = rows.start[row]
        return replace(
            packs,
            sample=rows.sample[row],
            start=begin + packs.start,
            stop=begin + packs.stop,
            num_samples=rows.num_samples,
            left_out={},
        )
    lengths = rows.stop - rows.start
    ends = np.cumsum(lengths)  # of each span, where all spans stand one after the other
    begins = ends - lengths
    row_begins = np.append(begins, ends[-1:])[rows.pack_offsets[row]]
    low, high = row_begins + packs.start, row_begins + packs.stop
    first = np.searchsorted(ends, low, side="right")
    last = np.searchsorted(begins, high, side="left")  # exclusive
    counts = last - first
    span = ramps(first, counts)
    cut_low, cut_high = np.repeat(low, counts), np.repeat(high, counts)
    num_spans = np.concatenate([[0], np.cumsum(counts)])
    return PackPlan(
        sample=rows.sample[span],
        start=rows.start[span] + np.maximum(cut_low - begins[span], 0),
        stop=rows.stop[span] - np.maximum(ends[span] - cut_high, 0),
        pack_offsets=num_spans[packs.pack_offsets],
        pack_lens=packs.pack_lens,
        num_samples=rows.num_samples,
        num_truncated=packs.num_truncated,
    )


def each_document(rows: PackPlan) -> PackPlan:
    """Every span of the rows as a row of its own, in their order."""
    lengths = rows.stop - rows.start
    return replace(rows, pack_offsets=np.arange(len(lengths) + 1), pack_lens=lengths)


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRows:
    """Rows none of which is too long, and what that took.

    Attributes:
        rows: in the order of those that were given.
        dropped: numbers of the rows that were left out since they are too long, ascending.
        over_cap: of those that are not, and have too many documents.
        num_dropped_tokens, num_over_cap_tokens: of these rows; num_truncated: tokens that were cut off others.
        num_split: rows that became several documents or rows.
    """

    rows: PackPlan
    dropped: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    over_cap: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    num_dropped_tokens: int = 0
    num_over_cap_tokens: int = 0
    num_truncated: int = 0
    num_split: int = 0


def fitted_rows(
    rows: PackPlan, *, longest: int, capacity: int, overflow: Overflow, max_documents: int | None = None
) -> FittedRows:
    """The rows with no document over ``longest`` tokens, and none over ``capacity`` tokens or ``max_documents`` in all.

    ``drop`` leaves out each row that has more; ``truncate`` cuts documents, and then the row, on the right; ``split``
    makes documents and rows of what is cut off, which hold each token once. ``error`` takes what fits, and leaves the
    rest in ``dropped`` and ``over_cap`` for the caller to name.

    Args:
        rows: of samples; each span of a row is a document.
    """
    lengths, num_documents = rows.stop - rows.start, np.diff(rows.pack_offsets)
    most = int(num_documents.max(initial=0)) if max_documents is None else max_documents
    too_long = np.flatnonzero(rows.num_tokens > capacity)
    long_spans = np.flatnonzero(lengths > longest)
    with_long = np.searchsorted(rows.pack_offsets, long_spans, side="right") - 1
    dropped = np.union1d(too_long, with_long)
    over_cap = np.setdiff1d(np.flatnonzero(num_documents > most), dropped)
    wrong = np.union1d(dropped, over_cap)
    if not len(wrong):
        return FittedRows(rows=rows)
    if overflow in ("drop", "error"):
        return FittedRows(
            rows=rows.take(np.setdiff1d(np.arange(len(rows)), wrong)),
            dropped=dropped,
            over_cap=over_cap,
            num_dropped_tokens=int(rows.num_tokens[dropped].sum()),
            num_over_cap_tokens=int(rows.num_tokens[over_cap].sum()),
        )
    row_of = np.repeat(np.arange(len(rows)), num_documents)
    if overflow == "truncate":
        stops = np.minimum(rows.stop, rows.start + longest)
        kept = ramps(np.zeros_like(num_documents), num_documents) < most
        shorter = _with_spans(rows, rows.sample[kept], rows.start[kept], stops[kept], row_of[kept])
        fitted = rows_in_packs(_whole_rows(shorter, np.minimum(shorter.num_tokens, capacity)), shorter)
        return FittedRows(rows=fitted, num_truncated=int(rows.num_tokens.sum()) - int(fitted.num_tokens.sum()))
    parts = -(-lengths // longest)
    span = np.repeat(np.arange(len(lengths)), parts)
    start = rows.start[span] + longest * ramps(np.zeros_like(parts), parts)
    stop = np.minimum(start + longest, rows.stop[span])
    row = row_of[span] if max_documents is None else _rows_of_at_most(max_documents, row_of[span])
    shorter = _with_spans(rows, rows.sample[span], start, stop, row)
    rows_each = -(-shorter.num_tokens // capacity)
    row = np.repeat(np.arange(len(shorter)), rows_each)
    begin = capacity * ramps(np.zeros_like(rows_each), rows_each)
    stop = np.minimum(begin + capacity, shorter.num_tokens[row])
    cut = PackPlan(
        sample=row,
        start=begin,
        stop=stop,
        pack_offsets=np.arange(len(row) + 1),
        pack_lens=stop - begin,
        num_samples=len(shorter),
    )
    return FittedRows(rows=rows_in_packs(cut, shorter), num_split=len(wrong))


def _rows_of_at_most(num_documents: int, row_of: np.ndarray) -> np.ndarray:
    """The row of each span, ascending, where none has more spans than so many: others go on as a row of their own.

    >>> _rows_of_at_most(2, np.array([0, 0, 0, 1])).tolist()
    [0, 0, 1, 2]
    """
    begins = np.flatnonzero(np.diff(row_of, prepend=-1))
    counts = np.diff(begins, append=len(row_of))
    is_first = ramps(np.zeros_like(counts), counts) % num_documents == 0
    return np.cumsum(is_first) - 1


def _whole_rows(rows: PackPlan, stops: np.ndarray) -> PackPlan:
    """Each row in a row of its own, up to a token."""
    return PackPlan(
        sample=np.arange(len(rows)),
        start=np.broadcast_to(np.int64(0), len(rows)),
        stop=stops,
        pack_offsets=np.arange(len(rows) + 1),
        pack_lens=stops,
        num_samples=len(rows),
    )


def _with_spans(
    rows: PackPlan, sample: np.ndarray, start: np.ndarray, stop: np.ndarray, row_of: np.ndarray
) -> PackPlan:
    """The rows with other spans, each of which is of the row given; ascending."""
    offsets = np.append(np.flatnonzero(np.diff(row_of, prepend=-1)), len(row_of))
    ends = np.concatenate([[0], np.cumsum(stop - start)])
    return PackPlan(
        sample=sample,
        start=start,
        stop=stop,
        pack_offsets=offsets,
        pack_lens=ends[offsets[1:]] - ends[offsets[:-1]],
        num_samples=rows.num_samples,
    )
