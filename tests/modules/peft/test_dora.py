import pytest
import torch
from torch import nn

from torchpipe.errors import CheckpointError
from torchpipe.modules.peft import DoRALinear
from torchpipe.modules.peft.merging import dora_scale, merged_weight, row_norms


def layer(dtype: torch.dtype = torch.float64) -> DoRALinear:
    torch.manual_seed(0)
    made = DoRALinear(7, 5, rank=2, alpha=3.0).to(dtype)
    nn.init.normal_(made.lora_b.weight)
    return made


def whole(made: DoRALinear) -> torch.Tensor:
    return made.weight + made.scaling * made.lora_b.weight @ made.lora_a.weight


def test_the_magnitude_starts_as_the_norm_of_each_row():
    fresh = DoRALinear(7, 5, rank=2, alpha=3.0)
    torch.testing.assert_close(fresh.magnitude, fresh.weight.norm(dim=1))


def test_norms_of_rows_are_those_of_the_written_out_sum():
    made = layer()
    norms = row_norms(made.weight, made.lora_a.weight, made.lora_b.weight, made.scaling)
    torch.testing.assert_close(norms, whole(made).norm(dim=1))
    low = made.to(torch.bfloat16)
    norms = row_norms(low.weight, low.lora_a.weight, low.lora_b.weight, low.scaling)
    assert norms.dtype == torch.float32
    torch.testing.assert_close(norms, whole(low.float()).norm(dim=1), rtol=5e-3, atol=0)


def test_the_output_is_the_direction_times_the_magnitude():
    made = layer()
    with torch.no_grad():
        made.magnitude.copy_(torch.arange(1.0, 6.0))
    x = torch.randn(4, 7, dtype=torch.float64)
    direction = whole(made) / whole(made).norm(dim=1, keepdim=True)
    torch.testing.assert_close(made(x), x @ (made.magnitude.unsqueeze(1) * direction).T)


def test_the_norm_is_a_constant_for_the_gradient():
    made = layer()
    x = torch.randn(4, 7, dtype=torch.float64)
    target = torch.randn(4, 5, dtype=torch.float64)
    (made(x) * target).sum().backward()
    constant = whole(made).detach().norm(dim=1, keepdim=True)
    copies = {name: parameter.detach().clone().requires_grad_() for name, parameter in made.named_parameters()}
    product = copies["weight"] + made.scaling * copies["lora_b.weight"] @ copies["lora_a.weight"]
    ((x @ (copies["magnitude"].unsqueeze(1) * product / constant).T) * target).sum().backward()
    for name, parameter in made.named_parameters():
        torch.testing.assert_close(parameter.grad, copies[name].grad, msg=name)


def test_new_base_weights_need_a_new_magnitude():
    made = DoRALinear(7, 5, rank=2, alpha=3.0)
    nn.init.normal_(made.weight)
    x = torch.randn(4, 7)
    assert not torch.allclose(made(x), nn.functional.linear(x, made.weight))
    made.initialize_dora_magnitude()
    assert torch.equal(made(x), nn.functional.linear(x, made.weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_it_changes_nothing_at_first_in_any_type(dtype: torch.dtype):
    made = DoRALinear.from_linear(nn.Linear(64, 48, bias=False, dtype=dtype), rank=4, alpha=8.0)
    x = torch.randn(4, 64, dtype=dtype)
    assert torch.equal(made(x), nn.functional.linear(x, made.weight))


def test_a_row_of_zeros_stays_one():
    made = DoRALinear(7, 5, rank=2, alpha=3.0)
    with torch.no_grad():
        made.weight[2] = 0
    made.initialize_dora_magnitude()
    out = made(torch.randn(4, 7))
    assert bool(out.isfinite().all())
    assert bool((out[:, 2] == 0).all())
    assert bool((made.merged_weight()[2] == 0).all())
    out.sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in made.parameters() if parameter.grad is not None)


def test_a_correction_that_undoes_a_row_leaves_numbers():
    weight, a, b = torch.ones(1, 4), torch.ones(1, 4), torch.full((1, 1), -1.0)
    scale = dora_scale(torch.ones(1), weight, a, b, 1.0)
    assert bool(torch.isfinite(merged_weight(weight, a, b, 1.0)).all())
    assert not bool(scale.isnan().any())


def test_a_magnitude_on_the_meta_device_is_refused():
    with torch.device("meta"):
        made = DoRALinear(7, 5, rank=2, alpha=3.0)
    with pytest.raises(CheckpointError, match=r"on the meta device, without values\. Call model\.to_empty"):
        made.initialize_dora_magnitude()
