from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.modules.peft import (
    AdapterModule,
    DoRALinear,
    LoRALinear,
    disable_adapter,
    get_adapter_params,
    initialize_adapters,
    initialize_dora_magnitude,
    set_trainable_params,
)


class Bottleneck(nn.Module):
    """An adapter of a user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(4, 4)
        self.down = nn.Linear(4, 2, bias=False)

    def adapter_params(self) -> list[str]:
        return ["down.weight"]


def mixed() -> Any:
    return nn.Sequential(
        LoRALinear(4, 4, rank=2, alpha=4.0), nn.Linear(4, 4), DoRALinear(4, 4, rank=2, alpha=4.0), Bottleneck()
    )


ADAPTERS = [
    "0.lora_a.weight",
    "0.lora_b.weight",
    "2.magnitude",
    "2.lora_a.weight",
    "2.lora_b.weight",
    "3.down.weight",
]


def test_adapters_are_found_whoever_wrote_them():
    model = mixed()
    parameters = get_adapter_params(model)
    assert list(parameters) == ADAPTERS
    assert all(parameters[name] is model.get_parameter(name) for name in parameters)
    assert [isinstance(module, AdapterModule) for module in model] == [True, False, True, True]
    assert get_adapter_params(nn.Linear(2, 2)) == {}


def test_an_adapter_without_the_parameter_it_names_is_refused():
    model = Bottleneck()
    model.adapter_params = lambda: ["dwn.weight"]
    with pytest.raises(ConfigError, match=r"'dwn\.weight', which is none .* Did you mean 'down\.weight'\?"):
        get_adapter_params(model)


@pytest.mark.parametrize("as_names", [dict, set, list])
def test_only_the_named_parameters_are_trained(as_names: type):
    model = mixed()
    model.requires_grad_(False)
    set_trainable_params(model, as_names(get_adapter_params(model)))
    assert [name for name, parameter in model.named_parameters() if parameter.requires_grad] == ADAPTERS


def test_a_name_that_no_parameter_has_is_refused_before_anything_changes():
    model = mixed()
    with pytest.raises(ConfigError, match=r"no parameter '0\.lora_c\.weight' to train\. Did you mean '0\.lora_"):
        set_trainable_params(model, {"0.lora_c.weight"})
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_without_its_adapters_a_model_is_its_base():
    model = mixed()[:3]
    for name, parameter in get_adapter_params(model).items():
        nn.init.normal_(parameter)
        assert name in ADAPTERS
    plain = nn.Sequential(*(nn.Linear(4, 4, bias=module.bias is not None) for module in model))
    plain.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if name not in ADAPTERS})
    x = torch.randn(3, 4)
    adapted = model(x)
    with disable_adapter(model):
        assert torch.equal(model(x), plain(x))
    assert torch.equal(model(x), adapted)
    assert not torch.allclose(adapted, plain(x))


def test_blocks_without_adapters_nest_and_survive_errors():
    model = mixed()
    first, third = model[0], model[2]
    third.disabled = True

    def fail_inside() -> None:
        with disable_adapter(model):
            with disable_adapter(model):
                assert (first.disabled, third.disabled) == (True, True)
            assert (first.disabled, third.disabled) == (True, True)
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert (first.disabled, third.disabled) == (False, True)
    assert not hasattr(model[3], "disabled")


def test_blocks_that_overlap_leave_the_adapters_as_they_were():
    model = mixed()
    model[2].disabled = True
    first, second = disable_adapter(model), disable_adapter(model)  # as two threads would enter and leave them
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert (model[0].disabled, model[2].disabled) == (True, True)
    second.__exit__(None, None, None)
    assert (model[0].disabled, model[2].disabled) == (False, True)


def test_a_model_from_the_meta_device_gets_fresh_adapters():
    with torch.device("meta"):
        model = mixed()[:3]
    for fill in (initialize_adapters, initialize_dora_magnitude):
        with pytest.raises(CheckpointError, match=r"on the meta device.*Call model\.to_empty"):
            fill(model)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("nan"))
        for layer in model:
            nn.init.normal_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    initialize_adapters(model)
    x = torch.randn(3, 4)
    expected = x
    for layer in model:
        expected = nn.functional.linear(expected, layer.weight, layer.bias)
    assert torch.equal(model(x), expected)
    assert bool((model[0].lora_a.weight != 0).all())


def test_new_magnitudes_leave_the_rest_of_the_adapters_alone():
    model = mixed()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    nn.init.normal_(model[2].weight)
    initialize_dora_magnitude(model)
    changed = [name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])]
    assert changed == ["2.weight", "2.magnitude"]
    torch.testing.assert_close(model[2].magnitude, model[2].weight.norm(dim=1))
