"""Prompts into one batch that a model goes on from."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.data.collate.text import check_batch, column
from torchpipe.data.padding import longest, pad_rows


def padded_collate_prompts(
    batch: Sequence[Mapping[str, Any]], padding_idx: int = 0, pad_to_multiple_of: int = 1
) -> dict[str, Any]:
    """The batch as ``tokens``, ``input_pos`` int64 [b, w] and ``prompt_lens`` int64 [b], padded on the left.

    So every prompt ends in the last column, and the next one holds the first token of every answer. Positions of
    padding are 0, and ``input_pos`` counts from a prompt's first token; column j of row i is padding where
    ``j < w - prompt_lens[i]``. Where samples have ``columns``, the batch has the list of them.

    Args:
        batch: samples with ``tokens``.
        padding_idx: what fills the tokens.
        pad_to_multiple_of: round w up to a multiple of this.

    Raises:
        DataError: the batch is empty, or holds something other than integers.
        ColumnError: a sample has no ``tokens``.
        ConfigError: ``pad_to_multiple_of`` is below 1.

    >>> made = padded_collate_prompts([{"tokens": [5, 6, 7]}, {"tokens": [8]}])
    >>> made["tokens"].tolist(), made["input_pos"].tolist(), made["prompt_lens"].tolist()
    ([[5, 6, 7], [0, 0, 8]], [[0, 1, 2], [0, 0, 0]], [3, 1])
    """
    check_batch(batch)
    rows = column(batch, "tokens")
    sizes: dict[str, Any] = {"width": longest(rows), "multiple": pad_to_multiple_of, "dtype": torch.int64}
    places = [range(len(row)) for row in rows]
    out: dict[str, Any] = {
        "tokens": pad_rows(rows, value=padding_idx, direction="left", **sizes),
        "input_pos": pad_rows([list(own) for own in places], value=0, direction="left", **sizes),
        "prompt_lens": torch.tensor(list(map(len, rows))),
    }
    if any("columns" in sample for sample in batch):
        out["columns"] = column(batch, "columns")
    return out
