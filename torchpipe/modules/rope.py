"""Rotary position embeddings: each pair of a head's features is turned by an angle that grows with the position."""

import math
from collections.abc import Callable

import torch
from torch import nn

from torchpipe.errors import ConfigError, DataError


class RotaryPositionalEmbeddings(nn.Module):
    """Rotates neighbouring pairs of features, so that attention scores depend on the distance of two positions.

    Features ``2i`` and ``2i + 1`` are turned by ``position * base ** (-2i / dim)``, in float32. Formula: Su and others,
    "RoFormer", 2021 (https://arxiv.org/abs/2104.09864), equation 34.

    The angles' cosines and sines are cached for every position below ``max_seq_len``. The cache is not part of the
    state dict, stays float32 when the model changes type, and is rebuilt when the module changes device.

    Args:
        dim: features of a head; even.
        max_seq_len: positions that are cached; larger ones are refused.
        base: sets the slowest rotation.

    Raises:
        ConfigError: ``dim`` is odd.
    """

    def __init__(self, dim: int, max_seq_len: int = 4096, base: float = 10_000) -> None:
        super().__init__()
        if dim % 2:
            raise ConfigError(f"Rotary embeddings turn pairs of features, and dim is {dim}. Give an even dim.")
        self.dim = dim
        self.max_seq_len = max_seq_len
        self.base = base
        self.cache: torch.Tensor
        self.register_buffer("cache", self._cosines_and_sines(None), persistent=False)

    def rope_init(self) -> None:
        """Computes the cache again where it is; a cache on meta, on torch's current device.

        Loading weights into a model built on meta needs no call: ``to_empty`` and the first use compute the cache too.
        """
        self.cache = self._cosines_and_sines(None if self.cache.is_meta else self.cache.device)

    def forward(self, x: torch.Tensor, *, input_pos: torch.Tensor | None = None) -> torch.Tensor:
        """The rotated features, in the shape and type of ``x``.

        Args:
            x: [b, s, n_h, h_d], the queries or keys of n_h heads.
            input_pos: int64 [b, s], each token's position in its document, or [1, s] where it is that of every row;
                None counts 0, 1, 2, ... along s.

        Raises:
            DataError: ``input_pos`` has another shape; or a position is negative, or ``max_seq_len`` or more (found on
                the CPU; a CUDA device stops with its own index assertion).
        """
        if self.cache.is_meta and not x.is_meta:  # weights took the place of meta ones by assignment
            self.cache = self._cosines_and_sines(x.device)
        if input_pos is None:
            if x.shape[1] > self.max_seq_len:
                raise DataError(self._too_far(x.shape[1] - 1))
            cache = self.cache[: x.shape[1]].unsqueeze(0)
        else:
            if input_pos.shape != x.shape[:2] and input_pos.shape != (1, x.shape[1]):
                raise DataError(
                    f"input_pos has the shape {list(input_pos.shape)}, and there are {x.shape[0]} rows of {x.shape[1]} "
                    f"tokens. Give {list(x.shape[:2])}."
                )
            # A compiled model has no look at values; a negative one would count from the end.
            looks = input_pos.device.type == "cpu" and not torch.compiler.is_compiling()
            if input_pos.is_floating_point() or (looks and int(input_pos.min()) < 0):
                raise DataError("input_pos holds a position that is negative or no integer. Count positions from 0.")
            try:
                cache = self.cache[input_pos]
            except IndexError:
                raise DataError(self._too_far(int(input_pos.max()))) from None
        # Multiplying complex numbers is the rotation, and several times faster on a CPU than four real products.
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        rotated = pairs * torch.view_as_complex(cache).unsqueeze(2)
        return torch.view_as_real(rotated).flatten(3).type_as(x)

    def _frequencies(self, device: torch.device | None) -> torch.Tensor:
        """Radians a position adds to each pair, float32 [dim / 2]."""
        exponents = torch.arange(0, self.dim, 2, dtype=torch.float32, device=device) / self.dim
        return 1.0 / self.base**exponents

    def _cosines_and_sines(self, device: torch.device | None) -> torch.Tensor:
        """Float32 [max_seq_len, dim / 2, 2]."""
        positions = torch.arange(self.max_seq_len, dtype=torch.float32, device=device)
        angles = torch.outer(positions, self._frequencies(device))
        return torch.stack([angles.cos(), angles.sin()], dim=-1)

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> "RotaryPositionalEmbeddings":
        # The cache follows the device alone. A change of type would blur it, and to_empty would fill it with noise,
        # once for every layer that shares this module.
        device = fn(self.cache.new_empty(0)).device
        if device != self.cache.device:
            self.cache = self._cosines_and_sines(device)
        return self

    def _too_far(self, position: int) -> str:
        return (
            f"Position {position} is beyond the rotary embeddings, which know positions below {self.max_seq_len}. "
            "Raise the model's max_seq_len, or use shorter sequences."
        )


class Llama3ScaledRoPE(RotaryPositionalEmbeddings):
    """Rotary embeddings whose slow rotations are slowed further, for a context longer than the one first trained on.

    A pair that turns often within the old context keeps its frequency, one that turns less than
    ``low_freq_factor`` times has it divided by ``scale_factor``, and those between are blended linearly. Source:
    ``apply_scaling`` in https://github.com/meta-llama/llama-models/blob/main/models/llama3/model.py.

    Args:
        dim: features of a head; even.
        max_seq_len: positions that are cached; larger ones are refused.
        base: sets the slowest rotation before scaling; 500,000 in every Llama of this kind.
        scale_factor: what low frequencies are divided by.
        low_freq_factor: turns within the old context up to which a frequency is low.
        high_freq_factor: turns within the old context from which a frequency is kept.
        old_context_len: tokens of the context first trained on.

    Raises:
        ConfigError: ``dim`` is odd, or the factors leave no room between low and high.
    """

    def __init__(
        self,
        dim: int,
        max_seq_len: int = 4096,
        base: float = 10_000,
        scale_factor: float = 8.0,
        low_freq_factor: float = 1.0,
        high_freq_factor: float = 4.0,
        old_context_len: int = 8192,
    ) -> None:
        if not low_freq_factor < high_freq_factor:
            raise ConfigError(
                f"low_freq_factor is {low_freq_factor} and high_freq_factor is {high_freq_factor}. "
                "The low one must be smaller."
            )
        # Set before the base class builds the cache from them; they are plain numbers, so nn.Module allows it.
        self.scale_factor = scale_factor
        self.low_freq_factor = low_freq_factor
        self.high_freq_factor = high_freq_factor
        self.old_context_len = old_context_len
        super().__init__(dim, max_seq_len, base)

    def _frequencies(self, device: torch.device | None) -> torch.Tensor:
        frequencies = super()._frequencies(device)
        turns = self.old_context_len * frequencies / (2 * math.pi)
        kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return torch.lerp(frequencies / self.scale_factor, frequencies, kept.clamp(0.0, 1.0))
