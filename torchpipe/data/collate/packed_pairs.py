"""Packed pairs into one batch, with the document that each token belongs to."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from torchpipe.data.collate.packed import PackedBatch, padded_collate_packed
from torchpipe.data.packing.masks import PackedMaskKind


class PackedPairsBatch(PackedBatch):
    """A packed batch, and where its pairs are.

    ``documents``, int64 [b, s], is the number of each token's document in the batch: 2p for the chosen side of pair p,
    2p + 1 for the rejected one, and 2 * ``num_pairs`` for padding.
    """

    documents: torch.Tensor
    num_pairs: int


def padded_collate_packed_pairs(batch: Sequence[Mapping[str, Any]], mask: PackedMaskKind = "dense") -> PackedPairsBatch:
    """The batch of :func:`~torchpipe.data.padded_collate_packed`, with ``documents`` and ``num_pairs``.

    Labels are shifted, as in all packs: ``labels[i]`` is what position i predicts. The log-probability of every
    response is one sum: ``torch.zeros(2 * num_pairs + 1).index_add_(0, documents.flatten(), logps.flatten())``, where
    ``logps`` are those of the labels, 0 where the label is -100; of it ``[:-1:2]`` are the chosen ones, ``[1::2]`` the
    rejected ones.

    Args:
        batch: packs of pairs: documents 2k and 2k + 1 of ``seq_lens`` are a pair, and one more is padding.
        mask: as for ``padded_collate_packed``.

    Raises:
        ColumnError, DataError, ConfigError: as ``padded_collate_packed``.

    >>> pack = {"tokens": [5, 6, 5, 7, 0], "labels": [6, -100, 7, -100, -100], "input_pos": [0, 1, 0, 1, 2],
    ...         "seq_lens": [2, 2, 1]}
    >>> made = padded_collate_packed_pairs([pack])
    >>> made["documents"].tolist(), made["num_pairs"]
    ([[0, 0, 1, 1, 2]], 1)
    """
    out = padded_collate_packed(batch, mask)
    lengths = [torch.as_tensor(sample["seq_lens"]) for sample in batch]
    documents = [len(lens) - len(lens) % 2 for lens in lengths]
    padding = sum(documents)
    numbers: list[torch.Tensor] = []
    first = 0
    for lens, number in zip(lengths, documents, strict=True):
        own = torch.arange(first, first + len(lens))
        own[number:] = padding
        numbers.append(own.repeat_interleave(lens))
        first += number
    return {**out, "documents": torch.stack(numbers), "num_pairs": padding // 2}
