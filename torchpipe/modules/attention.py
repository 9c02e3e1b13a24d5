"""Attention over one sequence or two, with grouped key/value heads and packed documents."""

from typing import TYPE_CHECKING, Union

import torch
from torch import nn

from torchpipe.data.packing.masks import PackedMask
from torchpipe.errors import ConfigError, DataError
from torchpipe.modules.packed_attention import attend_documents, attend_to_blocks

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

AttentionMask = Union[torch.Tensor, PackedMask, "BlockMask"]
"""Bool [b, s, s], True where a query may attend to a key; the documents of a packed batch; or flex attention's own."""


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
                :class:`PackedMask` is causal within each document, and costs memory and time for documents alone. A
                ``BlockMask`` goes to flex attention, which drops no weights.
            input_pos: int64 [b, s], each token's position in its document; None counts along the row.

        Raises:
            DataError: the mask has another type or does not describe these tokens.
            ConfigError: attention dropout under a ``BlockMask``.
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
            attended = attend_documents(q, k, v, mask, dropout)
        elif mask is None or isinstance(mask, torch.Tensor):
            attended = _attend_rows(q, k, v, mask, dropout, is_causal=self.is_causal)
        elif dropout:
            raise ConfigError(
                f"attn_dropout is {dropout}, and flex attention drops no weights. Set it to 0, or give another mask."
            )
        else:
            attended = attend_to_blocks(q, k, v, mask)
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
