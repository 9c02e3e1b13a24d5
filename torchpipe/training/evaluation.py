"""Loss over a data set, without training."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from torchpipe.training.batches import batch_loss, trained_weight


@torch.no_grad()
def mean_loss(
    model: nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    batches: Iterable[Mapping[str, Any]],
    device: torch.device,
    sum_over_ranks: Callable[[float, float], Iterable[float]] | None = None,
) -> float:
    """The loss per trained token over all batches: tokens weigh the same, whatever batch they are in.

    Where batches have ``loss_weights``, it is the sum of ``w * l`` over that of ``w``, of all batches together.

    NaN where nothing is trained. The model's training mode is put back.

    Args:
        loss_fn: outputs of the model and labels to the mean over trained tokens; see
            :func:`~torchpipe.training.batches.batch_loss`.
        sum_over_ranks: where each rank has a part of the batches, :meth:`~torchpipe.training.Ranks.sum`; the mean is
            then that of all, on every rank.
    """
    training = model.training
    model.eval()
    total, weight = 0.0, 0.0
    for batch in batches:
        trained = trained_weight(batch)
        if trained:
            total += float(batch_loss(model, loss_fn, batch, device)) * trained
            weight += trained
    model.train(training)
    if sum_over_ranks is not None:
        total, weight = sum_over_ranks(total, weight)
    return total / weight if weight else float("nan")
