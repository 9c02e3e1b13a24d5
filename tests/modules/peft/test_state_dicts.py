import copy
from typing import Any

import pytest
import torch
from torch import nn

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.modules.peft import (
    DoRALinear,
    LoRALinear,
    get_adapter_state_dict,
    get_lora_module_names,
    get_merged_lora_ckpt,
    validate_missing_and_unexpected_for_lora,
)


def model() -> Any:
    torch.manual_seed(0)
    made = nn.ModuleDict({"explorator": nn.Linear(4, 4), "q": LoRALinear(4, 4, 2, 3.0), "v": DoRALinear(4, 4, 2, 3.0)})
    for name, parameter in made.named_parameters():
        if "lora_b" in name:
            nn.init.normal_(parameter)
    return made


def test_adapters_are_told_by_the_end_of_their_names():
    state = model().state_dict()
    adapters = get_adapter_state_dict(state)
    assert sorted(adapters) == [
        "q.lora_a.weight",
        "q.lora_b.weight",
        "v.lora_a.weight",
        "v.lora_b.weight",
        "v.magnitude",
    ]
    assert get_adapter_state_dict(state, device="meta")["v.magnitude"].is_meta
    assert get_adapter_state_dict(state, device=None)["v.magnitude"] is state["v.magnitude"]


def test_merging_changes_the_dict_and_no_weight():
    made = model()
    before = copy.deepcopy(made.state_dict())
    state = made.state_dict()
    merged = get_merged_lora_ckpt(state, rank=2, alpha=3.0)
    assert merged is state
    assert sorted(merged) == ["explorator.bias", "explorator.weight", "q.weight", "v.weight"]
    assert all(torch.equal(tensor, before[name]) for name, tensor in made.state_dict().items())
    x = torch.randn(3, 4)
    for name in ("q", "v"):
        torch.testing.assert_close(x @ merged[f"{name}.weight"].T, made[name](x))


def test_merging_what_has_no_adapters_changes_nothing():
    state = nn.Linear(4, 4).state_dict()
    before = dict(state)
    assert get_merged_lora_ckpt(state, rank=2, alpha=3.0) == before


def test_half_an_adapter_is_named_and_nothing_changes():
    state = model().state_dict()
    del state["q.lora_b.weight"], state["v.weight"]
    names = list(state)
    with pytest.raises(
        CheckpointError, match=r"without these tensors: 'q\.lora_b\.weight', 'v\.weight'\. Give a whole"
    ):
        get_merged_lora_ckpt(state, rank=2, alpha=3.0)
    assert list(state) == names
    with pytest.raises(ConfigError, match="rank of a LoRA adapter is 0"):
        get_merged_lora_ckpt(model().state_dict(), rank=0, alpha=3.0)


def test_names_of_modules_are_a_new_list():
    attention = ["q_proj", "output_proj"]
    assert get_lora_module_names(attention, False, True) == ["q_proj", "output_proj", "output"]
    assert get_lora_module_names(attention, True, False) == ["q_proj", "output_proj", "w1", "w2", "w3"]
    assert attention == ["q_proj", "output_proj"]


def test_keys_of_the_other_half_may_be_missing():
    validate_missing_and_unexpected_for_lora(
        ["q_proj"],
        True,
        False,
        base_missing=["layers.0.attn.q_proj.lora_a.weight", "layers.0.mlp.w1.magnitude"],
        base_unexpected=[],
        lora_missing=["layers.0.attn.q_proj.weight", "norm.scale"],
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"base_missing": ["norm.scale"]}, r"missing from the base: 'norm\.scale'\. Load files"),
        ({"base_missing": ["layers.0.attn.k_proj.lora_a.weight"]}, "missing from the base: 'layers.0.attn.k_proj"),
        ({"base_unexpected": ["a", "b"]}, "unexpected in the base: 'a', 'b'"),
        ({"lora_missing": ["layers.0.attn.q_proj.lora_a.weight"]}, "missing from the adapters: 'layers.0.attn.q_proj"),
        ({"lora_unexpected": ["a"], "base_missing": ["b"]}, "from the base: 'b'; unexpected in the adapters: 'a'"),
    ],
)
def test_a_key_that_should_be_there_is_named(keys: dict, message: str):
    with pytest.raises(CheckpointError, match=message):
        validate_missing_and_unexpected_for_lora(["q_proj"], False, False, **keys)
