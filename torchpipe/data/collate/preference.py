"""Preference samples into one padded batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.collate.text import check_batch, check_lengths, column
from torchpipe.data.padding import longest, pad_rows

_SIDES = ("chosen", "rejected")


def padded_collate_dpo(
    batch: Sequence[Mapping[str, Any]],
    padding_idx: int = 0,
    ignore_idx: int = IGNORE_INDEX,
    pad_to_multiple_of: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch as ``(tokens, labels)``, int64 [2 * b, w]: the b chosen rows, then the b rejected ones.

    Labels stay where they are: not shifted, so the loss compares ``labels[:, 1:]`` with ``logits[:, :-1]``.

    Args:
        batch: samples with ``chosen_input_ids``, ``chosen_labels``, ``rejected_input_ids`` and ``rejected_labels``.
        padding_idx: what fills the tokens, on the right.
        ignore_idx: what fills the labels.
        pad_to_multiple_of: round w up to a multiple of this; a width that is one already stays.

    Raises:
        DataError: the batch is empty, a side has more tokens than labels or fewer, or holds something other than
            integers.
        ColumnError: a sample lacks one of the four.
        ConfigError: ``pad_to_multiple_of`` is below 1.

    >>> sample = {"chosen_input_ids": [1, 2, 3], "chosen_labels": [-100, 2, 3],
    ...           "rejected_input_ids": [1, 4], "rejected_labels": [-100, 4]}
    >>> padded_collate_dpo([sample])
    (tensor([[1, 2, 3],
            [1, 4, 0]]), tensor([[-100,    2,    3],
            [-100,    4, -100]]))
    """
    check_batch(batch)
    tokens = [row for side in _SIDES for row in column(batch, f"{side}_input_ids")]
    labels = [row for side in _SIDES for row in column(batch, f"{side}_labels")]
    width = longest([*tokens, *labels])
    for side in _SIDES:
        check_lengths(batch, f"{side}_input_ids", f"{side}_labels")
    return (
        pad_rows(tokens, value=padding_idx, width=width, multiple=pad_to_multiple_of, dtype=torch.int64),
        pad_rows(labels, value=ignore_idx, width=width, multiple=pad_to_multiple_of, dtype=torch.int64),
    )
