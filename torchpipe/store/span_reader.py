"""Reading spans of samples out of memory-mapped shards, many at once."""

import resource
import threading
from collections.abc import Sequence

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import StoreError
from torchpipe.store.array_file import KEEPS_FILES_OPEN
from torchpipe.store.bit_ranks import BitRanks
from torchpipe.store.sample_index import SampleIndex
from torchpipe.store.shard import Shard

_READ_ARRAYS = ("tokens", "trained", "labels", "last_labels", "loss_weights")
_MAX_MAPPED = 1 << 13
"""Shards that are mapped at a time where mappings need no open files: Linux allows 65,530 mappings a process."""


class SpanReader:
    """Reads spans: ``[start, stop)`` of a sample, given as three arrays of whole numbers [spans].

    What a call costs is a few numpy calls over all tokens, and two slices a span. Several threads may call.

    Args:
        shards: of the store.
        index: of their samples.
        lazy: whether blocks are checked when they are first read.
    """

    def __init__(self, shards: Sequence[Shard], index: SampleIndex, *, lazy: bool) -> None:
        self._lock = threading.Lock()  # of what is mapped and what was checked
        self._shards = shards
        self._index = index
        self._lazy = lazy
        self._first_samples = np.cumsum([0, *(shard.num_samples for shard in shards)], dtype=np.int64)
        self._first_tokens = np.cumsum([0, *(shard.num_tokens for shard in shards)], dtype=np.int64)
        self._flat: list[tuple[np.ndarray, np.ndarray] | None] = [None] * len(shards)
        self._mapped: dict[int, None] = {}  # in the order of mapping
        self._max_mapped = _max_mapped()
        self._explicit = np.array(["labels" in shard.files for shard in shards], dtype=bool)
        self._continued = np.array(["last_labels" in shard.files for shard in shards], dtype=bool)
        self._has_explicit, self._has_continued = bool(self._explicit.any()), bool(self._continued.any())

    def gather(
        self,
        sample: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
        *,
        tokens: np.ndarray,
        labels: np.ndarray,
        loss_weights: np.ndarray | None = None,
    ) -> None:
        """See :meth:`~torchpipe.store.token_store.TokenStore.gather`."""
        with self._lock:
            self._gather(sample, start, stop, tokens, labels, loss_weights)

    def _gather(
        self,
        sample: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
        tokens: np.ndarray,
        labels: np.ndarray,
        loss_weights: np.ndarray | None,
    ) -> None:
        lengths = self._checked_lengths(sample, start, stop)
        num_tokens = stop - start
        ends = np.cumsum(num_tokens)
        total = int(ends[-1]) if len(ends) else 0
        for name, out in (("tokens", tokens), ("labels", labels), ("loss_weights", loss_weights)):
            if out is not None and out.shape != (total,):
                raise StoreError(f"The spans hold {total} tokens; {name} has shape {out.shape}, it must be ({total},).")
        if total == 0:
            return
        shard_of = self._shard_of(sample)
        low = self._index.offsets[sample] - self._first_tokens[shard_of] + start
        high = low + num_tokens
        numbers, lows, highs = shard_of.tolist(), low.tolist(), high.tolist()

        has_untrained = self._has_untrained(sample, lengths)
        views: list[np.ndarray] = []
        packed: list[np.ndarray] = []
        flats: list[np.ndarray] = []
        for number, first, last in zip(numbers, lows, highs, strict=True):
            flat, trained = self._flat[number] or self._map(number)
            flats.append(flat)
            views.append(flat[first:last])
            if has_untrained:
                packed.append(trained[first >> 3 : (last + 7) >> 3])
        # A span that stops inside a sample has the token that follows as its last label.
        stops_inside = stop < lengths
        inside = np.flatnonzero(stops_inside & (num_tokens > 0))
        if self._lazy:
            self._check("tokens", numbers, lows, (high + stops_inside).tolist())
        if self._lazy and has_untrained:
            self._check("trained", numbers, [first >> 3 for first in lows], [(last + 7) >> 3 for last in highs])
        np.concatenate(views, out=tokens)

        # The label at i is token i + 1, also across spans; a span's last label is put right or masked below.
        labels[:-1] = tokens[1:]
        labels[-1] = IGNORE_INDEX
        labels[ends[inside] - 1] = [flats[k][highs[k]] for k in inside.tolist()]
        if self._has_continued:
            self._put_written_labels(labels, ends, sample, start, stop, lengths, shard_of)
        if has_untrained:
            np.copyto(labels, IGNORE_INDEX, where=_zero_bits(packed, low, high))
        elif len(inside) < len(sample):
            labels[ends[~stops_inside & (num_tokens > 0)] - 1] = IGNORE_INDEX
        if self._has_explicit:
            for k in map(int, np.flatnonzero(self._explicit[shard_of])):
                begin, end = int(ends[k] - num_tokens[k]), int(ends[k])
                labels[begin:end] = self._read("labels", numbers[k], lows[k], highs[k])
        if loss_weights is not None:
            self._gather_weights(loss_weights, ends - num_tokens, numbers, lows, highs)

    def trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """See :meth:`~torchpipe.store.token_store.TokenStore.trained_in`."""
        with self._lock:
            return self._trained_in(sample, start, stop)

    def _trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        lengths = self._checked_lengths(sample, start, stop)
        counts = self._index.trained_counts[sample].astype(np.int64)
        cut = np.flatnonzero((start > 0) | (stop < lengths))
        shard_of = self._shard_of(sample[cut])
        low = self._index.offsets[sample[cut]] - self._first_tokens[shard_of] + start[cut]
        by_shard = np.argsort(shard_of, kind="stable")
        for group in np.split(by_shard, np.flatnonzero(np.diff(shard_of[by_shard])) + 1):
            if len(group):
                number = int(shard_of[group[0]])
                num_bytes = (self._shards[number].num_tokens + 7) >> 3
                ranks = BitRanks(self._read("trained", number, 0, num_bytes))
                length = stop[cut[group]] - start[cut[group]]
                counts[cut[group]] = ranks.below(low[group] + length) - ranks.below(low[group])
        return counts

    def _has_untrained(self, sample: np.ndarray, lengths: np.ndarray) -> bool:
        """Whether bits have to be read to tell which labels are trained: not of text, where all are that can be."""
        if self._has_continued or self._has_explicit:
            return True
        return bool((self._index.trained_counts[sample] + np.uint32(1) != lengths).any())

    def _checked_lengths(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """The lengths of the spans' samples; StoreError where a span is not within one."""
        num_samples = len(self._index.lengths)
        if len(sample) and (sample.min() < 0 or sample.max() >= num_samples):
            wrong = sample[(sample < 0) | (sample >= num_samples)][0]
            raise StoreError(
                f"Sample {wrong} was asked for; the store has {num_samples:,}. Use the plan made for this store."
            )
        lengths = self._index.lengths[sample]
        outside = (start < 0) | (start > stop) | (stop > lengths)
        if outside.any():
            k = int(np.flatnonzero(outside)[0])
            raise StoreError(
                f"The span {start[k]} to {stop[k]} of sample {sample[k]} was asked for, which has {lengths[k]} tokens. "
                "Use the plan that was made for this store."
            )
        return lengths

    def _shard_of(self, sample: np.ndarray) -> np.ndarray:
        # Of shards without samples, which begin at the same sample as the next, "right" finds the last.
        return np.searchsorted(self._first_samples, sample, side="right") - 1

    def _put_written_labels(
        self,
        labels: np.ndarray,
        ends: np.ndarray,
        sample: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
        lengths: np.ndarray,
        shard_of: np.ndarray,
    ) -> None:
        """The labels that were written for a sample's end. All others there are -100, and their bits say so."""
        for k in np.flatnonzero(self._continued[shard_of] & (stop == lengths) & (stop > start)).tolist():
            number = int(shard_of[k])
            at = int(sample[k] - self._first_samples[number])
            labels[ends[k] - 1] = self._read("last_labels", number, at, at + 1)[0]

    def _gather_weights(
        self, out: np.ndarray, begins: np.ndarray, numbers: list[int], lows: list[int], highs: list[int]
    ) -> None:
        for begin, number, low, high in zip(begins.tolist(), numbers, lows, highs, strict=True):
            weighted = self._shards[number].has_weights
            out[begin : begin + high - low] = self._read("loss_weights", number, low, high) if weighted else 1.0

    def _read(self, name: str, number: int, start: int, stop: int) -> np.ndarray:
        if self._flat[number] is None:
            self._map(number)
        file = self._shards[number].files[name]
        if self._lazy:
            file.check(start, stop)
        return file.array()[start:stop]

    def _check(self, name: str, numbers: list[int], starts: list[int], stops: list[int]) -> None:
        for number, start, stop in zip(numbers, starts, stops, strict=True):
            file = self._shards[number].files[name]
            if file.num_unchecked:
                file.check(start, stop)

    def _map(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Maps a shard, in place of the one that was mapped first if there are too many."""
        if len(self._mapped) >= self._max_mapped:
            oldest = next(iter(self._mapped))
            del self._mapped[oldest]
            self._flat[oldest] = None
            for name in _READ_ARRAYS:
                if name in self._shards[oldest].files:
                    self._shards[oldest].files[name].forget()
        shard = self._shards[number]
        found = self._flat[number] = shard.array("tokens"), shard.array("trained")
        self._mapped[number] = None
        return found


def _zero_bits(packed: list[np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Whether each bit is 0, of all spans one after the other: bool. ::

        packed of two spans     ..101110 011.....  .000111.
        result                  010001100111000

    Args:
        packed: the bytes that hold a span's bits, for each span.
        low, high: where each span's bits begin and end in its shard.
    """
    bits = np.unpackbits(~np.concatenate(packed), bitorder="little").view(np.bool_)
    num_bits = (((high + 7) >> 3) - (low >> 3)) << 3
    begin = np.cumsum(num_bits) - num_bits + (low & 7)
    ends = (begin + high - low).tolist()
    return np.concatenate([bits[first:last] for first, last in zip(begin.tolist(), ends, strict=True)])


def _max_mapped() -> int:
    """Shards to hold mapped at a time. Before Python 3.13 each mapped file stays open."""
    if not KEEPS_FILES_OPEN:
        return _MAX_MAPPED
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _MAX_MAPPED
    # Half of what the process may open, for at most five files a shard, mostly two.
    return max(4, min(_MAX_MAPPED, limit // 2 // 3))
