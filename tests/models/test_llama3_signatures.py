"""The builders of Llama 3 and later take torchtune's arguments: its names, in its order, with its defaults."""

import importlib
import inspect
from typing import Any

import pytest

from torchpipe.modules import peft

REQUIRED = inspect.Parameter.empty
LORA: dict[str, Any] = {
    "lora_attn_modules": REQUIRED,
    "apply_lora_to_mlp": False,
    "apply_lora_to_output": False,
    "lora_rank": 8,
    "lora_alpha": 16,
    "lora_dropout": 0.0,
}
DORA_FIRST: dict[str, Any] = {**LORA, "use_dora": False, "quantize_base": False}
QUANTIZE_FIRST: dict[str, Any] = {**LORA, "quantize_base": False, "use_dora": False}
TIED: dict[str, Any] = {"tie_word_embeddings": True}

SIZES: dict[str, Any] = {
    "vocab_size": REQUIRED,
    "num_layers": REQUIRED,
    "num_heads": REQUIRED,
    "num_kv_heads": REQUIRED,
    "embed_dim": REQUIRED,
    "max_seq_len": REQUIRED,
    "attn_dropout": 0.0,
    "rope_base": 500_000,
    "intermediate_dim": None,
    "norm_eps": 1e-5,
}


def lora_sizes(**scale: float) -> dict[str, Any]:
    return dict(
        lora_attn_modules=REQUIRED,
        apply_lora_to_mlp=False,
        apply_lora_to_output=False,
        vocab_size=REQUIRED,
        num_layers=REQUIRED,
        num_heads=REQUIRED,
        num_kv_heads=REQUIRED,
        embed_dim=REQUIRED,
        max_seq_len=REQUIRED,
        intermediate_dim=None,
        attn_dropout=0.0,
        norm_eps=1e-5,
        rope_base=500_000,
        **scale,
        lora_rank=REQUIRED,
        lora_alpha=REQUIRED,
        lora_dropout=0.0,
        use_dora=False,
        quantize_base=False,
    )


# torchtune 0.6.1, read off its functions by inspect.signature.
TORCHTUNE: dict[str, dict[str, dict[str, Any]]] = {
    "llama3": {
        "llama3": SIZES,
        "llama3_8b": {},
        "llama3_70b": {},
        "lora_llama3": lora_sizes(),
        "lora_llama3_8b": QUANTIZE_FIRST,
        "lora_llama3_70b": QUANTIZE_FIRST,
    },
    "llama3_1": {
        "llama3_1": {**SIZES, "scale_factor": 8},
        "llama3_1_8b": {},
        "llama3_1_70b": {},
        "llama3_1_405b": {},
        "lora_llama3_1": lora_sizes(scale_factor=8),
        "lora_llama3_1_8b": DORA_FIRST,
        "lora_llama3_1_70b": DORA_FIRST,
        "lora_llama3_1_405b": {**LORA, "quantize_base": False},
    },
    "llama3_2": {
        "llama3_2": {**SIZES, "scale_factor": 32, **TIED},
        "llama3_2_1b": TIED,
        "llama3_2_3b": TIED,
        "lora_llama3_2": {**lora_sizes(scale_factor=32), **TIED},
        "lora_llama3_2_1b": {**DORA_FIRST, **TIED},
        "lora_llama3_2_3b": {**DORA_FIRST, **TIED},
    },
    "llama3_3": {"llama3_3_70b": {}, "lora_llama3_3_70b": DORA_FIRST},
}
# Arguments of ours that torchtune does not have. They stand after its own, or take a keyword.
OURS = {
    "llama3": {"scale_factor": None, "tie_word_embeddings": False},
    "llama3_1": {"tie_word_embeddings": False},
    "lora_llama3": {"scale_factor": None, "tie_word_embeddings": False},
    "lora_llama3_1": {"tie_word_embeddings": False},
    "lora_llama3_1_405b": {"use_dora": False},
}
ADAPTER_LAYER = {
    "in_dim": REQUIRED,
    "out_dim": REQUIRED,
    "rank": REQUIRED,
    "alpha": REQUIRED,
    "dropout": 0.0,
    "use_bias": False,
    "quantize_base": False,
    "quantization_kwargs": REQUIRED,
}
MODULES = {"lora_attn_modules": REQUIRED, "apply_lora_to_mlp": REQUIRED, "apply_lora_to_output": REQUIRED}
KEYS = dict.fromkeys(("base_missing", "base_unexpected", "lora_missing", "lora_unexpected"))
PEFT: dict[str, dict[str, Any]] = {
    "LoRALinear": ADAPTER_LAYER,
    "DoRALinear": ADAPTER_LAYER,
    "get_adapter_params": {"model": REQUIRED},
    "set_trainable_params": {"model": REQUIRED, "adapter_params": REQUIRED},
    "disable_adapter": {"model": REQUIRED},
    "get_adapter_state_dict": {"state_dict": REQUIRED, "device": "cpu"},
    "get_merged_lora_ckpt": {"state_dict": REQUIRED, "rank": REQUIRED, "alpha": REQUIRED},
    "get_lora_module_names": MODULES,
    "validate_missing_and_unexpected_for_lora": {**MODULES, **KEYS},
}


def defaults(function: Any) -> dict[str, Any]:
    return {name: parameter.default for name, parameter in inspect.signature(function).parameters.items()}


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, rows in TORCHTUNE.items() for name in rows])
def test_a_builder_takes_torchtunes_arguments(family: str, name: str) -> None:
    found = defaults(getattr(importlib.import_module(f"torchpipe.models.{family}"), name))
    extra = OURS.get(name, {})
    assert {key: found[key] for key in extra} == extra
    assert [(key, found[key]) for key in found if key not in extra] == list(TORCHTUNE[family][name].items())


@pytest.mark.parametrize(("family", "name"), [(family, name) for family, rows in TORCHTUNE.items() for name in rows])
def test_an_argument_of_ours_moves_none_of_torchtunes(family: str, name: str) -> None:
    parameters = inspect.signature(getattr(importlib.import_module(f"torchpipe.models.{family}"), name)).parameters
    positional = [key for key, parameter in parameters.items() if parameter.kind is not parameter.KEYWORD_ONLY]
    assert positional[: len(TORCHTUNE[family][name])] == list(TORCHTUNE[family][name])[: len(positional)]


@pytest.mark.parametrize("name", PEFT)
def test_an_adapters_helper_takes_torchtunes_arguments(name: str) -> None:
    assert list(defaults(getattr(peft, name)).items()) == list(PEFT[name].items())
