"""The loss of direct preference optimization."""

import math
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812  # as everybody writes it
from torch import nn

from torchpipe.errors import ConfigError


class DPOLoss(nn.Module):
    """``-log sigmoid(beta h)`` of each pair, where ``h`` is how much more the policy prefers the chosen answer.

    ::

        h = (policy_chosen - policy_rejected) - (reference_chosen - reference_rejected)

    Rafailov and others, "Direct Preference Optimization", 2023 (https://arxiv.org/abs/2305.18290), equation 7. With
    ``label_smoothing`` e it is ``-(1 - e) log sigmoid(beta h) - e log sigmoid(-beta h)``, which takes a share e of the
    preferences to be wrong (Mitchell, "A note on DPO with noisy preferences", 2023,
    https://ericmitchell.ai/cdpo.pdf, equation 4).

    Args:
        beta: how strongly the policy is held to the reference, above 0; usually 0.1 to 0.5. Rewards are measured in it.
        label_smoothing: the share of preferences that may be wrong, from 0 to below 0.5.

    Raises:
        ConfigError: a number is out of its range.

    >>> same = torch.tensor([-5.0, -7.0])
    >>> losses, chosen_rewards, rejected_rewards = DPOLoss()(same, same - 1, same, same - 1)
    >>> [round(loss, 4) for loss in losses.tolist()]  # log 2, while policy and reference are the same
    [0.6931, 0.6931]
    """

    def __init__(self, beta: float = 0.1, label_smoothing: float = 0.0) -> None:
        super().__init__()
        if not _is_number(beta) or not 0 < beta < math.inf:
            raise ConfigError(f"beta of DPOLoss is {beta!r}. Give a number above 0, such as 0.1.")
        if not _is_number(label_smoothing) or not 0 <= label_smoothing < 0.5:
            raise ConfigError(
                f"label_smoothing of DPOLoss is {label_smoothing!r}. Give the share of wrong preferences, from 0 to "
                "below 0.5: at 0.5 nothing is preferred."
            )
        self.beta = beta
        self.label_smoothing = label_smoothing

    def forward(
        self,
        policy_chosen_logps: torch.Tensor,
        policy_rejected_logps: torch.Tensor,
        reference_chosen_logps: torch.Tensor,
        reference_rejected_logps: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """``(losses, chosen_rewards, rejected_rewards)`` of each pair, [b] each.

        Args:
            policy_chosen_logps, policy_rejected_logps: [b], log-probability of each answer under the model that is
                trained; see :func:`~torchpipe.rlhf.get_batch_log_probs`.
            reference_chosen_logps, reference_rejected_logps: [b], the same under the model that it started from.

        Returns:
            The losses; and, without gradients, each answer's reward: beta times the logarithm of how much likelier the
            policy writes it than the reference (the paper's section 4).
        """
        chosen = policy_chosen_logps - reference_chosen_logps
        rejected = policy_rejected_logps - reference_rejected_logps
        preference = self.beta * (chosen - rejected)
        losses = -F.logsigmoid(preference) * (1 - self.label_smoothing)
        if self.label_smoothing:
            losses = losses - F.logsigmoid(-preference) * self.label_smoothing
        return losses, self.beta * chosen.detach(), self.beta * rejected.detach()


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
