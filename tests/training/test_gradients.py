"""Gradients are clipped as torch clips them, on one rank and on several."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.training import clip_grad_norm


def model_with_gradients() -> nn.Module:
    torch.manual_seed(0)
    model = nn.ModuleDict({"a": nn.Linear(3, 4), "b": nn.Linear(5, 6).double(), "unused": nn.Linear(2, 2)})
    for name, parameter in model.named_parameters():
        if not name.startswith("unused"):
            parameter.grad = torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("max_norm", [0.5, 1.0, 1e9, float("inf")])
def test_gradients_are_clipped_as_torch_clips_them(max_norm: float) -> None:
    model, expected = model_with_gradients(), model_with_gradients()
    norm = clip_grad_norm(model, max_norm)
    assert norm == float(torch.nn.utils.clip_grad_norm_(expected.parameters(), max_norm))
    for ours, torchs in zip(model.parameters(), expected.parameters(), strict=True):
        assert (ours.grad is None) == (torchs.grad is None)
        assert ours.grad is None or torch.equal(ours.grad, torchs.grad)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_gradients_that_are_no_numbers_are_left_as_they_are(value: float) -> None:
    model = model_with_gradients()
    model["a"].weight.grad[0, 0] = value  # pyright: ignore[reportOptionalSubscript, reportIndexIssue]
    before = [None if p.grad is None else p.grad.clone() for p in model.parameters()]
    norm = clip_grad_norm(model, 1.0)
    assert not torch.isfinite(torch.tensor(norm))
    for parameter, grad in zip(model.parameters(), before, strict=True):
        assert (grad is None) == (parameter.grad is None)
        if grad is not None and parameter.grad is not None:
            assert torch.equal(parameter.grad.nan_to_num(9.0), grad.nan_to_num(9.0))


def test_a_model_without_gradients_has_the_norm_0() -> None:
    assert clip_grad_norm(nn.Linear(2, 2), 1.0) == 0.0


@pytest.mark.parametrize("max_norm", [0, -1.0, float("nan")])
def test_a_norm_that_is_not_above_0_is_refused(max_norm: float) -> None:
    with pytest.raises(ConfigError, match=r"^clip_grad_norm is .*\. Give a number above 0, or null"):
        clip_grad_norm(nn.Linear(2, 2), max_norm)


RANKS = """
import sys
import torch
from torch import nn
from torchpipe.training import Ranks, clip_grad_norm

with Ranks() as ranks:
    ranks.join()
    torch.manual_seed(0)
    model = nn.Linear(3, 5)
    rows = torch.randn(8, 3)
    mine = rows[ranks.rank::2]
    (model(mine).square().sum() / len(rows)).backward()
    ranks.sum_gradients(model)
    norm = clip_grad_norm(model, 0.25)
    torch.save({"norm": norm, "grads": [p.grad for p in model.parameters()]}, sys.argv[1] + str(ranks.rank))
"""


def test_over_two_ranks_the_norm_is_that_of_the_whole_step(
    run_ranks: Callable[..., list[subprocess.CompletedProcess[str]]], tmp_path: Path
) -> None:
    code = f"import sys; sys.argv = ['', {str(tmp_path / 'rank')!r}]\n{RANKS}"
    for result in run_ranks(code, 2):
        assert result.returncode == 0, result.stderr
    first, second = (torch.load(tmp_path / f"rank{rank}") for rank in range(2))
    torch.manual_seed(0)
    model = nn.Linear(3, 5)
    (model(torch.randn(8, 3)).square().sum() / 8).backward()
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25))
    assert first["norm"] == second["norm"] == pytest.approx(norm, rel=1e-6)
    assert norm > 0.25
    for parameter, one, other in zip(model.parameters(), first["grads"], second["grads"], strict=True):
        assert torch.equal(one, other)
        torch.testing.assert_close(one, parameter.grad, rtol=1e-5, atol=1e-7)
