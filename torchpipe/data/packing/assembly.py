"""Packs of a plan to rows of tensors."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, overload

import numpy as np
import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.packing.pack_plan import PackPlan
from torchpipe.errors import DataError

_PACKS_AT_ONCE = 16
"""Rows that are written together: few enough that what is written once is in the processor's cache when it is read
again, enough that a call of numpy costs little beside them. A batch is seldom more."""


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


class PackedItems(Sequence[dict[str, torch.Tensor]]):
    """Items that were read together. Each is made when it is first asked for, of rows of the tensors that hold all.

    Args:
        stacks: by key a tensor [items, s], whose rows the items have.
        seq_lens: the documents' lengths of each item, int64 [d].
    """

    def __init__(self, stacks: Mapping[str, torch.Tensor], seq_lens: Sequence[torch.Tensor]) -> None:
        self._stacks = dict(stacks)
        self._seq_lens = list(seq_lens)
        self._items: list[dict[str, torch.Tensor]] | None = None

    def stacked(self) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]] | None:
        """The tensors and lengths that it was made of, so that a batch need not copy them.

        None once an item was asked for, since it may have been changed.
        """
        return (dict(self._stacks), list(self._seq_lens)) if self._items is None else None

    def __len__(self) -> int:
        return len(self._seq_lens)

    @overload
    def __getitem__(self, index: int) -> dict[str, torch.Tensor]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, torch.Tensor]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, torch.Tensor] | list[dict[str, torch.Tensor]]:
        if self._items is None:
            # From numpy, so that a copy of an item for another process holds its row alone.
            rows = {name: stack.numpy() for name, stack in self._stacks.items()}
            self._items = [
                {name: torch.from_numpy(values[row]) for name, values in rows.items()} | {"seq_lens": seq_lens}
                for row, seq_lens in enumerate(self._seq_lens)
            ]
        return self._items[index]

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
    offsets = plan.pack_offsets
    bounds = [(int(offsets[pack]), int(offsets[pack + 1])) for pack in packs]
    shape = (len(bounds), capacity)
    arrays: dict[str, np.ndarray] = {name: np.empty(shape, dtype=np.int64) for name in ("tokens", "labels")}
    if samples.has_weights:
        arrays["loss_weights"] = np.empty(shape, dtype=np.float32)
    arrays["input_pos"] = np.empty(shape, dtype=np.int64)
    fills = {"tokens": padding_idx, "labels": IGNORE_INDEX, "loss_weights": 0}
    seq_lens: list[np.ndarray] = []
    for first in range(0, len(bounds), _PACKS_AT_ONCE):
        some = slice(first, first + _PACKS_AT_ONCE)
        rows = {name: array[some] for name, array in arrays.items()}
        seq_lens += _fill(rows, plan, bounds[some], samples, fills)
    stacks = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return PackedItems(stacks, [torch.from_numpy(own) for own in seq_lens])


def _fill(
    arrays: dict[str, np.ndarray],
    plan: PackPlan,
    bounds: Sequence[tuple[int, int]],
    samples: SampleTokens,
    fills: Mapping[str, float],
) -> list[np.ndarray]:
    """Writes the rows of some packs, and returns the documents' lengths of each, padding's too: int64 [documents].

    Args:
        arrays: by key [b, s], written to.
        bounds: the first span of each pack, and the one after its last, [b].
        fills: what padding is filled with, by key, for those that are read from the samples.
    """
    capacity = arrays["tokens"].shape[1]
    # Slices of a pack's spans, since a batch has few packs: index arrays of all spans take twice as long.
    sample, start, stop = (
        np.concatenate([column[first:last] for first, last in bounds])
        for column in (plan.sample, plan.start, plan.stop)
    )
    lens = stop - start
    num_spans = [last - first for first, last in bounds]
    counts = iter(lens.tolist())
    used = [sum(islice(counts, number)) for number in num_spans]
    if max(used) > capacity:
        raise DataError(f"A pack of {capacity} tokens was given spans of {max(used)} tokens.")
    total = sum(used)
    samples.gather(sample, start, stop, **{name: arrays[name].reshape(-1)[:total] for name in arrays if name in fills})
    for name, fill in fills.items():
        if name in arrays:
            _move_to_rows(arrays[name], used, fill)
    return _positions(arrays["input_pos"], start % capacity, lens, num_spans)


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
