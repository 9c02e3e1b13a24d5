"""Single answers with a label into one padded batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.collate.text import check_batch, check_lengths, column
from torchpipe.data.padding import longest, pad_rows
from torchpipe.errors import DataError


def padded_collate_kto(
    batch: Sequence[Mapping[str, Any]],
    padding_idx: int = 0,
    ignore_idx: int = IGNORE_INDEX,
    pad_to_multiple_of: int = 1,
    mismatched: bool = False,
) -> dict[str, torch.Tensor]:
    """The batch as ``tokens``, ``labels`` int64 [b, w] and ``desirable`` bool [b], padded on the right.

    Labels stay where they are: not shifted, so the loss compares ``labels[:, 1:]`` with ``logits[:, :-1]``.

    Args:
        batch: samples with ``input_ids``, ``labels`` and ``desirable``.
        padding_idx: what fills the tokens.
        ignore_idx: what fills the labels.
        pad_to_multiple_of: round w up to a multiple of this.
        mismatched: True adds ``kl_tokens`` and ``kl_labels``, int64 [b, v]: each prompt with the answer of the next
            sample (the last one with the first's), which KTO estimates its reference point by.

    Raises:
        DataError: the batch is empty, or a sample has more tokens than labels or fewer; ``mismatched``, and there is
            one sample alone.
        ColumnError: a sample lacks one of the three.
        ConfigError: ``pad_to_multiple_of`` is below 1.

    >>> batch = [{"input_ids": [1, 2], "labels": [-100, 2], "desirable": True},
    ...          {"input_ids": [3, 4, 5], "labels": [-100, 4, 5], "desirable": False}]
    >>> made = padded_collate_kto(batch, mismatched=True)
    >>> made["tokens"].tolist(), made["desirable"].tolist(), made["kl_tokens"].tolist()
    ([[1, 2, 0], [3, 4, 5]], [True, False], [[1, 4, 5], [3, 2, 0]])
    """
    check_batch(batch)
    tokens, labels = column(batch, "input_ids"), column(batch, "labels")
    check_lengths(batch, "input_ids", "labels")
    out = _padded("", tokens, labels, padding_idx, ignore_idx, pad_to_multiple_of)
    if mismatched:
        if len(batch) < 2:
            raise DataError("A batch of one sample has no other answer to its prompt. Use a batch_size of 2 or more.")
        starts = [_prompt_len(row, ignore_idx) for row in labels]
        following = [*range(1, len(batch)), 0]
        crossed_tokens, crossed_labels = (
            [[*rows[own][: starts[own]], *rows[other][starts[other] :]] for own, other in enumerate(following)]
            for rows in (tokens, labels)
        )
        out |= _padded("kl_", crossed_tokens, crossed_labels, padding_idx, ignore_idx, pad_to_multiple_of)
    return {**out, "desirable": torch.tensor([bool(label) for label in column(batch, "desirable")])}


def _padded(
    prefix: str, tokens: list[Any], labels: list[Any], padding_idx: int, ignore_idx: int, multiple: int
) -> dict[str, torch.Tensor]:
    return {
        f"{prefix}{name}": pad_rows(rows, value=value, width=longest(tokens), multiple=multiple, dtype=torch.int64)
        for name, rows, value in (("tokens", tokens, padding_idx), ("labels", labels, ignore_idx))
    }


def _prompt_len(labels: Any, ignore_idx: int) -> int:
    return next((place for place, label in enumerate(labels) if int(label) != ignore_idx), len(labels))
