from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError
from torchpipe.models import build_decoder
from torchpipe.models.tiny import TINY_LLAMA3
from torchpipe.modules import FeedForward
from torchpipe.modules.peft import DoRALinear, LoRAConfig, LoRALinear, add_lora, get_adapter_params

SMALL = replace(
    TINY_LLAMA3,
    vocab_size=60,
    num_layers=2,
    num_heads=4,
    embed_dim=32,
    intermediate_dim=48,
    max_seq_len=32,
    tied_embeddings=False,
)


def test_the_named_matrices_get_adapters_and_nothing_else_does():
    model = build_decoder(SMALL)
    add_lora(model, LoRAConfig(attn_modules=("q_proj", "output_proj"), mlp=True, output=True, rank=2))
    adapted = [name for name, module in model.named_modules() if isinstance(module, LoRALinear)]
    parts = ("attn.q_proj", "attn.output_proj", "mlp.w1", "mlp.w2", "mlp.w3")
    assert sorted(adapted) == sorted([*(f"layers.{layer}.{part}" for layer in (0, 1) for part in parts), "output"])
    names = set(model.state_dict())
    assert {"layers.0.attn.q_proj.weight", "layers.0.attn.q_proj.lora_a.weight", "output.lora_b.weight"} <= names


@pytest.mark.parametrize("use_dora", [False, True])
def test_base_weights_stay_the_very_same_and_are_frozen(use_dora: bool):
    model = build_decoder(SMALL)
    before = dict(model.named_parameters())
    config = LoRAConfig(attn_modules=("v_proj",), use_dora=use_dora)
    add_lora(model, config)
    after = dict(model.named_parameters())
    assert model.lora is config
    assert all(after[name] is parameter and not parameter.requires_grad for name, parameter in before.items())
    adapters = get_adapter_params(model)
    assert set(adapters) == set(after) - set(before)
    assert all(parameter.requires_grad for parameter in adapters.values())
    assert isinstance(model.get_submodule("layers.0.attn.v_proj"), DoRALinear) == use_dora


def test_a_feed_forward_network_without_a_gate_has_two_adapters():
    model = build_decoder(replace(SMALL, num_layers=1))
    model.set_submodule("layers.0.mlp", FeedForward(gate_proj=nn.Linear(32, 8), down_proj=nn.Linear(8, 32)))
    add_lora(model, LoRAConfig(attn_modules=(), mlp=True))
    adapted = [name for name, module in model.named_modules() if isinstance(module, LoRALinear)]
    assert adapted == ["layers.0.mlp.w1", "layers.0.mlp.w2"]
    bias = model.get_parameter("layers.0.mlp.w1.bias")
    assert not bias.requires_grad
    assert model(torch.zeros(1, 3, dtype=torch.int64)).shape == (1, 3, 60)


def test_a_decoder_can_be_adapted_once():
    model = build_decoder(SMALL)
    add_lora(model, LoRAConfig(attn_modules=("q_proj",)))
    with pytest.raises(ConfigError, match="The model has LoRA adapters already. Merge them first"):
        add_lora(model, LoRAConfig(attn_modules=("v_proj",)))


def test_what_cannot_be_adapted_is_refused_before_anything_changes():
    tied = build_decoder(replace(SMALL, tied_embeddings=True))
    with pytest.raises(ConfigError, match="the token embedding's weight, which can't be adapted .* Leave it False, or"):
        add_lora(tied, LoRAConfig(attn_modules=("q_proj",), output=True))
    identity, missing, empty = build_decoder(SMALL), build_decoder(SMALL), build_decoder(replace(SMALL, num_layers=1))
    identity.set_submodule("layers.1.attn.k_proj", nn.Identity())
    with pytest.raises(ConfigError, match=r"layers\.1\.attn\.k_proj is a Identity, and a LoRA adapter stands beside"):
        add_lora(identity, LoRAConfig(attn_modules=("q_proj", "k_proj")))
    del missing.layers[1].attn
    with pytest.raises(ConfigError, match=r"The model has no module layers\.1\.attn\.q_proj, which was to have"):
        add_lora(missing, LoRAConfig(attn_modules=("q_proj",)))
    del empty.layers[0]
    with pytest.raises(ConfigError, match="The model has no layers, so there is nothing"):
        add_lora(empty, LoRAConfig(attn_modules=("q_proj",)))
    for model in (tied, identity, missing, empty):
        assert model.lora is None
        assert all(parameter.requires_grad for parameter in model.parameters())
        assert not any(isinstance(module, LoRALinear) for module in model.modules())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"attn_modules": ("q_porj",)},
            r"'q_porj', no projection of an attention\. Did you mean 'q_proj'\? Choose from",
        ),
        ({"attn_modules": ("w1",)}, r"'w1', no .*Choose from 'q_proj', .*; apply_lora_to_mlp and apply_lora_to_output"),
        ({"attn_modules": ()}, "No matrix would have an adapter: lora_attn_modules is empty"),
        ({"rank": -1}, "rank of a LoRA adapter is -1"),
        ({"alpha": -2.0}, r"alpha of a LoRA adapter is -2\.0"),
        ({"dropout": 1.5}, r"dropout of a LoRA adapter is 1\.5"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(options: dict, message: str):
    settings: dict[str, Any] = {"attn_modules": ("q_proj",), **options}
    with pytest.raises(ConfigError, match=message):
        LoRAConfig(**settings)
