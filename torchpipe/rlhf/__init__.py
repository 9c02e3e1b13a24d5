"""Learning from preferences: log-probabilities of answers, rewards of pairs, and what a policy is compared with."""

from torchpipe._not_yet import refusing
from torchpipe.rlhf.log_probs import get_batch_log_probs, hidden_log_probs, logits_to_logprobs
from torchpipe.rlhf.pairs import (
    REWARD_NAMES,
    Batch,
    PairLogProbs,
    PairLosses,
    Reference,
    mean_rewards,
    pair_log_probs,
    pair_losses,
)
from torchpipe.rlhf.reference import AdaptersOff, KeptLogProbs

__all__ = [
    "REWARD_NAMES",
    "AdaptersOff",
    "Batch",
    "KeptLogProbs",
    "PairLogProbs",
    "PairLosses",
    "Reference",
    "get_batch_log_probs",
    "hidden_log_probs",
    "logits_to_logprobs",
    "mean_rewards",
    "pair_log_probs",
    "pair_losses",
]

__getattr__ = refusing(__name__)
