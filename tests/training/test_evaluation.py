"""Loss over a data set: every token weighs the same."""

import math
from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.training import mean_loss, set_seed


class Logits(nn.Module):
    """Gives the same logits for every token."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.9)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.dropout(torch.tensor([0.0, 1.0, 2.0])).expand(*tokens.shape, 3)


def loss_fn(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def batch(*labels: int) -> dict[str, Any]:
    return {"tokens": torch.zeros(1, len(labels), dtype=torch.long), "labels": torch.tensor([labels])}


def test_tokens_weigh_the_same_whatever_their_batch() -> None:
    model = Logits()
    cpu = torch.device("cpu")
    one = mean_loss(model, loss_fn, [batch(0, 1, 2, 2)], cpu)
    assert math.isclose(mean_loss(model, loss_fn, [batch(0), batch(1, 2, 2), batch(-100)], cpu), one, rel_tol=1e-6)
    assert model.training


def test_weighted_tokens_weigh_the_same_whatever_their_batch() -> None:
    def weighted_loss(logits: torch.Tensor, labels: torch.Tensor, loss_weights: torch.Tensor) -> torch.Tensor:
        each = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        weights = loss_weights.flatten() * (labels.flatten() != -100)
        return (each * weights).sum() / weights.sum()

    def weighted(labels: list[int], weights: list[float]) -> dict[str, Any]:
        return {**batch(*labels), "loss_weights": torch.tensor([weights])}

    model, cpu = Logits(), torch.device("cpu")
    one = mean_loss(model, weighted_loss, [weighted([0, 1, 2, -100], [0.5, 2, 1, 7])], cpu)
    parts = [weighted([0], [0.5]), weighted([1, 2], [2, 1]), weighted([-100], [7]), weighted([2], [0])]
    assert math.isclose(mean_loss(model, weighted_loss, parts, cpu), one, rel_tol=1e-6)
    with pytest.raises(ConfigError, match="the loss loss_fn takes no loss_weights"):
        mean_loss(model, loss_fn, parts, cpu)


def test_nothing_trained_is_not_a_number() -> None:
    assert math.isnan(mean_loss(Logits(), loss_fn, [batch(-100)], torch.device("cpu")))


def test_a_seed_decides_torch_numpy_and_python() -> None:
    import random

    import numpy as np

    def draw() -> tuple[float, float, float]:
        set_seed(5)
        return torch.rand(1).item(), float(np.random.rand()), random.random()

    assert draw() == draw()
