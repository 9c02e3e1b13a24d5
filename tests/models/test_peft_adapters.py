"""PEFT loads our adapters and we load PEFT's: the same logits as the unmerged model, and the same tensors."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models import DecoderConfig, load_hf_weights, load_peft_adapter, save_hf_weights, save_peft_adapter

Adapted = Callable[..., Any]


@pytest.fixture
def peft(oracle_file: Any, quiet: Any) -> Any:
    """The PEFT library."""
    oracle_file("peft", "__init__.py")
    with quiet():
        import peft
    return peft


@pytest.fixture
def adapter(tmp_path: Path, adapted: Adapted) -> Path:
    """A saved adapter of the default kind."""
    save_peft_adapter(adapted(), tmp_path / "adapter")
    return tmp_path / "adapter"


@pytest.mark.parametrize("use_dora", [False, True])
@pytest.mark.parametrize("where", ["everywhere", "queries and values", "tied"])
def test_peft_gives_the_logits_of_our_unmerged_model_and_its_files_come_back(
    tmp_path: Path,
    config: DecoderConfig,
    fresh: Adapted,
    adapted: Adapted,
    peft: Any,
    quiet: Any,
    hf_load: Any,
    same_logits: Any,
    use_dora: bool,
    where: str,
) -> None:
    config = replace(config, tied_embeddings=where == "tied")
    options: dict[str, Any] = {"use_dora": use_dora}
    if where == "queries and values":
        options |= {
            "lora_attn_modules": ["q_proj", "v_proj"],
            "apply_lora_to_mlp": False,
            "apply_lora_to_output": False,
        }
    save_hf_weights(fresh(config, seed=2), tmp_path / "base")
    trained = adapted(config, **options)
    load_hf_weights(trained, tmp_path / "base")
    with torch.no_grad():
        for name, parameter in trained.named_parameters():
            if name.endswith("magnitude"):
                parameter.mul_(torch.rand_like(parameter) + 0.5)
    save_peft_adapter(trained, tmp_path / "ours", base_model=str(tmp_path / "base"))
    with quiet():
        theirs = peft.PeftModel.from_pretrained(hf_load(tmp_path / "base"), tmp_path / "ours").eval()
    same_logits(trained, theirs)
    with quiet():
        theirs.save_pretrained(tmp_path / "theirs")
    again = adapted(config, seed=9, **options)
    load_hf_weights(again, tmp_path / "base")
    load_peft_adapter(again, tmp_path / "theirs")
    for name, tensor in trained.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


@pytest.mark.parametrize("use_dora", [False, True])
def test_an_adapter_that_peft_made_has_the_same_logits_here(
    tmp_path: Path, adapted: Adapted, peft: Any, quiet: Any, hf_llama: Any, same_logits: Any, use_dora: bool
) -> None:
    oracle = hf_llama(tmp_path / "base")
    with quiet():
        settings = peft.LoraConfig(
            r=3, lora_alpha=5, use_dora=use_dora, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        theirs = peft.get_peft_model(oracle, settings).eval()
        for name, parameter in theirs.named_parameters():
            if "lora_" in name:
                parameter.data.add_(torch.randn(parameter.shape), alpha=0.05)
        theirs.save_pretrained(tmp_path / "adapter")
    model = adapted(apply_lora_to_output=False, lora_rank=3, lora_alpha=5, use_dora=use_dora)
    load_hf_weights(model, tmp_path / "base")
    load_peft_adapter(model, tmp_path / "adapter")
    same_logits(model, theirs)


def test_the_files_have_pefts_names(tmp_path: Path, adapted: Adapted) -> None:
    model = adapted(
        lora_attn_modules=["q_proj", "output_proj"], apply_lora_to_mlp=False, lora_dropout=0.1, use_dora=True
    )
    save_peft_adapter(model, tmp_path, base_model="meta-llama/Llama-3.2-1B")
    content = json.loads((tmp_path / "adapter_config.json").read_text())
    assert content["target_modules"] == ["lm_head", "o_proj", "q_proj"]
    assert content["base_model_name_or_path"] == "meta-llama/Llama-3.2-1B"
    assert (content["r"], content["lora_alpha"], content["lora_dropout"]) == (4, 8, 0.1)
    assert (content["use_dora"], content["task_type"], content["peft_type"]) == (True, "CAUSAL_LM", "LORA")
    shapes = {name: list(tensor.shape) for name, tensor in load_file(tmp_path / "adapter_model.safetensors").items()}
    first = "base_model.model.model.layers.0.self_attn.q_proj"
    assert shapes[f"{first}.lora_A.weight"] == [4, 32]
    assert shapes[f"{first}.lora_B.weight"] == [64, 4]
    assert shapes[f"{first}.lora_magnitude_vector"] == [64]
    assert shapes["base_model.model.lm_head.lora_A.weight"] == [4, 32]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"r": 8}, "r is 8 there and 4 in the model.*lora_rank"),
        ({"lora_alpha": 16}, "lora_alpha is 16 there and 8 in the model"),
        ({"use_dora": True}, "use_dora is True there and False in the model"),
        ({"use_rslora": True}, "asks for use_rslora=True, which no adapter here has"),
        ({"rank_pattern": {"q_proj": 2}}, r"asks for rank_pattern={'q_proj': 2}"),
        ({"modules_to_save": ["lm_head"], "bias": "all"}, r"asks for bias='all', modules_to_save=\['lm_head'\]"),
        ({"setting_of_tomorrow": 1}, "asks for setting_of_tomorrow=1"),
        ({"init_lora_weights": "pissa"}, "asks for init_lora_weights='pissa'"),
        ({"peft_type": "IA3"}, "kind 'IA3', and only LORA is read"),
    ],
)
def test_another_adapter_is_refused(adapter: Path, adapted: Adapted, change: dict[str, Any], message: str) -> None:
    content = json.loads((adapter / "adapter_config.json").read_text())
    (adapter / "adapter_config.json").write_text(json.dumps(content | change))
    with pytest.raises(CheckpointError, match=message):
        load_peft_adapter(adapted(), adapter)


def test_tensors_that_do_not_fit_are_all_named_and_nothing_changes(adapter: Path, adapted: Adapted) -> None:
    model = adapted(lora_attn_modules=["q_proj"], seed=4)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError, match="extra: .*k_proj.lora_A.weight.*adapters on the same matrices"):
        load_peft_adapter(model, adapter)
    state = load_file(adapter / "adapter_model.safetensors")
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    save_file(state | {name: torch.zeros(3, 32)}, adapter / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=r"q_proj.lora_A.weight \(file \[3, 32\], model \[4, 32\]\)"):
        load_peft_adapter(adapted(), adapter)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_quantized_adapters_are_refused(adapter: Path, adapted: Adapted) -> None:
    state = load_file(adapter / "adapter_model.safetensors")
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
    save_file(state | {name: state[name].to(torch.int8)}, adapter / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=rf"{name} \(I8\). They are quantized"):
        load_peft_adapter(adapted(), adapter)


def test_an_output_projection_beside_the_adapters_must_be_the_bases(adapter: Path, adapted: Adapted) -> None:
    model = adapted()
    name = "base_model.model.lm_head.base_layer.weight"
    state = load_file(adapter / "adapter_model.safetensors")
    save_file(state | {name: model.output.weight.detach()}, adapter / "adapter_model.safetensors")
    load_peft_adapter(model, adapter)
    save_file(state | {name: model.output.weight.detach() + 1}, adapter / "adapter_model.safetensors")
    with pytest.raises(CheckpointError, match=f"extra: {name}"):
        load_peft_adapter(model, adapter)


def test_damaged_and_missing_files_are_named(tmp_path: Path, adapter: Path, adapted: Adapted) -> None:
    model = adapted()
    whole = (adapter / "adapter_model.safetensors").read_bytes()
    for length in (0, 7, 100, len(whole) - 1):
        (adapter / "adapter_model.safetensors").write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=rf"\({length:,} bytes\) can't be read as safetensors"):
            load_peft_adapter(model, adapter)
    (adapter / "adapter_model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"holds no adapter_model\.safetensors"):
        load_peft_adapter(model, adapter)
    (adapter / "adapter_config.json").write_text("[1")
    with pytest.raises(CheckpointError, match=r"adapter_config\.json can't be read"):
        load_peft_adapter(model, adapter)
    with pytest.raises(CheckpointError, match=r"holds no adapter_config\.json"):
        load_peft_adapter(model, tmp_path / "none")


def test_a_model_without_adapters_is_refused(tmp_path: Path, adapter: Path, fresh: Adapted) -> None:
    with pytest.raises(ConfigError, match="The model has no adapters. Build it with one of the lora_ builders"):
        load_peft_adapter(fresh(), adapter)
    with pytest.raises(ConfigError, match="The model has no adapters"):
        save_peft_adapter(fresh(), tmp_path / "new")
    assert not (tmp_path / "new").exists()
