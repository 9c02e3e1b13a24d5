"""Packs of a plan to rows of tensors."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.packing.pack_plan import PackPlan
from torchpipe.errors import DataError


class SampleTokens(Protocol):
    """The tokens of samples, by number: a token store, or anything that can copy parts of samples into arrays."""

    @property
    def has_weights(self) -> bool:
        """Whether samples have loss weights."""
        ...

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
        """Writes tokens ``start:stop`` of each sample, one after the other, and their labels and weights.

        Args:
            sample, start, stop: int64 [spans].
            tokens, labels: int64 [n], n the tokens of all spans, written to.
            loss_weights: float32 [n], written to.
        """
        ...


class PackedItems(list[dict[str, torch.Tensor]]):
    """Items that were made together, each a row of tensors that hold all of them: a batch need not copy them again.

    Args:
        items: of some packs.
        stacks: of every key whose values have one length, the tensor [items, s] whose rows the items hold.
    """

    def __init__(self, items: Iterable[dict[str, torch.Tensor]], stacks: Mapping[str, torch.Tensor]) -> None:
        super().__init__(items)
        self._stacks = dict(stacks)
        self._rows = {key: [item[key] for item in self] for key in stacks}

    def stack(self, key: str) -> torch.Tensor | None:
        """The tensor of all items' values, [items, s]; None where the list or an item was given others since."""
        rows = self._rows.get(key, [])
        if len(rows) != len(self) or any(item.get(key) is not row for item, row in zip(self, rows, strict=True)):
            return None
        return self._stacks.get(key)

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def assemble(
    plan: PackPlan, packs: Sequence[int] | np.ndarray, samples: SampleTokens, *, capacity: int, padding_idx: int
) -> PackedItems:
    """The items of some packs, read from the samples at once.

    A continued sample's positions run on from where it was cut, modulo the capacity. Padding is one more document: its
    positions run on from the last real one, clamped to ``capacity - 1``, and its length is the last of ``seq_lens``.

    Args:
        plan: which spans share a pack.
        packs: numbers of packs, [b].
        samples: where the spans' tokens are.
        capacity: tokens of a row, s.
        padding_idx: the token that fills a row.

    Returns:
        for each pack ``tokens``, ``labels``, ``input_pos``: int64 [s]; ``seq_lens``: int64 [documents], sums to s; and
        ``loss_weights``: float32 [s], 0 in the padding, where samples have them. Items are rows of shared memory.

    Raises:
        DataError: a pack holds more than ``capacity`` tokens.
    """
    numbers = np.asarray(packs, dtype=np.int64)
    first, last = plan.pack_offsets[numbers], plan.pack_offsets[numbers + 1]
    spans = _ranges(first, last)
    start, stop = plan.start[spans], plan.stop[spans]
    lens = stop - start
    num_spans = last - first
    used = np.add.reduceat(lens, np.cumsum(num_spans) - num_spans) if len(numbers) else lens
    if len(numbers) and used.max() > capacity:
        raise DataError(f"A pack of {capacity} tokens was given spans of {used.max()} tokens.")

    shape, total = (len(numbers), capacity), int(used.sum())
    arrays: dict[str, np.ndarray] = {name: np.empty(shape, dtype=np.int64) for name in ("tokens", "labels")}
    if samples.has_weights:
        arrays["loss_weights"] = np.empty(shape, dtype=np.float32)
    read = {name: rows.reshape(-1)[:total] for name, rows in arrays.items()}
    samples.gather(plan.sample[spans], start, stop, **read)
    fills = {"tokens": padding_idx, "labels": IGNORE_INDEX, "loss_weights": 0}
    for name, rows in arrays.items():
        _move_to_rows(rows, used.tolist(), fills[name])
    arrays["input_pos"] = np.empty(shape, dtype=np.int64)
    seq_lens = _positions(arrays["input_pos"], start % capacity, lens, num_spans.tolist())

    items = [
        {name: torch.from_numpy(rows[row]) for name, rows in arrays.items()} | {"seq_lens": torch.from_numpy(own_lens)}
        for row, own_lens in enumerate(seq_lens)
    ]
    return PackedItems(items, {name: torch.from_numpy(rows) for name, rows in arrays.items()})


def _move_to_rows(rows: np.ndarray, used: list[int], fill: float) -> None:
    """Moves what lies one after another at the front of ``rows`` to the begin of its row each, and fills the rest.

    Args:
        rows: [b, s], written to.
        used: how much each row holds, [b].
        fill: what stands behind it.
    """
    flat, capacity = rows.reshape(-1), rows.shape[1]
    end = sum(used)
    for row in range(len(used) - 1, -1, -1):  # from the last on: a row's place holds nothing but rows after it by then
        begin = end - used[row]
        if begin != row * capacity:
            rows[row, : used[row]] = flat[begin:end]
        if used[row] < capacity:
            rows[row, used[row] :] = fill
        end = begin


def _positions(out: np.ndarray, first: np.ndarray, lens: np.ndarray, num_spans: list[int]) -> list[np.ndarray]:
    """Writes the tokens' positions, padding's too, and returns the documents' lengths of each row, padding's too.

    Args:
        out: int64 [b, s], written to.
        first: the position of each span's first token, int64 [spans].
        lens: tokens of each span, int64 [spans].
        num_spans: of each row, [b].
    """
    capacity = out.shape[1]
    wrapped, clamped = _ramps(capacity)
    firsts, counts = first.tolist(), lens.tolist()
    pieces: list[np.ndarray] = []
    seq_lens: list[np.ndarray] = []
    span = 0
    for number in num_spans:
        after, room = 0, capacity
        for begin, count in zip(firsts[span : span + number], counts[span : span + number], strict=True):
            pieces.append(wrapped[begin : begin + count])
            if count:
                after, room = (begin + count - 1) % capacity + 1, room - count
        own = lens[span : span + number]
        if room:
            pieces.append(clamped[after : after + room])
            own = np.append(own, room)
        seq_lens.append(own.astype(np.int64))
        span += number
    if pieces:
        np.concatenate(pieces, out=out.reshape(-1))
    return seq_lens


@lru_cache(maxsize=8)
def _ramps(capacity: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers from 0 to twice the capacity, modulo it and clamped below it: int64 [2 * capacity] each."""
    numbers = np.arange(2 * capacity, dtype=np.int64)
    wrapped, clamped = numbers % capacity, np.minimum(numbers, capacity - 1)
    wrapped.flags.writeable = clamped.flags.writeable = False
    return wrapped, clamped


def padding_pack(capacity: int, *, padding_idx: int, has_weights: bool) -> dict[str, torch.Tensor]:
    """A pack of padding alone, which trains nothing: one document of ``capacity`` tokens.

    >>> padding_pack(3, padding_idx=9, has_weights=False)["tokens"].tolist()
    [9, 9, 9]
    """
    pack = {
        "tokens": torch.full((capacity,), padding_idx),
        "labels": torch.full((capacity,), IGNORE_INDEX),
        "input_pos": torch.arange(capacity),
        "seq_lens": torch.tensor([capacity]),
    }
    return {**pack, "loss_weights": torch.zeros(capacity)} if has_weights else pack


def _ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """``first:last`` of each pair, one after the other.

    >>> _ranges(np.array([4, 0]), np.array([6, 1])).tolist()
    [4, 5, 0]
    """
    counts = last - first
    return np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
