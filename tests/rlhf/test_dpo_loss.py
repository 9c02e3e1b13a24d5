"""The DPO loss: torchtune's numbers, log 2 where nothing has been learned, and the paper's gradient."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe.errors import ConfigError
from torchpipe.rlhf.loss import DPOLoss


@pytest.fixture(scope="module")
def goldens(repository: Path) -> list[dict[str, Any]]:
    """torchtune's figures."""
    return json.loads((repository / "tests" / "parity" / "dpo_goldens.json").read_text())["DPOLoss"]


def test_losses_rewards_and_gradients_are_torchtunes(goldens: list[dict[str, Any]]) -> None:
    for case in goldens:
        inputs = [torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in case["log_probs"]]
        found = DPOLoss(**case["settings"])(*inputs)
        for values, expected in zip(found, case["out"], strict=True):
            torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
        found[0].sum().backward()
        for values, expected in zip(inputs, case["gradients"], strict=False):
            assert values.grad is not None
            torch.testing.assert_close(values.grad, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_the_loss_is_log_2_where_policy_and_reference_are_the_same(label_smoothing: float) -> None:
    chosen, rejected = torch.tensor([-3.0, -400.0]), torch.tensor([-9.0, -1.0])
    losses, *rewards = DPOLoss(0.3, label_smoothing)(chosen, rejected, chosen, rejected)
    torch.testing.assert_close(losses, torch.full((2,), math.log(2)))
    assert [values.tolist() for values in rewards] == [[0.0, 0.0], [0.0, 0.0]]


def test_the_gradient_is_the_papers() -> None:
    """Section 4: -beta sigmoid(r_rejected - r_chosen) for the chosen answer, as much upwards for the rejected one."""
    chosen, rejected = (torch.tensor([value], requires_grad=True) for value in (-5.0, -4.0))
    losses, reward, other = DPOLoss(beta=0.5)(chosen, rejected, torch.tensor([-7.0]), torch.tensor([-5.0]))
    losses.sum().backward()
    expected = 0.5 * torch.sigmoid(other - reward)
    torch.testing.assert_close(chosen.grad, -expected)
    torch.testing.assert_close(rejected.grad, expected)
    assert not reward.requires_grad
    assert not other.requires_grad


def test_a_hopeless_pair_has_a_finite_loss_and_gradient() -> None:
    chosen = torch.tensor([-1e6], requires_grad=True)
    losses, *_ = DPOLoss(beta=1.0)(chosen, torch.zeros(1), torch.zeros(1), torch.zeros(1))
    losses.sum().backward()
    assert losses.item() == 1e6
    assert chosen.grad is not None
    assert chosen.grad.item() == -1.0


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"beta": 0.0}, "beta of DPOLoss is 0.0. Give a number above 0"),
        ({"beta": float("nan")}, "beta of DPOLoss is nan"),
        ({"beta": float("inf")}, "beta of DPOLoss is inf"),
        ({"beta": "nan"}, "beta of DPOLoss is 'nan'. Give a number above 0"),  # as YAML reads nan
        ({"label_smoothing": "0.1"}, "label_smoothing of DPOLoss is '0.1'. Give the share"),
        ({"label_smoothing": 0.5}, "label_smoothing of DPOLoss is 0.5.*below 0.5"),
        ({"label_smoothing": -0.1}, "label_smoothing of DPOLoss is -0.1"),
    ],
)
def test_numbers_out_of_range_are_refused(settings: dict[str, float], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        DPOLoss(**settings)
