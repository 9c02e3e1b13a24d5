"""Packed samples, which all have one length already, into one batch with their attention mask."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import torch

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.collate.media import refuse_media
from torchpipe.data.collate.text import check_batch, collate_loss_weights, column
from torchpipe.data.packing.assembly import PackedItems
from torchpipe.data.packing.masks import PACKED_MASKS, PackedMask, PackedMaskKind
from torchpipe.errors import ColumnError, ConfigError, DataError


class PackedBatch(TypedDict):
    """What a model is called with, and what its loss is; s is the pack's length."""

    tokens: torch.Tensor
    labels: torch.Tensor
    input_pos: torch.Tensor
    mask: torch.Tensor | PackedMask
    loss_weights: NotRequired[torch.Tensor]


def padded_collate_packed(batch: Sequence[Mapping[str, Any]], mask: PackedMaskKind = "dense") -> PackedBatch:
    """The batch as ``tokens``, ``labels``, ``input_pos`` int64 [b, s] and ``mask``. Nothing is padded.

    Where a sample has ``loss_weights``, the batch has them too, float32 [b, s].

    Args:
        batch: packed samples: ``tokens``, ``labels``, ``input_pos`` [s] and ``seq_lens`` [d], arrays or tensors.
        mask: "dense" is bool [b, s, s], True = attend, and grows with s * s. "ids" and "varlen" are a small
            :class:`~torchpipe.data.packing.masks.PackedMask`, of which the attention layer makes what its device needs:
            "varlen" holds the documents' offsets, "ids" each token's document too.

    Raises:
        ColumnError: a sample lacks one of the four; without ``seq_lens`` it is not packed.
        DataError: the batch is empty, the packs have different lengths, or one has not as many labels or positions as
            tokens.
        ConfigError: another ``mask``.

    >>> pack = {"tokens": [5, 6, 7], "labels": [6, -100, -100], "input_pos": [0, 1, 0], "seq_lens": [2, 1]}
    >>> padded_collate_packed([pack])["mask"].int().tolist()
    [[[1, 0, 0], [1, 1, 0], [0, 0, 1]]]
    """
    if not isinstance(mask, str) or mask not in PACKED_MASKS:
        raise ConfigError(
            f"Unknown mask {mask!r}. It is one of {listed(PACKED_MASKS)}.{did_you_mean(mask, PACKED_MASKS)}"
        )
    if isinstance(batch, PackedItems) and batch and (made := batch.stacked()) is not None:
        return _as_read(*made, mask)
    check_batch(batch)
    refuse_media(batch)
    for index, sample in enumerate(batch):
        if "seq_lens" not in sample:
            raise ColumnError(
                f"Sample {index} of the batch has no 'seq_lens', so it is not packed. "
                "Use padded_collate_sft for samples that are not, or wrap the data set in PackedDataset."
            )
    tokens = _stacked(batch, "tokens")
    seq_lens = [torch.as_tensor(lens) for lens in column(batch, "seq_lens")]
    for index, lens in enumerate(seq_lens):
        # A tensor's own sum takes longer than that of the list of a pack's lengths.
        total = sum(lens.tolist()) if lens.ndim == 1 else int(lens.sum())
        if total != tokens.shape[1]:
            raise DataError(
                f"Sample {index} of the batch has {tokens.shape[1]} tokens, but its seq_lens sum to {total}. "
                "They have to be equal: padding is one more document."
            )
    labels, input_pos = _stacked(batch, "labels"), _stacked(batch, "input_pos")
    if not tokens.shape == labels.shape == input_pos.shape:
        raise DataError(
            f"The packs have {tokens.shape[1]} tokens, {labels.shape[1]} labels and {input_pos.shape[1]} positions; "
            "there has to be one of each for every token."
        )
    out: PackedBatch = {
        "tokens": tokens,
        "labels": labels,
        "input_pos": input_pos,
        "mask": PACKED_MASKS[mask](seq_lens),
    }
    if weights := collate_loss_weights(batch):
        out["loss_weights"] = weights["loss_weights"]
    return out


def _as_read(stacks: Mapping[str, torch.Tensor], seq_lens: list[torch.Tensor], mask: PackedMaskKind) -> PackedBatch:
    """The batch of packs that were read together, which fit each other as they are: nothing is copied."""
    out: PackedBatch = {
        "tokens": stacks["tokens"],
        "labels": stacks["labels"],
        "input_pos": stacks["input_pos"],
        "mask": PACKED_MASKS[mask](seq_lens),
    }
    if "loss_weights" in stacks:
        out["loss_weights"] = stacks["loss_weights"]
    return out


def _stacked(batch: Sequence[Mapping[str, Any]], key: str) -> torch.Tensor:
    rows = [torch.as_tensor(row) for row in column(batch, key)]
    if any(row.ndim != 1 or row.dtype.is_floating_point or row.is_complex() for row in rows):
        held = ", ".join(f"{list(row.shape)} of {row.dtype}" for row in rows)
        raise DataError(f"The {key} of a pack are integers in one axis; these are {held}.")
    if len({row.shape for row in rows}) > 1:
        lengths = ", ".join(str(len(row)) for row in rows)
        raise DataError(f"The packs have {lengths} {key}. All packs of a batch come from one max_seq_len.")
    return torch.stack(rows).long()
