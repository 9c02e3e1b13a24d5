import torch
from torch import nn

from torchpipe.modules import FeedForward


def test_the_gate_multiplies_what_goes_up():
    gate, down, up = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 6)
    x = torch.randn(2, 3, 4)
    expected = down(nn.functional.silu(gate(x)) * up(x))
    torch.testing.assert_close(FeedForward(gate_proj=gate, down_proj=down, up_proj=up)(x), expected)


def test_without_up_proj_there_is_no_gate_and_the_activation_can_be_chosen():
    gate, down = nn.Linear(4, 6), nn.Linear(6, 4)
    x = torch.randn(2, 3, 4)
    expected = down(nn.functional.relu(gate(x)))
    torch.testing.assert_close(FeedForward(gate_proj=gate, down_proj=down, activation=nn.ReLU())(x), expected)


def test_parameters_are_named_w1_w2_w3():
    layers = {name: nn.Linear(4, 4, bias=False) for name in ("gate_proj", "down_proj", "up_proj")}
    assert list(FeedForward(**layers).state_dict()) == ["w1.weight", "w2.weight", "w3.weight"]


def test_gradients_are_those_of_the_formula_and_the_activation_is_not_kept():
    torch.manual_seed(0)
    gate, down, up = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 6)
    x, weights = torch.randn(2, 3, 4), [gate.weight, down.weight, up.weight]
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: [kept.append(one.numel()), one][1], lambda one: one):
        found = FeedForward(gate_proj=gate, down_proj=down, up_proj=up)(x)
    assert kept.count(2 * 3 * 6) == 3  # the gate's, up's, and what goes down
    expected = down(nn.functional.silu(gate(x)) * up(x))
    assert torch.equal(found, expected)
    for ours, other in zip(
        torch.autograd.grad(found.square().sum(), weights),
        torch.autograd.grad(expected.square().sum(), weights),
        strict=True,
    ):
        torch.testing.assert_close(ours, other)


def test_another_activation_gates_too():
    gate, down, up = nn.Linear(4, 6), nn.Linear(6, 4), nn.Linear(4, 6)
    x = torch.randn(2, 3, 4)
    feed_forward = FeedForward(gate_proj=gate, down_proj=down, up_proj=up, activation=nn.GELU())
    torch.testing.assert_close(feed_forward(x), down(nn.functional.gelu(gate(x)) * up(x)))
