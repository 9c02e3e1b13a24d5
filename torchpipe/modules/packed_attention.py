"""Causal attention within each document of a packed batch, with the fastest kernel that the tokens' device has."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from torchpipe.data.packing.masks import PackedMask
from torchpipe.errors import DataError
from torchpipe.modules.attention_utils import flex_is_supported
from torchpipe.modules.block_masks import block_mask_of

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


def attend_documents(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: PackedMask, dropout: float = 0.0
) -> torch.Tensor:
    """The attended vectors, as ``q``: each token attends to its own document, up to itself.

    On CUDA one kernel attends to all documents: torch's for offsets (half precision; a mask of document ids asks for
    the other), or flex attention. Elsewhere, and with dropout, each document is one causal call.

    Args:
        q: [b, s, num_heads, head_dim].
        k, v: [b, s, num_kv_heads, head_dim].
        mask: the documents of the ``b * s`` tokens.
        dropout: probability of dropping an attention weight.

    Raises:
        DataError: the mask does not describe these tokens.
    """
    if sum(mask.lens) != q.shape[0] * q.shape[1] or k.shape[:2] != q.shape[:2]:
        raise DataError(
            f"The mask's documents have {sum(mask.lens)} tokens, the queries are {list(q.shape[:2])} and the keys "
            f"{list(k.shape[:2])}. Attend within one batch, and build the mask from that batch's seq_lens."
        )
    if q.is_cuda and dropout == 0.0:
        half = q.dtype in (torch.float16, torch.bfloat16)
        if half and mask.document_ids is None and varlen_kernel() is not None:
            return attend_by_offsets(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), mask).view_as(q)
        if flex_is_supported():
            return attend_by_blocks(q, k, v, mask)
    return attend_by_loop(q, k, v, mask, dropout)


def attend_by_loop(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: PackedMask, dropout: float = 0.0
) -> torch.Tensor:
    """The same with one causal call a document, on any device."""
    flat_q, flat_k, flat_v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    enable_gqa = q.shape[2] != k.shape[2]
    # Splitting and transposing are views, so nothing is copied but the results.
    attended = [
        nn.functional.scaled_dot_product_attention(
            doc_q.transpose(0, 1).unsqueeze(0),
            doc_k.transpose(0, 1).unsqueeze(0),
            doc_v.transpose(0, 1).unsqueeze(0),
            dropout_p=dropout,
            is_causal=True,
            enable_gqa=enable_gqa,
        )
        .squeeze(0)
        .transpose(0, 1)
        for doc_q, doc_k, doc_v in zip(
            flat_q.split(mask.lens), flat_k.split(mask.lens), flat_v.split(mask.lens), strict=True
        )
    ]
    return torch.cat(attended).view_as(q)


def attend_by_offsets(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: PackedMask) -> torch.Tensor:
    """The same on flattened tokens [t, heads, h_d] in one kernel, which needs CUDA and a half-precision type."""
    kernel = varlen_kernel()
    assert kernel is not None
    offsets, longest = mask.cu_seqlens, mask.max_seqlen
    # A window of everything before and nothing after is causal.
    return kernel(q, k, v, offsets, offsets, longest, longest, window_size=(-1, 0), enable_gqa=q.shape[1] != k.shape[1])


def attend_by_blocks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: PackedMask) -> torch.Tensor:
    """The same with flex attention, compiled on CUDA."""
    blocks = block_mask_of(mask, (q.shape[0], q.shape[1]))
    if mask.document_ids is not None:
        return attend_to_blocks(q, k, v, blocks)
    q_row, k_row, v_row = (tensor.flatten(0, 1).unsqueeze(0) for tensor in (q, k, v))
    return attend_to_blocks(q_row, k_row, v_row, blocks).reshape_as(q)


def attend_to_blocks(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: "BlockMask") -> torch.Tensor:
    """Flex attention under a block mask: q [b, s, n_h, h_d], k and v [b, s_y, n_kv, h_d]; the result is as q."""
    attend = compiled_flex_attention() if q.is_cuda else _flex_attention()
    attended = attend(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        block_mask=blocks,
        enable_gqa=q.shape[2] != k.shape[2],
    )
    return attended.transpose(1, 2)


def _flex_attention() -> Callable[..., Any]:
    from torch.nn.attention.flex_attention import flex_attention  # brings the compiler with it: about a second

    return flex_attention


@cache
def compiled_flex_attention() -> Callable[..., Any]:
    """Flex attention as one kernel; uncompiled, it would hold all scores."""
    return torch.compile(_flex_attention())


@cache
def varlen_kernel() -> Callable[..., torch.Tensor] | None:
    """torch's attention over documents, or None where this torch has none with the signature used here.

    Imported on first use, for it brings the compiler with it: more than a second.
    """
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # torch before 2.10
        return None
    known = inspect.signature(varlen_attn).parameters
    return varlen_attn if "window_size" in known and "enable_gqa" in known else None  # pyright: ignore[reportReturnType]
