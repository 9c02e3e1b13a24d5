"""Flex attention's block masks of packed documents, made from document ids without a mask of ``s * s`` values."""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import torch

from torchpipe.data.packing.masks import PackedMask

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

BLOCK_SIZE = 128
"""Tokens of a block, flex attention's default."""


def block_mask(document_ids: torch.Tensor) -> "BlockMask":
    """The block mask [b, 1, s, s] in which a token attends to its own document, up to itself.

    Documents are runs of equal ids, so the first and the last token of a block say which documents it holds. Only the
    blocks are compared with each other: ``(s / 128) ** 2`` values a row. ::

        blocks of keys       0  1  2  3
        queries of block 2   .  p  p       0: an earlier document; p: in part, the mask decides token by token
        queries of block 3   .  p  f  p    f: both blocks are one document, all may be attended to

    Args:
        document_ids: integers [b, s], not decreasing along a row, on the device that attends.
    """
    from torch.nn.attention.flex_attention import BlockMask  # brings the compiler with it: about a second

    row_len = document_ids.shape[1]
    num_blocks = -(-row_len // BLOCK_SIZE)
    starts = torch.arange(num_blocks, device=document_ids.device) * BLOCK_SIZE
    first = document_ids[:, starts]
    last = document_ids[:, (starts + BLOCK_SIZE - 1).clamp(max=row_len - 1)]
    before = starts.unsqueeze(0) < starts.unsqueeze(1)  # [queries, keys]
    # Keys come before the queries, so their documents do too: the two blocks share one if the keys' last is there.
    shared = (last.unsqueeze(1) >= first.unsqueeze(2)) & (before | torch.eye(num_blocks, device=starts.device).bool())
    full = (first.unsqueeze(1) == last.unsqueeze(2)) & before

    def may_attend(b: torch.Tensor, h: torch.Tensor, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (query >= key) & (document_ids[b, query] == document_ids[b, key])

    return BlockMask.from_kv_blocks(
        *_listed(shared & ~full),
        *_listed(full),
        BLOCK_SIZE=BLOCK_SIZE,
        mask_mod=may_attend,
        seq_lengths=(row_len, row_len),
    )


_BLOCK_MASKS: "WeakKeyDictionary[PackedMask, BlockMask]" = WeakKeyDictionary()


def block_mask_of(mask: PackedMask, shape: tuple[int, int]) -> "BlockMask":
    """The block mask of a batch [b, s]; made once for all layers, on the device of the mask.

    Offsets alone don't say where rows end, so a mask without document ids is that of one row of all ``b * s`` tokens.
    """
    if mask not in _BLOCK_MASKS:
        ids = mask.document_ids
        if ids is None:
            lens = mask.cu_seqlens.diff()
            ids = torch.repeat_interleave(lens, output_size=shape[0] * shape[1]).unsqueeze(0)
        _BLOCK_MASKS[mask] = block_mask(ids)
    return _BLOCK_MASKS[mask]


def _listed(chosen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How many blocks of keys each block of queries chose, int32 [b, 1, blocks], and which, the chosen ones first."""
    places = torch.argsort(chosen.int(), dim=-1, descending=True, stable=True)
    return chosen.sum(-1).int().unsqueeze(1), places.int().unsqueeze(1).contiguous()
