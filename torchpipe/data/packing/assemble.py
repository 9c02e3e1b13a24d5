"""Spans of samples to one packed row."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.packing.plan import Span
from torchpipe.errors import DataError


def assemble(
    spans: Sequence[Span],
    read: Callable[[Span], Sequence[np.ndarray]],
    *,
    capacity: int,
    padding_idx: int,
) -> dict[str, torch.Tensor]:
    """One pack.

    A continued sample's positions run on from where it was cut, modulo the capacity. Padding is one more document: its
    positions run on from the last real one, clamped to ``capacity - 1``, and its length is the last of ``seq_lens``.

    Args:
        spans: the spans of one pack, in order.
        read: gives tokens and labels (int, equal length) of a span, and loss weights (float) third, where samples have
            them: all spans of a data set, or none.
        capacity: tokens of the row, s.
        padding_idx: the token that fills the row.

    Returns:
        ``tokens``, ``labels``, ``input_pos``: int64 [s]; ``seq_lens``: int64 [documents], sums to s; and
        ``loss_weights``: float32 [s], 0 in the padding, where spans have them.

    Raises:
        DataError: the spans hold more than ``capacity`` tokens.
    """
    tokens = np.full(capacity, padding_idx, dtype=np.int64)
    labels = np.full(capacity, IGNORE_INDEX, dtype=np.int64)
    loss_weights: np.ndarray | None = None
    input_pos = np.empty(capacity, dtype=np.int64)
    seq_lens = [span.stop - span.start for span in spans]
    used = sum(seq_lens)
    if used > capacity:
        raise DataError(f"A pack of {capacity} tokens was given spans of {used} tokens.")
    offset = 0
    for span, num_tokens in zip(spans, seq_lens, strict=True):
        row = slice(offset, offset + num_tokens)
        tokens[row], labels[row], *weights = read(span)
        if weights:
            loss_weights = np.zeros(capacity, dtype=np.float32) if loss_weights is None else loss_weights
            loss_weights[row] = weights[0]
        input_pos[row] = np.arange(span.start, span.stop) % capacity
        offset += num_tokens
    if used < capacity:
        after = int(input_pos[used - 1]) + 1 if used else 0
        input_pos[used:] = np.minimum(np.arange(after, after + capacity - used), capacity - 1)
        seq_lens.append(capacity - used)
    pack = {
        "tokens": torch.from_numpy(tokens),
        "labels": torch.from_numpy(labels),
        "input_pos": torch.from_numpy(input_pos),
        "seq_lens": torch.tensor(seq_lens, dtype=torch.int64),
    }
    return pack if loss_weights is None else {**pack, "loss_weights": torch.from_numpy(loss_weights)}
