"""Normalisation of hidden states."""

import torch
from torch import nn


class RMSNorm(nn.Module):
    """Divides each vector by its root mean square, then multiplies by a learned ``scale``.

    Statistics are float32 whatever the input's type. Formula: Zhang and Sennrich, "Root Mean Square Layer
    Normalization", 2019 (https://arxiv.org/abs/1910.07467).

    Args:
        dim: size of the last axis.
        eps: added to the mean square, so that a vector of zeros stays finite.
    """

    def __init__(self, dim: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.scale = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The normalised vectors, in the shape and type of ``x`` [..., dim]."""
        return nn.functional.rms_norm(x, self.scale.shape, self.scale, self.eps)
