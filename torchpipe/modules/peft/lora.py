"""A frozen linear map with a trainable map of low rank beside it."""

import math
from typing import Any, Self

import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.modules.peft.config import check_adapter, refuse_quantized
from torchpipe.modules.peft.merging import merged_weight


class LoRALinear(nn.Module):
    """``x W^T + (alpha / rank) dropout(x) A^T B^T``: a linear map and a correction of low rank.

    Hu and others, "LoRA", 2021 (https://arxiv.org/abs/2106.09685), section 4.1. ``lora_a`` starts as
    ``kaiming_uniform(a=sqrt(5))`` and ``lora_b`` as zeros, so that the map is the base's at first. Which parameters are
    trained is not decided here: :func:`~torchpipe.modules.peft.add_lora` freezes the base.

    Args:
        in_dim: features of an input vector.
        out_dim: features of an output vector.
        rank: rows of ``lora_a`` and columns of ``lora_b``, 1 or more.
        alpha: the correction is multiplied by ``alpha / rank``.
        dropout: probability of dropping a feature of the correction's input in training, below 1.
        use_bias: whether the base has a bias.
        quantize_base: refused when True, as is every argument of a quantisation after it.

    Attributes:
        weight: [out_dim, in_dim], the base.
        bias: [out_dim], or None.
        disabled: while True the base is all there is; see :func:`~torchpipe.modules.peft.disable_adapter`.

    Raises:
        ConfigError: a number out of its range, or a quantised base.

    >>> layer = LoRALinear(6, 4, rank=2, alpha=4.0)
    >>> {name: list(parameter.shape) for name, parameter in layer.named_parameters()}
    {'weight': [4, 6], 'lora_a.weight': [2, 6], 'lora_b.weight': [4, 2]}
    >>> x = torch.ones(3, 6)
    >>> torch.equal(layer(x), nn.functional.linear(x, layer.weight))
    True
    """

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        rank: int,
        alpha: float,
        dropout: float = 0.0,
        use_bias: bool = False,
        quantize_base: bool = False,
        **quantization_kwargs: Any,
    ) -> None:
        super().__init__()
        check_adapter(rank, alpha, dropout)
        refuse_quantized(quantize_base)
        if quantization_kwargs:
            raise ConfigError(
                f"Nothing is quantised here, and {', '.join(quantization_kwargs)} was given. Leave it out."
            )
        self.in_dim = in_dim
        self.out_dim = out_dim
        self.rank = rank
        self.alpha = alpha
        self.scaling = alpha / rank
        self.disabled = False
        base = nn.Linear(in_dim, out_dim, bias=use_bias)
        self.weight = base.weight
        self.register_parameter("bias", base.bias)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.lora_a = nn.Linear(in_dim, rank, bias=False)
        self.lora_b = nn.Linear(rank, out_dim, bias=False)
        self.initialize_parameters()

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, rank: int, alpha: float, dropout: float = 0.0) -> Self:
        """The same map with a fresh adapter of its type and on its device; it holds the very parameters of ``linear``.

        Raises:
            ConfigError: a number out of its range.
        """
        has_bias = linear.bias is not None
        with torch.device("meta"):  # no memory for a base weight that is replaced at once
            layer = cls(linear.in_features, linear.out_features, rank, alpha, dropout, use_bias=has_bias)
        layer.register_parameter("weight", None)
        layer.register_parameter("bias", None)
        layer.to(linear.weight.dtype).to_empty(device=linear.weight.device)
        layer.weight = linear.weight
        layer.bias = linear.bias
        layer.initialize_parameters()
        return layer.train(linear.training)

    def initialize_parameters(self) -> None:
        """Fills the adapter in place, as a fresh one is: needed after ``to_empty``."""
        nn.init.kaiming_uniform_(self.lora_a.weight, a=math.sqrt(5))
        nn.init.zeros_(self.lora_b.weight)

    def merged_weight(self) -> torch.Tensor:
        """The weight [out_dim, in_dim] of the plain linear map that equals this one, in the base's type."""
        return merged_weight(self.weight, self.lora_a.weight, self.lora_b.weight, self.scaling)

    def adapter_params(self) -> list[str]:
        """Names of the adapter's parameters."""
        return ["lora_a.weight", "lora_b.weight"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` [..., in_dim] mapped to [..., out_dim], in its type."""
        if self.disabled:
            return nn.functional.linear(x, self.weight, self.bias)
        rows = x.reshape(-1, x.shape[-1])
        return self._add_correction(nn.functional.linear(rows, self.weight, self.bias), rows).view(
            *x.shape[:-1], self.out_dim
        )

    def _add_correction(self, product: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """The base's ``product`` [n, out_dim] of the ``rows`` [n, in_dim], with the correction added in place.

        One matrix product scales and adds: no second array of the output's size is made or read.
        """
        hidden = nn.functional.linear(self.dropout(rows), self.lora_a.weight)
        return product.addmm_(hidden, self.lora_b.weight.to(product.dtype).T, alpha=self.scaling)
