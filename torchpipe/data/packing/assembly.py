"""Packs of a plan to rows of tensors."""

from collections.abc import Sequence
from typing import Protocol

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


def assemble(
    plan: PackPlan, packs: Sequence[int] | np.ndarray, samples: SampleTokens, *, capacity: int, padding_idx: int
) -> list[dict[str, torch.Tensor]]:
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

    total = int(used.sum())
    read_tokens, read_labels = np.empty(total, dtype=np.int64), np.empty(total, dtype=np.int64)
    read_weights = np.empty(total, dtype=np.float32) if samples.has_weights else None
    samples.gather(plan.sample[spans], start, stop, tokens=read_tokens, labels=read_labels, loss_weights=read_weights)
    # In its row, a token's position is its place in the sample: the place in what was read, moved for each span.
    read_pos = np.arange(total, dtype=np.int64)
    read_pos += np.repeat(start - (np.cumsum(lens) - lens), lens)
    if total and stop.max() > capacity:
        read_pos %= capacity

    shape = len(numbers), capacity
    tokens, labels = np.full(shape, padding_idx, dtype=np.int64), np.full(shape, IGNORE_INDEX, dtype=np.int64)
    input_pos = np.empty(shape, dtype=np.int64)
    loss_weights = None if read_weights is None else np.zeros(shape, dtype=np.float32)
    items: list[dict[str, torch.Tensor]] = []
    span, offset = 0, 0
    for row, (count, num_tokens) in enumerate(zip(num_spans.tolist(), used.tolist(), strict=True)):
        here = slice(offset, offset + num_tokens)
        tokens[row, :num_tokens], labels[row, :num_tokens] = read_tokens[here], read_labels[here]
        input_pos[row, :num_tokens] = read_pos[here]
        seq_lens = lens[span : span + count]
        if num_tokens < capacity:
            after = int(input_pos[row, num_tokens - 1]) + 1 if num_tokens else 0
            padding = np.arange(after, after + capacity - num_tokens)
            np.minimum(padding, capacity - 1, out=input_pos[row, num_tokens:])
            seq_lens = np.append(seq_lens, capacity - num_tokens)
        item = {
            "tokens": torch.from_numpy(tokens[row]),
            "labels": torch.from_numpy(labels[row]),
            "input_pos": torch.from_numpy(input_pos[row]),
            "seq_lens": torch.from_numpy(seq_lens.astype(np.int64)),
        }
        if loss_weights is not None and read_weights is not None:
            loss_weights[row, :num_tokens] = read_weights[here]
            item["loss_weights"] = torch.from_numpy(loss_weights[row])
        items.append(item)
        span, offset = span + count, offset + num_tokens
    return items


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
