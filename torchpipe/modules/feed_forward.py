"""The position-wise part of a transformer layer."""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, gated when ``up_proj`` is given.

    ``down(activation(gate(x)) * up(x))``, as in Shazeer, "GLU Variants Improve Transformer", 2020
    (https://arxiv.org/abs/2002.05202). Parameters are named ``w1`` (gate), ``w2`` (down) and ``w3`` (up).

    Args:
        gate_proj: from the embedding to the intermediate size.
        down_proj: from the intermediate size back to the embedding.
        up_proj: from the embedding to the intermediate size; without it there is no gate.
        activation: applied to the gate's output; SiLU unless another is given.
    """

    def __init__(
        self,
        *,
        gate_proj: nn.Module,
        down_proj: nn.Module,
        up_proj: nn.Module | None = None,
        activation: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.w1 = gate_proj
        self.w2 = down_proj
        self.w3 = up_proj
        self.activation = nn.SiLU() if activation is None else activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The transformed vectors, in the shape of ``x`` [..., embed_dim]."""
        if self.w3 is None:
            return self.w2(self.activation(self.w1(x)))
        if type(self.activation) is nn.SiLU and not torch.compiler.is_compiling():
            return self.w2(_GatedSiLU.apply(self.w1(x), self.w3(x)))
        return self.w2(self.activation(self.w1(x)) * self.w3(x))


class _GatedSiLU(torch.autograd.Function):
    """``silu(gate) * up``, keeping the two for the gradient and not the activation's result, the third of that size."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return nn.functional.silu(gate).mul_(up)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # pyright: ignore
        gate, up = ctx.saved_tensors
        return torch.ops.aten.silu_backward(grad * up, gate), nn.functional.silu(gate).mul_(grad)
