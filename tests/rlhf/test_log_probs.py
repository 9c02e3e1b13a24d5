"""Log-probabilities of answers: torchtune's numbers, and the same without the logits of a batch."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.errors import DataError
from torchpipe.rlhf import get_batch_log_probs, hidden_log_probs, log_probs, logits_to_logprobs


@pytest.fixture(scope="module")
def goldens(repository: Path) -> list[dict[str, Any]]:
    """torchtune's figures."""
    return json.loads((repository / "tests" / "parity" / "dpo_goldens.json").read_text())["get_batch_log_probs"]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states [3, 6, 4] and labels, of which the last row has none."""
    torch.manual_seed(0)
    labels = torch.randint(0, 11, (3, 6))
    labels[0, :2] = labels[1, 4:] = labels[2] = -100
    return torch.randn(3, 6, 4, requires_grad=True), labels


@pytest.mark.parametrize(("key", "average"), [("sum", False), ("mean", True)])
def test_sums_and_means_are_torchtunes(goldens: list[dict[str, Any]], key: str, average: bool) -> None:
    for case in goldens:
        logits, labels = torch.tensor(case["logits"], dtype=torch.float64), torch.tensor(case["labels"])
        found = get_batch_log_probs(logits, labels, return_average_logprobs=average)
        torch.testing.assert_close(found, torch.tensor(case[key], dtype=torch.float64), rtol=1e-12, atol=1e-12)
        assert torch.equal(labels, torch.tensor(case["labels"]))


def test_labels_are_shifted_inside() -> None:
    """The logits of position 0 say token 2 follows, whose label stands at position 1."""
    logits = torch.full((1, 2, 4), -100.0)
    logits[0, 0, 2] = 100.0
    assert get_batch_log_probs(logits, torch.tensor([[-100, 2]])).item() == 0.0


def test_a_row_without_labels_has_the_log_probability_0() -> None:
    nothing = torch.full((2, 3), -100)
    for average in (False, True):
        assert get_batch_log_probs(torch.randn(2, 3, 4), nothing, return_average_logprobs=average).tolist() == [0, 0]


def test_bfloat16_logits_are_added_up_in_float32() -> None:
    logits = torch.randn(1, 400, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    labels = torch.randint(0, 8, (1, 400), generator=torch.Generator().manual_seed(1))
    found = get_batch_log_probs(logits, labels)
    torch.testing.assert_close(found, get_batch_log_probs(logits.double(), labels).float(), rtol=1e-6, atol=0)


def test_a_temperature_divides_the_logits() -> None:
    logits, tokens = torch.randn(2, 3, 5), torch.tensor([[0, 1, 2], [3, 4, 0]])
    torch.testing.assert_close(logits_to_logprobs(logits, tokens, 2.0), logits_to_logprobs(logits / 2, tokens))


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_hidden_states_give_the_same_values_and_gradients(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Also where there are several blocks of them."""
    monkeypatch.setattr(log_probs, "MAX_CHUNK_BYTES", rows * 4 * 11)
    hidden, labels = batch()
    output = nn.Linear(4, 11, bias=False)
    weights = torch.tensor([1.0, -2.0, 3.0])
    found = []
    for log_probabilities in (
        get_batch_log_probs(output(hidden), labels),
        hidden_log_probs(hidden, output, labels),
    ):
        hidden.grad = output.weight.grad = None
        (log_probabilities * weights).sum().backward()
        found.append((log_probabilities, hidden.grad, output.weight.grad))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    with torch.no_grad():
        assert torch.equal(hidden_log_probs(hidden, output, labels), found[1][0])


def test_only_positions_that_count_are_projected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_probs, "MAX_CHUNK_BYTES", 2 * 4 * 11)
    projected: list[int] = []

    class Projection(nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            projected.append(len(input))
            return super().forward(input)

    hidden, labels = batch()
    with torch.no_grad():
        hidden_log_probs(hidden, Projection(4, 11), labels)
    assert sum(projected) == int((labels[:, 1:] != -100).sum())
    assert max(projected) == 2


def test_a_batch_without_any_label_has_gradients_of_zeros() -> None:
    hidden = torch.randn(2, 3, 4, requires_grad=True)
    hidden_log_probs(hidden, nn.Linear(4, 11), torch.full((2, 3), -100)).sum().backward()
    assert hidden.grad is not None
    assert not hidden.grad.any()


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match=r"logits are \[2, 3, 4\] and labels are \[2, 4\]"):
        get_batch_log_probs(torch.zeros(2, 3, 4), torch.zeros(2, 4, dtype=torch.int64))
    with pytest.raises(DataError, match=r"hidden is \[2, 3, 4\] and labels are \[2, 4\]"):
        hidden_log_probs(torch.zeros(2, 3, 4), nn.Linear(4, 5), torch.zeros(2, 4, dtype=torch.int64))
