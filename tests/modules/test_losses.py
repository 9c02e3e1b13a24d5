import copy

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import LinearCrossEntropyLoss, linear_cross_entropy, losses
from torchpipe.modules.loss import LinearCrossEntropyLoss as AtTorchtunesPath


def inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(2, 9, 8, generator=generator).to(dtype).requires_grad_()
    weight = torch.randn(40, 8, generator=generator).to(dtype).requires_grad_()
    targets = torch.randint(0, 40, (2, 9), generator=generator)
    targets[0, :4] = -100
    targets[1, 8] = -100
    return hidden, weight, targets


def full_logits(hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, **options) -> torch.Tensor:
    return nn.functional.cross_entropy((hidden @ weight.T).flatten(0, -2), targets.flatten(), **options)


def error(value: torch.Tensor | None, expected: torch.Tensor | None) -> float:
    assert value is not None
    assert expected is not None
    value, expected = value.detach().double(), expected.detach().double()
    return float((value - expected).norm() / expected.norm())


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("num_chunks", [1, 3, 8, 100])
def test_loss_and_gradients_equal_cross_entropy_on_full_logits(reduction, num_chunks: int):
    hidden, weight, targets = inputs()
    loss = linear_cross_entropy(hidden, weight, targets, reduction=reduction, num_chunks=num_chunks)
    loss.backward()
    full_hidden, full_weight, _ = inputs()
    expected = full_logits(full_hidden, full_weight, targets, reduction=reduction)
    expected.backward()
    assert loss.dtype == torch.float32
    assert error(loss, expected) < 1e-5
    assert error(hidden.grad, full_hidden.grad) < 1e-5
    assert error(weight.grad, full_weight.grad) < 1e-5


def test_gradients_pass_gradcheck_in_float64():
    hidden, weight, targets = inputs(torch.float64)
    assert torch.autograd.gradcheck(lambda h, w: linear_cross_entropy(h, w, targets, num_chunks=4), (hidden, weight))


def test_bfloat16_gradients_are_as_near_as_bfloat16_allows():
    hidden, weight, targets = inputs(torch.bfloat16)
    loss = linear_cross_entropy(hidden, weight, targets)
    loss.backward()
    wide_hidden, wide_weight = (each.detach().double().requires_grad_() for each in (hidden, weight))
    expected = full_logits(wide_hidden, wide_weight, targets)
    expected.backward()
    assert loss.dtype == torch.float32
    assert hidden.grad is not None
    assert weight.grad is not None
    assert hidden.grad.dtype == weight.grad.dtype == torch.bfloat16
    assert error(loss, expected) < 2**-8
    assert error(hidden.grad, wide_hidden.grad) < 2**-6
    assert error(weight.grad, wide_weight.grad) < 2**-6


def test_autocast_sets_the_type_of_the_logits():
    hidden, weight, targets = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy(hidden, weight, targets)
    loss.backward()
    low_hidden, low_weight, _ = inputs(torch.bfloat16)
    assert loss.item() == linear_cross_entropy(low_hidden, low_weight, targets).item()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.float32


def test_huge_logits_stay_finite():
    hidden, weight, targets = inputs()
    loss = linear_cross_entropy(hidden * 1e4, weight, targets)
    loss.backward()
    assert error(loss, full_logits(hidden * 1e4, weight, targets)) < 1e-5
    assert hidden.grad is not None
    assert bool(hidden.grad.isfinite().all())


def test_a_batch_in_which_nothing_counts_gives_zero_and_gradients_of_zeros():
    hidden, weight, targets = inputs()
    loss = linear_cross_entropy(hidden, weight, torch.full_like(targets, -100))
    loss.backward()
    assert loss.item() == 0.0
    assert hidden.grad is not None
    assert weight.grad is not None
    assert not hidden.grad.any()
    assert not weight.grad.any()


def test_another_ignore_index_is_obeyed():
    hidden, weight, targets = inputs()
    expected = linear_cross_entropy(hidden, weight, targets)
    renamed = targets.masked_fill(targets == -100, 99)
    assert torch.equal(linear_cross_entropy(hidden, weight, renamed, ignore_index=99), expected)


@pytest.mark.parametrize("frozen", ["hidden", "weight", "both"])
def test_frozen_inputs_get_no_gradient(frozen: str):
    hidden, weight, targets = inputs()
    expected_hidden, expected_weight = torch.autograd.grad(
        linear_cross_entropy(hidden, weight, targets), (hidden, weight)
    )
    hidden.requires_grad_(frozen == "weight")
    weight.requires_grad_(frozen == "hidden")
    loss = linear_cross_entropy(hidden, weight, targets)
    assert loss.requires_grad == (frozen != "both")
    if frozen == "both":
        return
    loss.backward()
    grad, expected = (weight.grad, expected_weight) if frozen == "hidden" else (hidden.grad, expected_hidden)
    assert grad is not None
    assert torch.equal(grad, expected)
    assert (hidden if frozen == "hidden" else weight).grad is None


def test_without_grad_mode_the_loss_is_the_same():
    hidden, weight, targets = inputs()
    with torch.no_grad():
        loss = linear_cross_entropy(hidden, weight, targets)
    assert not loss.requires_grad
    assert torch.equal(loss, linear_cross_entropy(hidden, weight, targets))


def test_backward_can_run_twice_and_the_loss_can_be_used_twice():
    hidden, weight, targets = inputs()
    loss = linear_cross_entropy(hidden, weight, targets)
    first = torch.autograd.grad(loss, weight, retain_graph=True)[0].clone()
    again = torch.autograd.grad(loss, weight, retain_graph=True)[0]
    tripled = torch.autograd.grad(2 * loss + loss, weight)[0]
    assert torch.equal(first, again)
    torch.testing.assert_close(tripled, 3 * first)


def test_one_weight_for_embedding_and_projection_gets_both_gradients():
    _, weight, targets = inputs()
    tokens = torch.arange(18).view(2, 9)
    grads = [
        torch.autograd.grad(loss(nn.functional.embedding(tokens, weight), weight, targets), weight)[0]
        for loss in (linear_cross_entropy, full_logits)
    ]
    assert error(grads[0], grads[1]) < 1e-5


def test_blocks_never_pass_the_byte_limit(monkeypatch: pytest.MonkeyPatch):
    weight = torch.empty(128_256, 1, device="meta")
    assert losses._rows_per_chunk(100_000, weight, 8) * 128_256 * 4 <= losses.MAX_CHUNK_BYTES
    assert losses._rows_per_chunk(80, weight, 8) == 10
    assert losses._rows_per_chunk(0, weight, 8) == 1
    hidden, small_weight, targets = inputs()
    expected = linear_cross_entropy(hidden, small_weight, targets)
    monkeypatch.setattr(losses, "MAX_CHUNK_BYTES", 1)  # one row at a time
    torch.testing.assert_close(linear_cross_entropy(hidden, small_weight, targets), expected)


def test_shapes_that_do_not_belong_together_are_refused():
    hidden, weight, targets = inputs()
    with pytest.raises(DataError, match=r"hidden is \[2, 9, 8\], weight is \[40, 8\] and targets is \[2, 8\]"):
        linear_cross_entropy(hidden, weight, targets[:, :8])
    with pytest.raises(DataError, match=r"weight is \[40, 7\]"):
        linear_cross_entropy(hidden, weight[:, :7], targets)
    with pytest.raises(ConfigError, match="num_chunks is 0"):
        linear_cross_entropy(hidden, weight, targets, num_chunks=0)


@pytest.mark.parametrize("tied_embeddings", [True, False])
def test_the_loss_module_trains_a_model_as_full_logits_do(tied_embeddings: bool):
    torch.manual_seed(0)
    model = tiny_llama3(40, num_layers=1, embed_dim=32, intermediate_dim=32, tied_embeddings=tied_embeddings)
    twin = copy.deepcopy(model)
    tokens, targets = torch.randint(0, 40, (2, 9)), inputs()[2]
    loss = LinearCrossEntropyLoss(num_output_chunks=3)
    loss.set_model_output(model)
    value = loss(model(tokens), targets)
    value.backward()
    expected = nn.functional.cross_entropy(twin(tokens).flatten(0, 1), targets.flatten())
    expected.backward()
    assert error(value, expected) < 1e-5
    for parameter, twins in zip(model.parameters(), twin.parameters(), strict=True):
        assert error(parameter.grad, twins.grad) < 1e-5


def test_the_loss_module_owns_no_parameters():
    model = tiny_llama3(40, num_layers=1)
    loss = LinearCrossEntropyLoss()
    loss.set_model_output(model)
    assert model.skip_output_layer
    assert not list(loss.parameters())
    assert not loss.state_dict()


def test_the_loss_module_refuses_what_it_cannot_stand_in_for():
    loss = LinearCrossEntropyLoss()
    with pytest.raises(ConfigError, match=r"Call loss.set_model_output\(model\) first"):
        loss(torch.zeros(1, 2, 4), torch.zeros(1, 2, dtype=torch.int64))
    model = tiny_llama3(40, num_layers=1)
    model.output = nn.Linear(128, 40, bias=True)
    with pytest.raises(ConfigError, match=r"use nn\.Linear without a bias"):
        loss.set_model_output(model)
    assert not model.skip_output_layer


def test_torchtunes_path_leads_to_the_same_class():
    assert AtTorchtunesPath is LinearCrossEntropyLoss


# --- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("num_chunks", [1, 3, 100])
def test_weighted_loss_and_gradients_are_the_weighted_mean_of_those_of_each_target(reduction, num_chunks: int):
    hidden, weight, targets = inputs()
    weights = torch.rand(targets.shape, generator=torch.Generator().manual_seed(1)) * 3
    weights[0, 5:7] = 0
    loss = linear_cross_entropy(
        hidden, weight, targets, loss_weights=weights, reduction=reduction, num_chunks=num_chunks
    )
    loss.backward()
    full_hidden, full_weight, _ = inputs()
    each = full_logits(full_hidden, full_weight, targets, reduction="none")
    counted = weights.flatten() * (targets.flatten() != -100)
    expected = (each * counted).sum() / (counted.sum() if reduction == "mean" else 1)
    expected.backward()
    assert error(loss, expected) < 1e-5
    assert error(hidden.grad, full_hidden.grad) < 1e-5
    assert error(weight.grad, full_weight.grad) < 1e-5


def test_weights_of_one_change_nothing_and_of_zero_are_no_target():
    hidden, weight, targets = inputs()
    plain = linear_cross_entropy(hidden, weight, targets)
    assert torch.equal(linear_cross_entropy(hidden, weight, targets, loss_weights=torch.ones(targets.shape)), plain)
    weights = torch.ones(targets.shape)
    weights[1] = 0
    ignored = targets.clone()
    ignored[1] = -100
    some = linear_cross_entropy(hidden, weight, targets, loss_weights=weights)
    assert torch.equal(some, linear_cross_entropy(hidden, weight, ignored))
    nothing = linear_cross_entropy(hidden, weight, targets, loss_weights=torch.zeros(targets.shape))
    assert nothing.item() == 0
    nothing.backward()


def test_weighted_gradients_pass_gradcheck_in_float64():
    hidden, weight, targets = inputs(torch.float64)
    weights = torch.linspace(0, 2, targets.numel(), dtype=torch.float64).reshape(targets.shape)

    def loss(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return linear_cross_entropy(hidden, weight, targets, loss_weights=weights)

    assert torch.autograd.gradcheck(loss, (hidden, weight))


def test_the_loss_module_takes_weights_and_one_for_each_target():
    loss = LinearCrossEntropyLoss()
    model = nn.Module()
    model.output = nn.Linear(8, 40, bias=False)
    loss.set_model_output(model)
    hidden, _, targets = inputs()
    weights = torch.full(targets.shape, 0.5)
    assert torch.allclose(loss(hidden, targets, loss_weights=weights), loss(hidden, targets))
    with pytest.raises(DataError, match=r"loss_weights is \[2, 3\] and targets is \[2, 9\]"):
        loss(hidden, targets, loss_weights=torch.ones(2, 3))
