"""Loss over data sets, without training."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from torchpipe.training.batches import batch_loss, trained_weight


@dataclass(frozen=True, kw_only=True)
class LossSum:
    """The loss of some tokens, to be joined with that of others.

    Attributes:
        total: the sum of ``w * l`` over trained tokens; weight: that of ``w``, which is their number without weights.
    """

    total: float
    weight: float

    @property
    def mean(self) -> float:
        """The loss per trained token; NaN where nothing is trained."""
        return self.total / self.weight if self.weight else float("nan")


def held_out_losses(loss_over: Callable[[Any], LossSum], held_out: Mapping[str, Any]) -> dict[str, float]:
    """The mean loss over all tokens of held-out data sets, as "held-out", and, of several, each one's beside its name.

    Args:
        loss_over: a data set to the loss of its tokens.
        held_out: data sets by name; empty: there is no loss.

    >>> parts = {"a": LossSum(total=2.0, weight=1.0), "b": LossSum(total=1.0, weight=2.0)}
    >>> held_out_losses(parts.get, {"a": "a", "b": "b"})
    {'held-out': 1.0, 'held-out a': 2.0, 'held-out b': 0.5}
    >>> held_out_losses(parts.get, {"held-out": "a"}), held_out_losses(parts.get, {})
    ({'held-out': 2.0}, {})
    """
    sums = {name: loss_over(rows) for name, rows in held_out.items()}
    if not sums:
        return {}
    whole = LossSum(total=sum(one.total for one in sums.values()), weight=sum(one.weight for one in sums.values()))
    each = {f"held-out {name}": one.mean for name, one in sums.items()} if len(sums) > 1 else {}
    return {"held-out": whole.mean, **each}


def mean_loss(
    model: nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    batches: Iterable[Mapping[str, Any]],
    device: torch.device,
    sum_over_ranks: Callable[[float, float], Iterable[float]] | None = None,
) -> float:
    """The loss per trained token over all batches: tokens weigh the same, whatever batch they are in.

    Where batches have ``loss_weights``, it is the sum of ``w * l`` over that of ``w``, of all batches together.

    NaN where nothing is trained. See :func:`loss_sum` for the rest.
    """
    return loss_sum(model, loss_fn, batches, device, sum_over_ranks).mean


@torch.no_grad()
def loss_sum(
    model: nn.Module,
    loss_fn: Callable[..., torch.Tensor],
    batches: Iterable[Mapping[str, Any]],
    device: torch.device,
    sum_over_ranks: Callable[[float, float], Iterable[float]] | None = None,
) -> LossSum:
    """The loss summed over the trained tokens of all batches, and their number or weight.

    The model's training mode is put back.

    Args:
        loss_fn: outputs of the model and labels to the mean over trained tokens; see
            :func:`~torchpipe.training.batches.batch_loss`.
        sum_over_ranks: where each rank has a part of the batches, :meth:`~torchpipe.training.Ranks.sum`; the sums
            are then those of all, on every rank.
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
    return LossSum(total=total, weight=weight)
