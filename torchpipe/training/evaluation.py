"""Loss over a data set, without training."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import nn

from torchpipe.training.batches import num_trained, to_device


@torch.no_grad()
def mean_loss(
    model: nn.Module,
    loss_fn: Callable[[Any, torch.Tensor], torch.Tensor],
    batches: Iterable[Mapping[str, Any]],
    device: torch.device,
) -> float:
    """The loss per trained token over all batches: tokens weigh the same, whatever batch they are in.

    NaN where nothing is trained. The model's training mode is put back.

    Args:
        loss_fn: outputs of the model and labels to the mean over trained tokens.
    """
    training = model.training
    model.eval()
    total, tokens = 0.0, 0
    for batch in batches:
        trained = num_trained(batch)
        if trained:
            inputs = to_device(batch, device)
            labels = inputs.pop("labels")
            total += float(loss_fn(model(**inputs), labels)) * trained
            tokens += trained
    model.train(training)
    return total / tokens if tokens else float("nan")
