"""Attention over one sequence or two, with grouped key/value heads and packed documents."""

import inspect
from collections.abc import Callable
from functools import cache

import torch
from torch import nn

from torchpipe.data.packing.masks import PackedMask
from torchpipe.errors import ConfigError, DataError

AttentionMask = torch.Tensor | PackedMask
"""Bool [b, s, s], True where a query may attend to a key; or the offsets of block-causal documents."""


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in which groups of query heads share a key/value head.

    Grouped heads: Ainslie and others, "GQA", 2023 (https://arxiv.org/abs/2305.13245). With ``num_kv_heads`` equal to
    ``num_heads`` this is plain multi-head attention, with 1 it is multi-query attention.

    Args:
        embed_dim: size of the input and output vectors.
        num_heads: query heads.
        num_kv_heads: key/value heads; divides ``num_heads``.
        head_dim: features of a head.
        q_proj: from embed_dim to num_heads * head_dim.
        k_proj: from embed_dim to num_kv_heads * head_dim.
        v_proj: from embed_dim to num_kv_heads * head_dim.
        output_proj: from num_heads * head_dim to embed_dim.
        pos_embeddings: called with [b, s, heads, head_dim] and ``input_pos``; applied to queries and keys.
        q_norm: normalises each query head after the positions are applied.
        k_norm: the same for keys; both norms or none.
        max_seq_len: tokens of the longest sequence.
        is_causal: whether a token sees only earlier ones when no mask is given. A mask replaces it.
        attn_dropout: probability of dropping an attention weight in training.

    Raises:
        ConfigError: sizes that don't divide, a dropout outside [0, 1], or one norm without the other.
    """

    def __init__(
        self,
        *,
        embed_dim: int,
        num_heads: int,
        num_kv_heads: int,
        head_dim: int,
        q_proj: nn.Module,
        k_proj: nn.Module,
        v_proj: nn.Module,
        output_proj: nn.Module,
        pos_embeddings: nn.Module | None = None,
        q_norm: nn.Module | None = None,
        k_norm: nn.Module | None = None,
        max_seq_len: int = 4096,
        is_causal: bool = True,
        attn_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if num_heads % num_kv_heads:
            raise ConfigError(
                f"num_heads is {num_heads} and num_kv_heads is {num_kv_heads}. Query heads share key/value heads in "
                "equal groups: num_kv_heads must divide num_heads."
            )
        if not 0.0 <= attn_dropout <= 1.0:
            raise ConfigError(f"attn_dropout is {attn_dropout}. Give a probability between 0 and 1.")
        if (q_norm is None) != (k_norm is None):
            raise ConfigError("One of q_norm and k_norm was given. Give both or neither.")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        self.head_dim = head_dim
        self.max_seq_len = max_seq_len
        self.is_causal = is_causal
        self.attn_dropout = attn_dropout
        self.q_proj = q_proj
        self.k_proj = k_proj
        self.v_proj = v_proj
        self.output_proj = output_proj
        self.pos_embeddings = pos_embeddings
        self.q_norm = q_norm
        self.k_norm = k_norm

    def forward(
        self,
        x: torch.Tensor,
        y: torch.Tensor | None = None,
        *,
        mask: AttentionMask | None = None,
        input_pos: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The attended vectors [b, s, embed_dim].

        Args:
            x: [b, s, embed_dim], what asks.
            y: [b, s_y, embed_dim], what is attended to; ``x`` itself when None.
            mask: None uses ``is_causal``. A bool [b, s, s_y] is True where a query may attend to a key. A
                :class:`PackedMask` is causal within each document, and costs memory and time for documents alone.
            input_pos: int64 [b, s], each token's position in its document; None counts along the row.

        Raises:
            DataError: the mask has another type or does not describe these tokens.
        """
        y = x if y is None else y
        q = self.q_proj(x).unflatten(-1, (self.num_heads, self.head_dim))
        k = self.k_proj(y).unflatten(-1, (self.num_kv_heads, self.head_dim))
        v = self.v_proj(y).unflatten(-1, (self.num_kv_heads, self.head_dim))
        if self.pos_embeddings is not None:
            q = self.pos_embeddings(q, input_pos=input_pos)
            k = self.pos_embeddings(k, input_pos=input_pos)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        dropout = self.attn_dropout if self.training else 0.0
        if isinstance(mask, PackedMask):
            attended = _attend_documents(q, k, v, mask, dropout)
        else:
            attended = _attend_rows(q, k, v, mask, dropout, is_causal=self.is_causal)
        return self.output_proj(attended.flatten(2))


def _attend_rows(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, dropout: float, *, is_causal: bool
) -> torch.Tensor:
    """Attention of whole rows: q [b, s, n_h, h_d], k and v [b, s_y, n_kv, h_d]; the result has q's shape."""
    if mask is not None:
        if mask.dtype != torch.bool or mask.shape != (q.shape[0], q.shape[1], k.shape[1]):
            raise DataError(
                f"The attention mask is {mask.dtype} {list(mask.shape)}. Give torch.bool "
                f"{[q.shape[0], q.shape[1], k.shape[1]]}, True where a query may attend to a key."
            )
        mask = mask.unsqueeze(1)
    attended = nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=is_causal and mask is None,
        enable_gqa=q.shape[2] != k.shape[2],
    )
    return attended.transpose(1, 2)


def _attend_documents(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: PackedMask, dropout: float
) -> torch.Tensor:
    """Causal attention within each document: q [b, s, n_h, h_d], k and v [b, s, n_kv, h_d]; the result is as q."""
    if sum(mask.lens) != q.shape[0] * q.shape[1] or k.shape[:2] != q.shape[:2]:
        raise DataError(
            f"The mask's documents have {sum(mask.lens)} tokens, the queries are {list(q.shape[:2])} and the keys "
            f"{list(k.shape[:2])}. Attend within one batch, and build the mask from that batch's seq_lens."
        )
    flat_q, flat_k, flat_v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
    if q.is_cuda and q.dtype in (torch.float16, torch.bfloat16) and dropout == 0.0 and _varlen_kernel() is not None:
        return _attend_flat(flat_q, flat_k, flat_v, mask).view_as(q)
    enable_gqa = q.shape[2] != k.shape[2]
    # One causal call a document. Splitting and transposing are views, so nothing is copied but the results.
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


def _attend_flat(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: PackedMask) -> torch.Tensor:
    """The same on flattened tokens [t, heads, h_d] in one kernel, which needs CUDA and a half-precision type."""
    kernel = _varlen_kernel()
    assert kernel is not None
    offsets, longest = mask.cu_seqlens, mask.max_seqlen
    # A window of everything before and nothing after is causal.
    return kernel(q, k, v, offsets, offsets, longest, longest, window_size=(-1, 0), enable_gqa=q.shape[1] != k.shape[1])


@cache
def _varlen_kernel() -> Callable[..., torch.Tensor] | None:
    """torch's attention over documents, or None where this torch has none with the signature used here.

    Imported on first use, for it brings the compiler with it: more than a second.
    """
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:  # torch before 2.10
        return None
    known = inspect.signature(varlen_attn).parameters
    return varlen_attn if "window_size" in known and "enable_gqa" in known else None  # pyright: ignore[reportReturnType]
