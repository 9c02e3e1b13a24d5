"""An output projection that shares its weight with the token embedding."""

from typing import Any

import torch
from torch import nn


class TiedLinear(nn.Module):
    """A linear map whose weight is the weight of another module, usually the token embedding.

    The other module stays the weight's only owner: it is neither a child nor a parameter here, so it is saved, counted
    and moved once, and replacing its parameter (as ``to_empty`` and sharding do) is seen here at once.

    Args:
        tied_module: has a ``weight`` [out_dim, in_dim].

    >>> embedding = nn.Embedding(10, 4)
    >>> output = TiedLinear(embedding)
    >>> output.weight is embedding.weight, len(output.state_dict())
    (True, 0)
    """

    def __init__(self, tied_module: nn.Module) -> None:
        super().__init__()
        # A tuple hides the module from nn.Module's registration; copying and pickling still keep the two together.
        self._tied_module = (tied_module,)

    @property
    def weight(self) -> Any:
        """The other module's weight [out_dim, in_dim]."""
        return self._tied_module[0].weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``x`` [..., in_dim] times the transposed weight: [..., out_dim]."""
        return nn.functional.linear(x, self.weight)
