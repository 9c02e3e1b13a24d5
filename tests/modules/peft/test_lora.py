import copy
import io
import math
import pickle

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.modules.peft import DoRALinear, LoRALinear

KINDS = [LoRALinear, DoRALinear]


def trained(kind: type[LoRALinear], dtype: torch.dtype = torch.float64, *, use_bias: bool = False, **options):
    """A layer whose adapter does something."""
    torch.manual_seed(0)
    layer = kind(6, 5, rank=3, alpha=4.5, use_bias=use_bias, **options).to(dtype)
    nn.init.normal_(layer.lora_b.weight)
    if isinstance(layer, DoRALinear):
        with torch.no_grad():
            layer.magnitude.mul_(torch.linspace(0.5, 2.0, 5, dtype=dtype))
    return layer


def test_the_adapters_output_is_scaled_by_alpha_over_rank():
    layer = trained(LoRALinear)
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    correction = x @ layer.lora_a.weight.T @ layer.lora_b.weight.T * (4.5 / 3)
    torch.testing.assert_close(layer(x), x @ layer.weight.T + correction)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_bias", [False, True])
def test_a_fresh_adapter_changes_nothing(kind: type[LoRALinear], use_bias: bool):
    layer = kind(6, 5, rank=3, alpha=4.5, use_bias=use_bias)
    x = torch.randn(4, 6)
    assert torch.equal(layer(x), nn.functional.linear(x, layer.weight, layer.bias))


def test_lora_a_is_kaiming_uniform_and_lora_b_zero():
    torch.manual_seed(0)
    layer = LoRALinear(400, 50, rank=200, alpha=1.0)
    bound = math.sqrt(6 / ((1 + 5) * 400))  # gain sqrt(2 / (1 + a^2)) with a = sqrt(5), times sqrt(3 / fan_in)
    a = layer.lora_a.weight
    assert a.abs().max().item() <= bound
    assert a.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.01)
    assert bool((layer.lora_b.weight == 0).all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_bias", [False, True])
@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 6), (0, 6)])
def test_the_merged_weight_maps_as_the_adapted_layer(kind: type[LoRALinear], use_bias: bool, shape: tuple[int, ...]):
    layer = trained(kind, use_bias=use_bias)
    x = torch.randn(shape, dtype=torch.float64)
    torch.testing.assert_close(layer(x), nn.functional.linear(x, layer.merged_weight(), layer.bias))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_bias", [False, True])
def test_gradients_are_those_of_finite_differences(kind: type[LoRALinear], use_bias: bool):
    layer = trained(kind, use_bias=use_bias)
    if isinstance(layer, DoRALinear):  # finite differences would see the norm that the gradient takes as constant
        parameters = {"magnitude": layer.magnitude}
    else:
        parameters = dict(layer.named_parameters())

    def forward(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, dict(zip(parameters, values, strict=True)), (x,))

    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(forward, (x, *parameters.values()))


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_on_the_adapters_input_alone_and_only_in_training(kind: type[LoRALinear]):
    layer = trained(kind, dropout=0.5)
    x = torch.randn(64, 6, dtype=torch.float64)
    assert torch.equal(layer.eval()(x), trained(kind)(x))
    layer.train()
    torch.manual_seed(3)
    out = layer(x)
    torch.manual_seed(3)
    dropped = nn.functional.dropout(x, 0.5)
    hand = x @ layer.weight.T + dropped @ layer.lora_a.weight.T @ layer.lora_b.weight.T * layer.scaling
    if isinstance(layer, DoRALinear):
        whole = layer.weight + layer.scaling * layer.lora_b.weight @ layer.lora_a.weight
        hand = hand * layer.magnitude / whole.norm(dim=1)
    torch.testing.assert_close(out, hand)


@pytest.mark.parametrize("kind", KINDS)
def test_an_input_of_another_width_is_refused(kind: type[LoRALinear]):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        kind(6, 5, rank=3, alpha=1.0)(torch.ones(2, 12))  # as many numbers as four rows of 6 have


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use_bias", [False, True])
def test_a_layer_made_of_a_linear_one_holds_its_very_parameters(kind: type[LoRALinear], use_bias: bool):
    linear = nn.Linear(6, 5, bias=use_bias, dtype=torch.bfloat16).eval()
    layer = kind.from_linear(linear, rank=2, alpha=3.0)
    assert layer.weight is linear.weight
    assert layer.bias is linear.bias
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.bfloat16}
    assert not layer.training
    x = torch.randn(4, 6, dtype=torch.bfloat16)
    torch.testing.assert_close(layer(x), linear(x))


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_made_of_a_linear_one_starts_as_one_made_alone(kind: type[LoRALinear]):
    torch.manual_seed(0)
    linear = nn.Linear(6, 5, bias=False)
    made = kind.from_linear(linear, rank=2, alpha=3.0)
    torch.manual_seed(0)
    alone = kind(6, 5, rank=2, alpha=3.0)
    assert bool((made.lora_a.weight != 0).all())
    assert made.state_dict().keys() == alone.state_dict().keys()
    assert torch.equal(made.state_dict()["weight"], alone.state_dict()["weight"])


@pytest.mark.parametrize("kind", KINDS)
def test_copies_and_pickles_are_whole(kind: type[LoRALinear]):
    layer = trained(kind, use_bias=True)
    x = torch.randn(4, 6, dtype=torch.float64)
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    copies = [copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), torch.load(file, weights_only=False)]
    for other in copies:
        assert torch.equal(other(x), layer(x))
        assert other.weight is not layer.weight


@pytest.mark.parametrize("kind", KINDS)
def test_it_works_in_bfloat16_and_under_autocast(kind: type[LoRALinear]):
    x = torch.randn(16, 6, dtype=torch.float64)
    expected = trained(kind)(x)
    low = trained(kind, torch.bfloat16)
    assert low(x.bfloat16()).dtype == torch.bfloat16
    torch.testing.assert_close(low(x.bfloat16()).double(), expected, rtol=2e-2, atol=5e-2)
    single = trained(kind, torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = single(x.float())
    torch.testing.assert_close(mixed.double(), expected, rtol=2e-2, atol=5e-2)
    mixed.float().sum().backward()
    assert single.lora_b.weight.grad is not None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank of a LoRA adapter is 0. Give an integer of 1 or more"),
        ({"rank": 2.0}, r"rank of a LoRA adapter is 2\.0"),
        ({"rank": True}, "rank of a LoRA adapter is True"),
        ({"alpha": 0}, "alpha of a LoRA adapter is 0. Give a number above 0"),
        ({"alpha": math.inf}, "alpha of a LoRA adapter is inf"),
        ({"alpha": math.nan}, "alpha of a LoRA adapter is nan"),
        ({"alpha": "16"}, "alpha of a LoRA adapter is '16'"),
        ({"dropout": 1.0}, r"dropout of a LoRA adapter is 1\.0. Give a number from 0 to below 1"),
        ({"dropout": -0.1}, r"dropout of a LoRA adapter is -0\.1"),
        ({"quantize_base": True}, "quantize_base is True, and torchpipe keeps base weights as they are"),
        ({"block_size": 64}, "Nothing is quantised here, and block_size was given"),
    ],
)
def test_what_no_adapter_can_have_is_refused(kind: type[LoRALinear], options: dict, message: str):
    with pytest.raises(ConfigError, match=message):
        kind(6, 5, **{"rank": 2, "alpha": 4.0} | options)
