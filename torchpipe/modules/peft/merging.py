"""One weight out of a base and its adapter."""

import torch
from torch import nn


@torch.no_grad()
def merged_weight(
    weight: torch.Tensor,
    lora_a: torch.Tensor,
    lora_b: torch.Tensor,
    scaling: float,
    magnitude: torch.Tensor | None = None,
) -> torch.Tensor:
    """The weight [out_dim, in_dim] whose product is the adapted one's, in the base's type; a new tensor.

    It is summed in float32 (float64 for a float64 base) and rounded once.

    Args:
        weight: [out_dim, in_dim], the base.
        lora_a: [rank, in_dim].
        lora_b: [out_dim, rank].
        scaling: ``alpha / rank``.
        magnitude: [out_dim], the learned norm of each row; None for an adapter without.

    >>> merged_weight(torch.zeros(2, 2), torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0], [3.0]]), 0.5).tolist()
    [[0.5, 1.0], [1.5, 3.0]]
    """
    dtype = torch.promote_types(weight.dtype, torch.float32)
    merged = torch.addmm(weight.to(dtype), lora_b.to(dtype), lora_a.to(dtype), alpha=scaling)
    if magnitude is not None:
        merged *= dora_scale(magnitude, weight, lora_a, lora_b, scaling).to(dtype).unsqueeze(1)
    return merged.to(weight.dtype)


def dora_scale(
    magnitude: torch.Tensor, weight: torch.Tensor, lora_a: torch.Tensor, lora_b: torch.Tensor, scaling: float
) -> torch.Tensor:
    """``magnitude / ||weight + scaling * lora_b @ lora_a||`` for each row, [out_dim], in the magnitude's type.

    The gradient goes to the magnitude alone. Right after the magnitude took the norms' values every scale is exactly 1.
    """
    norms = row_norms(weight, lora_a, lora_b, scaling).to(magnitude.dtype)
    return magnitude / norms.clamp_(min=torch.finfo(norms.dtype).tiny)  # a row of zeros stays one, and not 0 / 0


@torch.no_grad()
def row_norms(weight: torch.Tensor, lora_a: torch.Tensor, lora_b: torch.Tensor, scaling: float) -> torch.Tensor:
    """``||weight + scaling * lora_b @ lora_a||`` for each row, [out_dim], in float32 (float64 for a float64 base).

    The sum is not written out, which would take the weight's size in memory for every matrix and step: row by row,
    ``||w + s b A||^2`` is ``||w||^2 + 2 s (w A^T) b^T + s^2 b (A A^T) b^T``.
    """
    dtype = torch.promote_types(weight.dtype, torch.float32)
    a, b = lora_a.to(dtype), lora_b.to(dtype)
    squares = torch.linalg.vector_norm(weight, dim=1, dtype=dtype).square_()
    crossed = nn.functional.linear(weight, lora_a).to(dtype).mul_(2 * scaling)
    own = nn.functional.linear(b, a @ a.T).mul_(scaling**2)
    return squares.add_(crossed.add_(own).mul_(b).sum(1)).clamp_(min=0).sqrt_()
