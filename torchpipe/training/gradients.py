"""What is done with the gradients of a step before the optimizer takes them."""

import math

import torch
from torch import nn

from torchpipe.errors import ConfigError


def clip_grad_norm(model: nn.Module, max_norm: float) -> float:
    """The norm of all gradients together, after which it is ``max_norm`` at most.

    It is called once a step, after :meth:`~torchpipe.training.Ranks.sum_gradients`: every rank then has the whole
    step's gradients, and so the same norm and the same clipped gradients, without another word between them.

    Args:
        model: whose parameters have the step's gradients.
        max_norm: of all gradients as one vector (Euclidean); ``inf`` measures and changes nothing.

    Returns:
        The norm before clipping; 0 where nothing has a gradient. Where it is no finite number, the gradients are left
        as they are.

    Raises:
        ConfigError: ``max_norm`` is not above 0.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> layer.weight.grad = torch.tensor([[3.0, 4.0]])
    >>> clip_grad_norm(layer, max_norm=1.0), layer.weight.grad
    (5.0, tensor([[0.6000, 0.8000]]))
    """
    if not max_norm > 0:
        raise ConfigError(
            f"clip_grad_norm is {max_norm}. Give a number above 0, or null to leave gradients as they are."
        )
    parameters = [parameter for parameter in model.parameters() if parameter.grad is not None]
    total = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters if parameter.grad is not None])
    norm = float(total)
    if math.isfinite(norm):
        torch.nn.utils.clip_grads_with_norm_(parameters, max_norm, total)
    return norm
