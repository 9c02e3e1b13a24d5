"""Loss over a data set: every token weighs the same."""

import math
from typing import Any

import torch
from torch import nn

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


def test_nothing_trained_is_not_a_number() -> None:
    assert math.isnan(mean_loss(Logits(), loss_fn, [batch(-100)], torch.device("cpu")))


def test_a_seed_decides_torch_numpy_and_python() -> None:
    import random

    import numpy as np

    def draw() -> tuple[float, float, float]:
        set_seed(5)
        return torch.rand(1).item(), float(np.random.rand()), random.random()

    assert draw() == draw()
