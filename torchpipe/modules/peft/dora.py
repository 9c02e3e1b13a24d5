"""A low-rank adapter that learns the length of each row of a weight apart from its direction."""

from typing import Any, Self

import torch
from torch import nn

from torchpipe.errors import CheckpointError
from torchpipe.modules.peft.lora import LoRALinear
from torchpipe.modules.peft.merging import dora_scale, merged_weight, row_norms


class DoRALinear(LoRALinear):
    """A linear map whose weight's rows have a learned length, and a direction that has a correction of low rank.

    The weight is ``m (W + s B A) / ||W + s B A||``, with the norm of each row and ``s = alpha / rank``. Liu and others,
    "DoRA", 2024 (https://arxiv.org/abs/2402.09353), equation 5; as in section 4.3 the norm is a constant for the
    gradient. ``magnitude`` starts as that norm, so that the map is the base's at first. Dropout is on the correction's
    input alone, and the bias is added last, unscaled.

    Arguments, attributes and errors are those of :class:`LoRALinear`, and:

    Attributes:
        magnitude: [out_dim]. It depends on the base: after other base weights are loaded call
            :meth:`initialize_dora_magnitude`.
    """

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
        super().__init__(in_dim, out_dim, rank, alpha, dropout, use_bias, quantize_base, **quantization_kwargs)
        self.magnitude = nn.Parameter(torch.empty(out_dim))
        if not self.weight.is_meta:
            self.initialize_dora_magnitude()

    @classmethod
    def from_linear(cls, linear: nn.Linear, *, rank: int, alpha: float, dropout: float = 0.0) -> Self:
        """As :meth:`LoRALinear.from_linear`; on the meta device the magnitude has no values yet."""
        layer = super().from_linear(linear, rank=rank, alpha=alpha, dropout=dropout)
        if not linear.weight.is_meta:
            layer.initialize_dora_magnitude()
        return layer

    def initialize_dora_magnitude(self) -> None:
        """Sets the magnitude to the norms of the present weight's rows, so that it changes nothing.

        Raises:
            CheckpointError: a parameter is on the meta device, where it has no values.
        """
        if any(parameter.is_meta for parameter in self.parameters()):
            raise CheckpointError(
                "A DoRA magnitude is computed from the base weight, and a parameter is on the meta device, without "
                "values. Call model.to_empty(device=...) and load the base weights first."
            )
        with torch.no_grad():
            self.magnitude.copy_(row_norms(self.weight, self.lora_a.weight, self.lora_b.weight, self.scaling))

    def merged_weight(self) -> torch.Tensor:
        """The weight [out_dim, in_dim] of the plain linear map that equals this one, in the base's type."""
        return merged_weight(self.weight, self.lora_a.weight, self.lora_b.weight, self.scaling, self.magnitude)

    def adapter_params(self) -> list[str]:
        """Names of the adapter's parameters."""
        return [*super().adapter_params(), "magnitude"]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` [..., in_dim] mapped to [..., out_dim], in its type."""
        if self.disabled:
            return nn.functional.linear(x, self.weight, self.bias)
        rows = x.reshape(-1, x.shape[-1])
        product = self._add_correction(nn.functional.linear(rows, self.weight), rows)
        scale = dora_scale(self.magnitude, self.weight, self.lora_a.weight, self.lora_b.weight, self.scaling)
        scaled = product * scale if self.bias is None else torch.addcmul(self.bias, product, scale)
        return scaled.view(*x.shape[:-1], self.out_dim)
