"""Keys and values of the tokens that a decoder has read, so that it need not read them again for the next one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from torchpipe.errors import ConfigError, DataError


class KVCache(nn.Module):
    """Room for the keys and values of ``max_seq_len`` tokens a row, filled from the front.

    It is no part of the state dict. Values are kept without gradients, in the cache's own type.

    Args:
        batch_size: the most rows.
        max_seq_len: the most tokens of a row.
        num_kv_heads: key/value heads.
        head_dim: features of a head.
        dtype: type of what is kept.

    Raises:
        ConfigError: a size is not positive.

    >>> cache = KVCache(batch_size=2, max_seq_len=16, num_kv_heads=4, head_dim=32, dtype=torch.float32)
    >>> keys, values = cache.update(torch.ones(2, 4, 8, 32), torch.ones(2, 4, 8, 32))
    >>> cache.size, list(keys.shape)
    (8, [2, 4, 16, 32])
    """

    def __init__(self, batch_size: int, max_seq_len: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype) -> None:
        super().__init__()
        shape = (batch_size, num_kv_heads, max_seq_len, head_dim)
        if min(shape) < 1:
            raise ConfigError(
                f"A cache was asked for with batch_size {batch_size}, max_seq_len {max_seq_len}, {num_kv_heads} "
                f"key/value heads and head_dim {head_dim}. Give numbers above 0."
            )
        self.batch_size = batch_size
        self.max_seq_len = max_seq_len
        self.k_cache: torch.Tensor
        self.v_cache: torch.Tensor
        self.register_buffer("k_cache", torch.zeros(shape, dtype=dtype), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape, dtype=dtype), persistent=False)
        self._size = 0
        self._num_rows = batch_size  # of the last update: what the others lack can't be attended to

    @property
    def size(self) -> int:
        """Tokens a row that have been written since the last reset."""
        return self._size

    def reset(self) -> None:
        """Forgets what was written."""
        self.k_cache.zero_()
        self.v_cache.zero_()
        self._size = 0

    @torch.no_grad()
    def update(self, k_val: torch.Tensor, v_val: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Writes the next ``s`` tokens, and returns the cached keys and values of these rows.

        Args:
            k_val: [b, n_kv, s, h_d], for at most ``batch_size`` rows.
            v_val: the same for values.

        Returns:
            Two views [b, n_kv, max_seq_len, h_d]; what lies beyond :attr:`size` on the third axis is zero.

        Raises:
            DataError: there are more rows than the cache has, or than there were the time before; or no room for so
                many tokens.
        """
        num_rows, _, num_tokens, _ = k_val.shape
        if num_rows > self.batch_size:
            raise DataError(
                f"The batch has {num_rows} rows, and the key/value cache was set up for {self.batch_size}. "
                "Give fewer rows, or set caches up with a larger batch_size."
            )
        if self._size and num_rows > self._num_rows:
            raise DataError(
                f"The batch has {num_rows} rows, and the key/value cache holds all tokens so far of {self._num_rows} "
                "of them. Call reset_caches() and give every row from its first token."
            )
        start, stop = self._size, self._size + num_tokens
        if stop > self.max_seq_len:
            raise DataError(
                f"The key/value cache has room for {self.max_seq_len} tokens and holds {start}: {num_tokens} more do "
                "not fit. Set caches up for more tokens, or call reset_caches() before a new text."
            )
        self.k_cache[:num_rows, :, start:stop] = k_val
        self.v_cache[:num_rows, :, start:stop] = v_val
        self._size, self._num_rows = stop, num_rows
        return self.k_cache[:num_rows], self.v_cache[:num_rows]


@contextmanager
def local_kv_cache(
    model: nn.Module,
    *,
    batch_size: int,
    device: torch.device | str,
    dtype: torch.dtype,
    encoder_max_seq_len: int | None = None,
    decoder_max_seq_len: int | None = None,
) -> Iterator[None]:
    """Key/value caches for the time of a ``with`` block; afterwards the model has none.

    Args:
        model: has ``setup_caches`` and ``caches_are_setup``, as a ``TransformerDecoder``.
        batch_size, dtype, encoder_max_seq_len, decoder_max_seq_len: see ``TransformerDecoder.setup_caches``.
        device: where the caches are made; that of the model.

    Raises:
        ConfigError: the model has caches already.
    """
    if _decoder(model).caches_are_setup():
        raise ConfigError("The model has key/value caches already. Call delete_kv_caches(model) first.")
    with own_kv_caches(
        model,
        batch_size=batch_size,
        device=device,
        dtype=dtype,
        encoder_max_seq_len=encoder_max_seq_len,
        decoder_max_seq_len=decoder_max_seq_len,
    ):
        yield


@contextmanager
def own_kv_caches(model: nn.Module, *, device: torch.device | str, **options: Any) -> Iterator[None]:
    """Caches for the time of a ``with`` block, in place of those that the model may have, which come back untouched.

    Args:
        model: has ``setup_caches``.
        device: where the caches are made.
        options: those of ``TransformerDecoder.setup_caches``.
    """
    before = [(module, module.kv_cache, module.cache_enabled) for module in _with_caches(model)]
    _remove(model)
    try:
        with torch.device(device):
            _decoder(model).setup_caches(**options)
        yield
    finally:
        for module, kv_cache, cache_enabled in before:
            module.kv_cache, module.cache_enabled = kv_cache, cache_enabled


@contextmanager
def disable_kv_cache(model: nn.Module) -> Iterator[None]:
    """Calls in a ``with`` block neither read nor write the model's caches, which stay as they are.

    Raises:
        ConfigError: the model has no caches.
    """
    if not _decoder(model).caches_are_setup():
        raise ConfigError("The model has no key/value caches. Call model.setup_caches() first.")
    before = [(module, module.cache_enabled) for module in _with_caches(model)]
    for module, _ in before:
        module.cache_enabled = False
    try:
        yield
    finally:
        for module, cache_enabled in before:
            module.cache_enabled = cache_enabled


def delete_kv_caches(model: nn.Module) -> None:
    """Takes the caches out of a model, and frees their memory.

    Raises:
        ConfigError: the model has no caches.
    """
    if not _decoder(model).caches_are_setup():
        raise ConfigError("The model has no key/value caches to delete. model.setup_caches() makes them.")
    _remove(model)


def _remove(model: nn.Module) -> None:
    for module in _with_caches(model):
        module.kv_cache, module.cache_enabled = None, False


def _with_caches(model: nn.Module) -> list[Any]:
    """The modules that can have a cache."""
    return [module for module in model.modules() if hasattr(module, "cache_enabled")]


def _decoder(model: nn.Module) -> Any:
    """The model, as what it is used for."""
    if not hasattr(model, "setup_caches") or not hasattr(model, "caches_are_setup"):
        raise ConfigError(f"{type(model).__name__} has no setup_caches(). Give a TransformerDecoder.")
    return model
