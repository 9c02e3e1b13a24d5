"""Weights in Hugging Face's layout that are of another model than the one built are refused by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from torchpipe.errors import CheckpointError
from torchpipe.models import DecoderConfig, load_hf_weights, save_hf_weights

Fresh = Callable[..., Any]
Refuses = Callable[..., CheckpointError]


def edit_config(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | changes))


@pytest.mark.parametrize("model_type", ["qwen2", "gemma", "mistral", None])
def test_a_config_of_another_family_is_refused(
    folder: Path, fresh: Fresh, model_type: str | None, refuses: Refuses
) -> None:
    edit_config(folder, model_type=model_type)
    refuses(fresh(seed=1), folder, f"config.json says model_type {model_type!r}.*Choose a checkpoint of Llama 2, 3,")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("model.layers.0.self_attn.q_proj.bias", "Qwen 2"),
        ("model.layers.0.self_attn.q_norm.weight", "Qwen 3, Gemma 3"),
        ("model.layers.0.pre_feedforward_layernorm.weight", "Gemma 2"),
        ("model.layers.0.self_attn.qkv_proj.weight", "Phi 3"),
        ("model.layers.0.block_sparse_moe.gate.weight", "a mixture of experts"),
        ("language_model.model.embed_tokens.weight", "text and images"),
        ("transformer.h.0.attn.c_attn.weight", "another architecture"),
        ("layers.0.attention.wq.weight", "Meta's layout.*FullModelMetaCheckpointer"),
        ("layers.0.attn.q_proj.weight", "torchtune's layout.*FullModelTorchTuneCheckpointer"),
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", "an adapter in PEFT's.*adapter_checkpoint"),
    ],
)
def test_names_alone_tell_another_family(folder: Path, fresh: Fresh, name: str, family: str, refuses: Refuses) -> None:
    (folder / "config.json").unlink()
    save_file({**load_file(folder / "model.safetensors"), name: torch.ones(1)}, folder / "model.safetensors")
    refuses(fresh(seed=1), folder, family)


def test_a_folder_without_a_config_is_read(folder: Path, fresh: Fresh) -> None:
    (folder / "config.json").unlink()
    model = fresh(seed=1)
    load_hf_weights(model, folder)
    assert torch.equal(model.output.weight, fresh(seed=0).output.weight)


def test_a_damaged_config_is_named(folder: Path, fresh: Fresh, refuses: Refuses) -> None:
    (folder / "config.json").write_text("{")
    refuses(fresh(seed=1), folder, "config.json can't be read as JSON")
    (folder / "config.json").write_text("[]")
    refuses(fresh(seed=1), folder, "config.json holds no JSON object")
    (folder / "config.json").write_text("[" * 100_000)
    refuses(fresh(seed=1), folder, "config.json can't be read as JSON: maximum recursion depth")


def test_facts_that_change_the_logits_and_no_shape_are_compared(
    folder: Path, config: DecoderConfig, fresh: Fresh, refuses: Refuses
) -> None:
    other = replace(config, num_heads=2, num_kv_heads=1, head_dim=32, rope_base=10_000.0, norm_eps=1e-6)
    error = refuses(fresh(other), folder, "describes another model than the one built")
    for difference in (
        "num_attention_heads is 4 there and 2 in the model",
        "num_key_value_heads is 2 there and 1 in the model",
        "head_dim is 16 there and 32 in the model",
        "rope_theta is 500000.0 there and 10000.0 in the model",
        "rms_norm_eps is 1e-05 there and 1e-06 in the model",
    ):
        assert difference in str(error)
    refuses(fresh(replace(config, rope_scaling=None)), folder, "rope_scaling is {.*'factor': 8.0.*} there and None")
    edit_config(folder, attention_bias=True, hidden_act="gelu")
    refuses(fresh(), folder, "hidden_act is 'gelu' there and 'silu' in the model; attention_bias is True")


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 2}}, "'rope_type': 'linear'"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32}}, "'rope_type': 'yarn'"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, "'rope_type': 'dynamic'"),
        ({"rope_scaling": {"type": "longrope", "short_factor": [1.0]}}, "'rope_type': 'longrope'"),
        ({"rope_scaling": {"factor": 8}}, "'rope_type': 'default', 'factor': 8.0"),
        ({"rope_scaling": {"rope_type": ["llama3"]}}, r"'rope_type': \['llama3'\]"),
        ({"rope_scaling": "linear"}, "rope_scaling is 'linear' there"),
        ({"rope_scaling": [1]}, r"rope_scaling is \[1\] there"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "'full_attention': {'rope_type': 'yarn'}"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "'partial_rotary_factor': 0.5"),
        ({"partial_rotary_factor": 0.5}, "'partial_rotary_factor': 0.5"),
        ({"rope_theta": "many"}, "rope_theta is 'many' there"),
        ({"rope_theta": None}, "rope_theta is None there"),
        ({"rope_theta": 10**400}, "rope_theta is 10+ there"),
        ({"hidden_size": "32", "head_dim": None}, "hidden_size is '32' there.*head_dim is None there"),
        ({"num_attention_heads": [4], "head_dim": None}, r"num_attention_heads is \[4\] there"),
        ({"num_attention_heads": 0, "head_dim": None}, "num_attention_heads is 0 there"),
    ],
)
def test_what_the_model_does_not_do_and_what_is_no_number_is_refused(
    tmp_path: Path, config: DecoderConfig, fresh: Fresh, stated: dict[str, Any], told: str, refuses: Refuses
) -> None:
    config = replace(config, rope_scaling=None, rope_base=10_000.0)
    save_hf_weights(fresh(config), tmp_path / "base")
    edit_config(tmp_path / "base", **stated)
    refuses(fresh(config, seed=1), tmp_path / "base", f"describes another model than the one built.*{told}")


def test_keys_that_say_what_holds_anyway_are_no_difference(tmp_path: Path, config: DecoderConfig, fresh: Fresh) -> None:
    config = replace(config, rope_scaling=None, rope_base=10_000.0)
    save_hf_weights(fresh(config), tmp_path / "base")
    rope = {"rope_type": "default", "rope_theta": 10_000, "partial_rotary_factor": 1.0, "factor": None}
    edit_config(tmp_path / "base", rope_parameters=rope, partial_rotary_factor=1, max_position_embeddings="many")
    model = fresh(config, seed=1)
    load_hf_weights(model, tmp_path / "base")
    save_hf_weights(model, tmp_path / "export", more_config=json.loads((tmp_path / "base" / "config.json").read_text()))
    written = json.loads((tmp_path / "export" / "config.json").read_text())
    assert written["max_position_embeddings"] == config.max_seq_len
    assert "partial_rotary_factor" not in written


def test_quantized_weights_are_refused(folder: Path, fresh: Fresh, refuses: Refuses) -> None:
    edit_config(folder, quantization_config={"quant_method": "fp8"})
    refuses(fresh(seed=1), folder, r"quantization_config \(fp8\): its weights are quantized")
    edit_config(folder, quantization_config=None)
    name, state = "model.layers.1.mlp.up_proj.weight", load_file(folder / "model.safetensors")
    for dtype, kind in ((torch.int8, "I8"), (torch.float8_e4m3fn, "F8_E4M3"), (torch.bool, "BOOL")):
        save_file({**state, name: state[name].to(dtype)}, folder / "model.safetensors")
        refuses(fresh(seed=1), folder, rf"holds 1 tensor without floating-point.*{name} \({kind}\)")


@pytest.mark.parametrize("with_config", [True, False])
def test_another_vocabulary_is_refused_with_what_to_do(
    folder: Path, config: DecoderConfig, fresh: Fresh, with_config: bool, refuses: Refuses
) -> None:
    if not with_config:
        (folder / "config.json").unlink()
    model = fresh(replace(config, vocab_size=70))
    refuses(model, folder, "vocabulary of 64 ids and the model has one of 70. Build the model with vocab_size=64")


def test_missing_extra_and_reshaped_tensors_are_all_named(folder: Path, fresh: Fresh, refuses: Refuses) -> None:
    state = load_file(folder / "model.safetensors")
    del state["model.norm.weight"], state["model.layers.1.mlp.gate_proj.weight"]
    state["model.layers.2.mlp.up_proj.weight"] = torch.zeros(1)
    state["model.layers.0.self_attn.q_proj.weight"] = torch.zeros(64, 31)
    save_file(state, folder / "model.safetensors")
    message = str(refuses(fresh(seed=1), folder, "does not fit the model"))
    assert "missing: model.layers.1.mlp.gate_proj.weight, model.norm.weight;" in message
    assert "extra: model.layers.2.mlp.up_proj.weight;" in message
    assert "of another shape: model.layers.0.self_attn.q_proj.weight (file [64, 31], model [64, 32])" in message


def test_a_long_list_is_counted_in_the_sentence_and_whole_in_the_notes(
    folder: Path, fresh: Fresh, refuses: Refuses
) -> None:
    (folder / "config.json").unlink()
    state = load_file(folder / "model.safetensors")
    gone = sorted(name for name in state if name.startswith("model.layers"))
    save_file({name: state[name] for name in state.keys() - set(gone)}, folder / "model.safetensors")
    error = refuses(fresh(seed=1), folder, f"{gone[7]} and {len(gone) - 8} more")
    assert gone[8] not in str(error)
    assert error.__notes__ == [f"All {len(gone)} tensors missing: {', '.join(gone)}"]
