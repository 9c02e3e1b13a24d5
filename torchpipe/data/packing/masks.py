"""Attention masks of packed rows, all made from ``seq_lens``: the lengths of a row's documents, in order.

A token attends to its own document, up to itself. Three forms say so: document ids, the dense mask, and
:class:`PackedMask`, which needs memory for the documents alone. Padding at a row's end is one more document.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from numbers import Integral
from typing import Any, Literal

import torch

from torchpipe.errors import DataError

PackedMaskKind = Literal["dense", "ids", "varlen"]
"""How a packed batch says which tokens belong together. ``dense``: bool [b, s, s]; ``ids``: a :class:`PackedMask` with
each token's document; ``varlen``: a :class:`PackedMask` of the documents' offsets alone."""


@dataclass(frozen=True, eq=False)
class PackedMask:
    """Block-causal documents of a packed batch, described by their offsets in the flattened ``[b * s]`` tokens.

    Build one with :func:`varlen_mask` or :func:`ids_mask`. Documents never cross a row, so a batch is simply its rows
    one after another. What a kernel needs is made of it where the tokens are, by the attention layer.

    Attributes:
        cu_seqlens: int32 [d + 1], where each document starts, then the number of tokens.
        max_seqlen: tokens in the longest document.
        lens: the documents' lengths as Python integers, so that a loop over them never waits for a device.
        document_ids: int32 [b, s], which document of its row each token belongs to, from :func:`ids_mask`; None
            otherwise. Attention on CUDA then takes flex attention in place of the kernel for offsets.
    """

    cu_seqlens: torch.Tensor
    max_seqlen: int
    lens: tuple[int, ...]
    document_ids: torch.Tensor | None = None

    def to(self, device: torch.device | str, non_blocking: bool = False) -> "PackedMask":
        """The same mask with its tensors on ``device``."""
        return self._with(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> "PackedMask":
        """The same mask with its tensors in page-locked memory, as a ``DataLoader`` with ``pin_memory`` asks for."""
        return self._with(torch.Tensor.pin_memory)

    def _with(self, moved: Callable[[torch.Tensor], torch.Tensor]) -> "PackedMask":
        ids = None if self.document_ids is None else moved(self.document_ids)
        return PackedMask(moved(self.cu_seqlens), self.max_seqlen, self.lens, ids)


def document_ids(seq_lens: Sequence[torch.Tensor]) -> torch.Tensor:
    """Which document each token belongs to: int64 [b, s], counted from 0 in each row.

    Args:
        seq_lens: one integer tensor [d] a row; every row sums to the same s.

    Raises:
        DataError: there are no rows, a length is negative, or the rows sum differently.

    >>> document_ids([torch.tensor([2, 3]), torch.tensor([4, 1])]).tolist()
    [[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]
    """
    lens_of_rows = _checked_lens(seq_lens)
    return torch.stack([torch.repeat_interleave(torch.tensor(lens, dtype=torch.int64)) for lens in lens_of_rows])


def dense_block_causal_mask(seq_lens: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mask as bool [b, s, s], True where the query (second axis) may attend to the key (third axis).

    Its memory grows with ``s * s``; prefer :func:`varlen_mask` where the model accepts it. ::

        seq_lens [2, 3]     1 . . . .
                            1 1 . . .
                            . . 1 . .
                            . . 1 1 .
                            . . 1 1 1

    Args:
        seq_lens: one integer tensor [d] a row; every row sums to the same s.

    Raises:
        DataError: there are no rows, a length is negative, or the rows sum differently.

    >>> dense_block_causal_mask([torch.tensor([1, 2])]).int().tolist()
    [[[1, 0, 0], [0, 1, 0], [0, 1, 1]]]
    """
    ids = document_ids(seq_lens)
    return (ids.unsqueeze(2) == ids.unsqueeze(1)).tril_()


def varlen_mask(seq_lens: Sequence[torch.Tensor]) -> PackedMask:
    """The mask as offsets: documents in order, row by row, those of no tokens left out.

    Args:
        seq_lens: one integer tensor [d] a row; every row sums to the same s.

    Raises:
        DataError: there are no rows, a length is negative, or the rows sum differently.

    >>> mask = varlen_mask([torch.tensor([2, 3]), torch.tensor([5, 0])])
    >>> mask.cu_seqlens.tolist(), mask.max_seqlen, mask.lens
    ([0, 2, 5, 10], 5, (2, 3, 5))
    """
    lens = tuple(length for row in _checked_lens(seq_lens) for length in row if length > 0)
    offsets = torch.tensor([0, *accumulate(lens)], dtype=torch.int32)
    return PackedMask(cu_seqlens=offsets, max_seqlen=max(lens, default=0), lens=lens)


def ids_mask(seq_lens: Sequence[torch.Tensor]) -> PackedMask:
    """The mask as offsets and document ids: int32 [b, s], for attention that asks for each token's document.

    Args:
        seq_lens: one integer tensor [d] a row; every row sums to the same s.

    Raises:
        DataError: there are no rows, a length is negative, or the rows sum differently.

    >>> ids_mask([torch.tensor([2, 3])]).document_ids.tolist()
    [[0, 0, 1, 1, 1]]
    """
    return replace(varlen_mask(seq_lens), document_ids=document_ids(seq_lens).int())


PACKED_MASKS: dict[PackedMaskKind, Callable[[Sequence[torch.Tensor]], torch.Tensor | PackedMask]] = {
    "dense": dense_block_causal_mask,
    "ids": ids_mask,
    "varlen": varlen_mask,
}
"""What makes a batch's mask of each kind from its ``seq_lens``."""


def _checked_lens(seq_lens: Sequence[torch.Tensor]) -> list[list[int]]:
    """The lengths as integers, once they describe rows of one length."""
    if len(seq_lens) == 0:
        raise DataError("seq_lens has no rows. Give one tensor of document lengths for each row of the batch.")
    lens_of_rows = [_as_lens(lens, row) for row, lens in enumerate(seq_lens)]
    row_lens = [sum(lens) for lens in lens_of_rows]
    for row, lens in enumerate(lens_of_rows):
        if any(length < 0 for length in lens):
            raise DataError(f"Row {row}: seq_lens is {lens}, with a negative length. Give lengths of 0 or more.")
        if row_lens[row] != row_lens[0]:
            raise DataError(
                f"Row {row}: seq_lens sums to {row_lens[row]}, but row 0 sums to {row_lens[0]}. All rows of a batch "
                "have one length: add the padding as one more document."
            )
    return lens_of_rows


def _as_lens(lens: Any, row: int) -> list[int]:
    if isinstance(lens, torch.Tensor) and lens.dtype == torch.int64 and lens.ndim == 1:
        return lens.tolist()  # nothing else is in it
    values: Any = lens.tolist() if hasattr(lens, "tolist") else lens
    if not isinstance(values, list | tuple) or not all(isinstance(length, Integral) for length in values):
        raise DataError(
            f"Row {row}: seq_lens is {lens!r}. It must be a tensor of one axis that holds the documents' lengths, "
            "whole numbers."
        )
    return [int(length) for length in values]
