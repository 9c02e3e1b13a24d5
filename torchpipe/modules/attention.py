"""Attention over one sequence or two, with grouped key/value heads and packed documents."""

from typing import TYPE_CHECKING, Union

import torch
from torch import nn

from torchpipe.data.packing.masks import PackedMask
from torchpipe.errors import ConfigError, DataError
from torchpipe.modules.kv_cache import KVCache
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
        q_proj: from embed_dim to num_heads * head_dim. Projections are only called, so any module will do.
        k_proj: from embed_dim to num_kv_heads * head_dim.
        v_proj: from embed_dim to num_kv_heads * head_dim.
        output_proj: from num_heads * head_dim to embed_dim.
        pos_embeddings: called with [b, s, heads, head_dim] and ``input_pos``; applied to queries and keys.
        q_norm: normalises each query head after the positions are applied.
        k_norm: the same for keys; both norms or none.
        kv_cache: keeps keys and values between calls in eval mode; see :meth:`setup_cache`.
        max_seq_len: tokens of the longest sequence.
        is_causal: whether a token sees only earlier ones when no mask is given. A mask replaces it.
        attn_dropout: probability of dropping an attention weight in training.

    Attributes:
        cache_enabled: whether a call appends to ``kv_cache`` and attends to all that is in it.

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
        kv_cache: KVCache | None = None,
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
        self.kv_cache = kv_cache
        self.cache_enabled = kv_cache is not None

    def setup_cache(self, batch_size: int, dtype: torch.dtype, max_seq_len: int) -> None:
        """Makes a cache for so many rows and tokens, where the projections are. One of the same sizes stays as it is.

        Raises:
            ConfigError: there is a cache of other sizes.
        """
        if self.kv_cache is None:
            tensor = next((one for one in (*self.parameters(), *self.buffers())), None)
            with torch.device(torch.get_default_device() if tensor is None else tensor.device):
                self.kv_cache = KVCache(batch_size, max_seq_len, self.num_kv_heads, self.head_dim, dtype)
            self.cache_enabled = True
        elif self.kv_cache.k_cache.shape[::2] != (batch_size, max_seq_len) or self.kv_cache.k_cache.dtype != dtype:
            kept = self.kv_cache.k_cache
            raise ConfigError(
                f"There is a key/value cache for {kept.shape[0]} rows of {kept.shape[2]} tokens in {kept.dtype}, and "
                f"one for {batch_size} rows of {max_seq_len} in {dtype} was asked for. Call delete_kv_caches(model) "
                "first."
            )

    def reset_cache(self) -> None:
        """Forgets what the cache holds.

        Raises:
            ConfigError: there is no cache.
        """
        if self.kv_cache is None:
            raise ConfigError("There is no key/value cache to reset. Call setup_caches() first.")
        self.kv_cache.reset()

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
                ``BlockMask`` goes to flex attention, which drops no weights. With a cache, the keys are all cached
                ones, these included: bool [b, s, cached tokens], or [b, s, the cache's max_seq_len].
            input_pos: int64 [b, s], each token's position in its document; None counts along the row, with a cache on
                from what it holds.

        Raises:
            DataError: the mask has another type or does not describe these tokens, or the cache is too small.
            ConfigError: attention dropout under a ``BlockMask``, or a cache in training mode.
        """
        cache = self.kv_cache if self.cache_enabled else None
        if cache is not None and input_pos is None:
            input_pos = torch.arange(cache.size, cache.size + x.shape[1], device=x.device).unsqueeze(0)
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
        if cache is not None:
            attended = self._attend_to_cache(q, k, v, mask, cache)
        elif isinstance(mask, PackedMask):
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

    def _attend_to_cache(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: AttentionMask | None, cache: KVCache
    ) -> torch.Tensor:
        """Attention to what the cache holds once ``k`` and ``v`` are in it; shapes as in :func:`_attend_rows`."""
        if self.training:
            raise ConfigError(
                "The model has key/value caches and is in training mode. Call model.eval(), or delete_kv_caches(model)."
            )
        if mask is not None and not isinstance(mask, torch.Tensor):
            raise DataError(
                f"The attention mask is a {type(mask).__name__}, and with key/value caches it must be None or a bool "
                "tensor. Read packed rows within disable_kv_cache(model)."
            )
        num_before, num_keys = cache.size, cache.size + k.shape[1]
        if mask is not None:
            if mask.shape[-1] == cache.max_seq_len:
                mask = mask[..., :num_keys]
            _check_mask(mask, q.shape[0], q.shape[1], num_keys)  # before anything is written
        elif self.is_causal and num_before and q.shape[1] > 1:
            # The first of these queries sees what was there before, and itself.
            allowed = torch.ones(q.shape[1], num_keys, dtype=torch.bool, device=q.device).tril_(num_before)
            mask = allowed.expand(q.shape[0], -1, -1)
        cached = cache.update(k.transpose(1, 2), v.transpose(1, 2))
        k, v = (kept[:, :, :num_keys].transpose(1, 2).type_as(q) for kept in cached)
        return _attend_rows(q, k, v, mask, 0.0, is_causal=self.is_causal and not num_before)


def _attend_rows(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, dropout: float, *, is_causal: bool
) -> torch.Tensor:
    """Attention of whole rows: q [b, s, n_h, h_d], k and v [b, s_y, n_kv, h_d]; the result has q's shape."""
    if mask is not None:
        _check_mask(mask, q.shape[0], q.shape[1], k.shape[1])
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


def _check_mask(mask: torch.Tensor, num_rows: int, num_queries: int, num_keys: int) -> None:
    if mask.dtype != torch.bool or mask.shape != (num_rows, num_queries, num_keys):
        raise DataError(
            f"The attention mask is {mask.dtype} {list(mask.shape)}. Give torch.bool "
            f"{[num_rows, num_queries, num_keys]}, True where a query may attend to a key."
        )
