"""Cutting a pair: its prompt the same way on both sides, then each response."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe.data.overflow import Fitted
from torchpipe.data.pair_policy import PairPolicy
from torchpipe.data.sample_transforms import SFTTransform


def fitted_pair(
    rows: Sequence[Mapping[str, Any]],
    samples: list[dict[str, Any]],
    policy: PairPolicy,
    transform: SFTTransform,
) -> Fitted:
    """The pair, cut or left out as its policy says."""
    num_tokens = sum(len(sample["tokens"]) for sample in samples)
    return Fitted(samples=samples, num_tokens=num_tokens)
