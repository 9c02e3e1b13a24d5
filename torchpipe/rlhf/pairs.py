"""Pairs of answers under a model: their log-probabilities, losses and rewards."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from torchpipe.rlhf.log_probs import get_batch_log_probs, hidden_log_probs

Batch = tuple[torch.Tensor, torch.Tensor]
"""Tokens and unshifted labels, int64 [2 * b, s]: the chosen rows, then the rejected ones
(:func:`torchpipe.data.padded_collate_dpo`)."""

REWARD_NAMES = (
    "loss",
    "reward_margin",
    "reward_accuracy",
    "chosen_reward",
    "rejected_reward",
    "chosen_log_prob",
    "rejected_log_prob",
)
"""What is measured of a pair: the loss; the chosen answer's reward less the rejected one's; 1 where that is above 0,
else 0; both rewards; both log-probabilities under the policy."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PairLogProbs:
    """The log-probability of both answers of each pair.

    Attributes:
        chosen, rejected: float32 [b].
    """

    chosen: torch.Tensor
    rejected: torch.Tensor

    def of(self, which: torch.Tensor) -> "PairLogProbs":
        """Those of some pairs; ``which`` is a bool [b], True for each of them."""
        return PairLogProbs(chosen=self.chosen[which], rejected=self.rejected[which])


Reference = Callable[[Batch, Sequence[int]], PairLogProbs]
"""The log-probabilities of a batch's pairs under the reference; the numbers are those of the pairs in their data set,
-1 for padding, of which anything finite may be told."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PairLosses:
    """The losses and rewards of some pairs.

    Attributes:
        losses: [p], with gradients.
        chosen_rewards, rejected_rewards: [p], without.
        policy: log-probabilities of the same pairs.
    """

    losses: torch.Tensor
    chosen_rewards: torch.Tensor
    rejected_rewards: torch.Tensor
    policy: PairLogProbs

    def sums(self) -> torch.Tensor:
        """The sum over the pairs of each of :data:`REWARD_NAMES`, float64 on the CPU."""
        margins = self.chosen_rewards - self.rejected_rewards
        measured = (
            self.losses,
            margins,
            margins > 0,
            self.chosen_rewards,
            self.rejected_rewards,
            self.policy.chosen,
            self.policy.rejected,
        )
        return torch.stack([values.detach().double().sum() for values in measured]).cpu()


def pair_log_probs(model: nn.Module, batch: Batch) -> PairLogProbs:
    """The log-probability of both answers of each pair under ``model``, in one forward pass over all of them.

    Of a decoder that can leave out its output projection (``skip_output_layer``), only the positions that count are
    projected; see :func:`~torchpipe.rlhf.hidden_log_probs`. Any other model is to return logits.

    Args:
        model: takes tokens [2 * b, s]. Padding is on the right, where causal attention lets nothing see it.
        batch: on the model's device.
    """
    tokens, labels = batch
    if hasattr(model, "skip_output_layer"):
        decoder: Any = model
        before, decoder.skip_output_layer = decoder.skip_output_layer, True
        try:
            log_probs = hidden_log_probs(model(tokens), decoder.output, labels)
        finally:
            decoder.skip_output_layer = before
    else:
        log_probs = get_batch_log_probs(model(tokens), labels)
    chosen, rejected = log_probs.chunk(2)
    return PairLogProbs(chosen=chosen, rejected=rejected)


def pair_losses(
    model: nn.Module,
    loss_fn: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    reference: Reference,
    batch: Batch,
    pairs: Sequence[int],
) -> PairLosses:
    """The losses and rewards of a batch's pairs, without those of padding.

    Args:
        model: the policy.
        loss_fn: such as :class:`~torchpipe.rlhf.loss.DPOLoss`.
        batch: on the model's device.
        pairs: their numbers, b of them; those below 0 are padding.
    """
    is_pair = torch.tensor([pair >= 0 for pair in pairs], device=batch[0].device)
    # Padding goes before the loss: what the reference says of it must not reach a gradient, not even times 0.
    policy, baseline = pair_log_probs(model, batch).of(is_pair), reference(batch, pairs).of(is_pair)
    losses, chosen, rejected = loss_fn(policy.chosen, policy.rejected, baseline.chosen, baseline.rejected)
    return PairLosses(losses=losses, chosen_rewards=chosen, rejected_rewards=rejected, policy=policy)


@torch.no_grad()
def mean_rewards(
    model: nn.Module,
    loss_fn: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]],
    reference: Reference,
    batches: Iterable[tuple[Batch, Sequence[int]]],
    sum_over_ranks: Callable[..., Iterable[float]] | None = None,
) -> dict[str, float]:
    """The mean over all pairs of each of :data:`REWARD_NAMES`; NaN where there is no pair.

    The model's training mode is put back.

    Args:
        batches: each with the numbers of its pairs, on the model's device.
        sum_over_ranks: where each rank has a part of the batches, :meth:`torchpipe.training.Ranks.sum`.
    """
    training = model.training
    model.eval()
    sums, num_pairs = torch.zeros(len(REWARD_NAMES), dtype=torch.float64), 0
    for batch, pairs in batches:
        if (real := sum(pair >= 0 for pair in pairs)) > 0:
            sums += pair_losses(model, loss_fn, reference, batch, pairs).sums()
            num_pairs += real
    model.train(training)
    totals = [num_pairs, *sums.tolist()]
    num, *found = totals if sum_over_ranks is None else sum_over_ranks(*totals)
    return {name: value / num if num else float("nan") for name, value in zip(REWARD_NAMES, found, strict=True)}
