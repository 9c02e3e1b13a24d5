"""What a document costs to train on, in integers: linear in its tokens, quadratic in its attention, plus its media."""

from dataclasses import dataclass
from math import gcd
from typing import Protocol

import numpy as np

from torchpipe.errors import ConfigError

_FORWARD_AND_BACKWARD = 3  # the backward pass multiplies twice for each multiplication of the forward pass
_MULTIPLY_ADD = 2


class DecoderSizes(Protocol):
    """The sizes that a decoder's cost follows from; :class:`torchpipe.models.config.DecoderConfig` has them."""

    @property
    def vocab_size(self) -> int:
        """Ids the model knows."""
        ...

    @property
    def num_layers(self) -> int:
        """Transformer layers."""
        ...

    @property
    def num_heads(self) -> int:
        """Query heads of a layer."""
        ...

    @property
    def num_kv_heads(self) -> int:
        """Key/value heads of a layer."""
        ...

    @property
    def embed_dim(self) -> int:
        """Size of a hidden state."""
        ...

    @property
    def intermediate_dim(self) -> int:
        """Width of the feed-forward network, which has three matrices."""
        ...

    @property
    def head_dim(self) -> int | None:
        """Features of a head; None is ``embed_dim / num_heads``."""
        ...


@dataclass(frozen=True, kw_only=True)
class CostModel:
    """Integer cost of documents: ``per_token * n + per_pair * n * (n + 1) / 2 + per_media * media``.

    A document of n tokens has ``n * (n + 1) / 2`` pairs of a query and a key that it may see (causal attention).

    Attributes:
        per_token: cost of a token in everything but attention's two products.
        per_pair: cost of a pair of query and key.
        per_media: cost of a unit of media, such as an image tile.
        unit: floating-point operations that a cost of 1 stands for.

    Raises:
        ConfigError: a coefficient is negative, all are 0, or one is no whole number.

    >>> CostModel(per_token=10, per_pair=2)(np.array([1, 3])).tolist()
    [12, 42]
    """

    per_token: int
    per_pair: int
    per_media: int = 0
    unit: int = 1

    def __post_init__(self) -> None:
        for name in ("per_token", "per_pair", "per_media", "unit"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < (name == "unit"):
                raise ConfigError(f"{name} is {value!r}. Give a whole number{' above 0' if name == 'unit' else ''}.")
        if not self.per_token and not self.per_pair and not self.per_media:
            raise ConfigError("per_token, per_pair and per_media are all 0, so that every document costs nothing.")

    @classmethod
    def of_decoder(cls, sizes: DecoderSizes, *, media_flops: int = 0) -> "CostModel":
        """The cost of training a decoder, in floating-point operations divided by their greatest common divisor.

        A multiplication with a matrix of p parameters takes 2p operations a token, and twice that again in the backward
        pass: 6p in all. Attention's two products take 2 * head_dim operations each for every pair and head. So, per
        layer, with d = embed_dim, a = num_heads * head_dim, k = num_kv_heads * head_dim, f = intermediate_dim::

            per token   6 * (d * a + 2 * d * k + a * d + 3 * d * f)    and 6 * d * vocab_size for the logits, once
            per pair    12 * a

        The rule is that of Kaplan et al. 2020, "Scaling Laws for Neural Language Models" (table 1), with attention
        counted as in Chowdhery et al. 2022, "PaLM" (appendix B: 12 * layers * heads * head_dim * length a token), but
        for the pairs that a causal mask leaves. Norms, rotary embeddings, the softmax and recomputation are left out.

        Args:
            sizes: the decoder's sizes.
            media_flops: operations for a unit of media, forward and backward, such as those of the vision encoder.
        """
        head_dim = sizes.head_dim if sizes.head_dim is not None else sizes.embed_dim // sizes.num_heads
        queries, keys = sizes.num_heads * head_dim, sizes.num_kv_heads * head_dim
        layer = sizes.embed_dim * (2 * queries + 2 * keys + 3 * sizes.intermediate_dim)
        parameters = sizes.num_layers * layer + sizes.embed_dim * sizes.vocab_size
        per_token = _FORWARD_AND_BACKWARD * _MULTIPLY_ADD * parameters
        per_pair = _FORWARD_AND_BACKWARD * 2 * _MULTIPLY_ADD * sizes.num_layers * queries
        unit = gcd(per_token, per_pair, media_flops)
        return cls(per_token=per_token // unit, per_pair=per_pair // unit, per_media=media_flops // unit, unit=unit)

    def __call__(self, lengths: np.ndarray, media: np.ndarray | None = None) -> np.ndarray:
        """The cost of documents: int64, shaped as ``lengths``.

        Args:
            lengths: tokens of each document, integers.
            media: units of media of each.

        Raises:
            ConfigError: a cost is too large for 64 bits.
        """
        longest, most = int(np.max(lengths, initial=0)), 0 if media is None else int(np.max(media, initial=0))
        largest = self.per_token * longest + self.per_pair * (longest * (longest + 1) // 2) + self.per_media * most
        if largest >= 1 << 63:
            raise ConfigError(
                f"A document of {longest} tokens costs {largest}, more than 64 bits hold. Divide the coefficients by a "
                "common number."
            )
        tokens = np.asarray(lengths).astype(np.int64)
        costs = self.per_token * tokens + self.per_pair * (tokens * (tokens + 1) // 2)
        return costs if media is None else costs + self.per_media * np.asarray(media, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class _Sizes:
    vocab_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    embed_dim: int
    intermediate_dim: int
    head_dim: int | None = None


LLAMA3_8B_COST = CostModel.of_decoder(
    _Sizes(vocab_size=128_256, num_layers=32, num_heads=32, num_kv_heads=8, embed_dim=4096, intermediate_dim=14_336)
)
"""The cost of training Llama 3 8B (sizes: https://huggingface.co/meta-llama/Meta-Llama-3-8B/blob/main/config.json)."""
