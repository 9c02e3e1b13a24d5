"""Weights go to Hugging Face's layout and back without a change, and what does not fit is refused by name."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models import DecoderConfig, load_hf_weights, save_hf_weights

Fresh = Callable[..., Any]


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def assert_identical(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def edit_config(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | changes))


@pytest.fixture
def folder(tmp_path: Path, fresh: Fresh) -> Path:
    """A checkpoint in one file."""
    save_hf_weights(fresh(), tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def shards(tmp_path: Path, fresh: Fresh) -> Path:
    """A checkpoint in several files."""
    save_hf_weights(fresh(), tmp_path / "shards", max_shard_bytes=30_000)
    return tmp_path / "shards"


def refuses(model: Any, folder: Path, message: str, files: list[str] | None = None) -> CheckpointError:
    """The refusal; the model is as it was."""
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError, match=message) as caught:
        load_hf_weights(model, folder, files)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    return caught.value


@pytest.mark.parametrize("max_shard_size", ["5GB", "20KB"])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_of_transformers_has_the_same_logits_here_and_after_the_way_back(
    tmp_path: Path,
    config: DecoderConfig,
    fresh: Fresh,
    hf_llama: Any,
    hf_load: Any,
    same_logits: Any,
    tied: bool,
    scaled: bool,
    max_shard_size: str,
) -> None:
    config = replace(config, tied_embeddings=tied, rope_scaling=config.rope_scaling if scaled else None)
    oracle = hf_llama(tmp_path / "a", tied=tied, scaling=config.rope_scaling, max_shard_size=max_shard_size)
    assert ("lm_head.weight" in tensors_of(tmp_path / "a")) is not tied
    model = fresh(config, seed=1)
    load_hf_weights(model, tmp_path / "a")
    same_logits(model, oracle)

    save_hf_weights(model, tmp_path / "b", max_shard_bytes=2**40 if max_shard_size == "5GB" else 20_000)
    assert (len(list((tmp_path / "b").glob("*.safetensors"))) > 1) is (max_shard_size != "5GB")
    assert_identical(tensors_of(tmp_path / "b"), tensors_of(tmp_path / "a"))
    back = hf_load(tmp_path / "b")
    same_logits(model, back)
    ours, theirs = back.config.to_dict(), oracle.config.to_dict()
    not_ours = {"transformers_version", "_name_or_path", "dtype", "bos_token_id", "eos_token_id"}
    assert {key: ours[key] for key in ours if key not in not_ours} == {
        key: theirs[key] for key in theirs if key not in not_ours
    }


def test_every_key_of_the_publishers_config_stays_in_an_export(
    tmp_path: Path, config: DecoderConfig, fresh: Fresh, hf_llama: Any, hf_load: Any
) -> None:
    theirs = hf_llama(tmp_path / "a").config.to_dict()
    model = fresh(replace(config, max_seq_len=32))  # a run with shorter documents than the weights can take
    load_hf_weights(model, tmp_path / "a")
    content = json.loads((tmp_path / "a" / "config.json").read_text())
    save_hf_weights(model, tmp_path / "b", more_config=content)
    ours = hf_load(tmp_path / "b").config.to_dict()
    assert theirs["eos_token_id"] == [7, 8]
    assert theirs["max_position_embeddings"] == 256
    del ours["_name_or_path"], theirs["_name_or_path"], theirs["dtype"], ours["dtype"]
    assert ours == theirs


def test_text_ends_nowhere_in_an_export_without_the_publishers_config(
    tmp_path: Path, fresh: Fresh, hf_load: Any
) -> None:
    save_hf_weights(fresh(), tmp_path)
    config = hf_load(tmp_path).config
    assert (config.bos_token_id, config.eos_token_id) == (None, None)  # not transformers' 1 and 2


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("held", [torch.float32, torch.bfloat16])
def test_tensors_take_the_models_type_and_are_written_in_it(
    tmp_path: Path, fresh: Fresh, hf_llama: Any, hf_load: Any, stored: torch.dtype, held: torch.dtype
) -> None:
    hf_llama(tmp_path / "a", dtype=stored)
    model = fresh().to(held)
    load_hf_weights(model, tmp_path / "a")
    save_hf_weights(model, tmp_path / "b")
    # Wider is exact, narrower is rounded to the nearest.
    assert_identical(tensors_of(tmp_path / "b"), {n: t.to(held) for n, t in tensors_of(tmp_path / "a").items()})
    assert json.loads((tmp_path / "b" / "config.json").read_text())["torch_dtype"] == str(held).removeprefix("torch.")
    assert hf_load(tmp_path / "b").dtype == held


def test_an_untied_model_takes_its_output_from_the_embedding_of_a_tied_checkpoint(
    tmp_path: Path, config: DecoderConfig, fresh: Fresh
) -> None:
    save_hf_weights(fresh(replace(config, tied_embeddings=True)), tmp_path / "tied")
    model = fresh(seed=1)
    load_hf_weights(model, tmp_path / "tied")
    assert torch.equal(model.get_parameter("output.weight"), model.get_parameter("tok_embeddings.weight"))
    assert model.output.weight is not model.tok_embeddings.weight


def test_a_tied_model_takes_an_output_that_equals_the_embedding_and_no_other(
    tmp_path: Path, config: DecoderConfig, fresh: Fresh, folder: Path
) -> None:
    model = fresh(replace(config, tied_embeddings=True), seed=1)
    refuses(model, folder, "lm_head.weight differs from model.embed_tokens.weight.*tie_word_embeddings=False")
    state = load_file(folder / "model.safetensors")
    state["lm_head.weight"] = state["model.embed_tokens.weight"].clone()
    save_file(state, folder / "model.safetensors")
    load_hf_weights(model, folder)
    assert torch.equal(model.output.weight, state["model.embed_tokens.weight"])


def test_frequencies_that_old_checkpoints_hold_are_left_out(folder: Path, fresh: Fresh) -> None:
    state = load_file(folder / "model.safetensors")
    state["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    save_file(state, folder / "model.safetensors")
    load_hf_weights(fresh(seed=1), folder)


@pytest.mark.parametrize("model_type", ["qwen2", "gemma", "mistral", None])
def test_a_config_of_another_family_is_refused(folder: Path, fresh: Fresh, model_type: str | None) -> None:
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
def test_names_alone_tell_another_family(folder: Path, fresh: Fresh, name: str, family: str) -> None:
    (folder / "config.json").unlink()
    save_file({**load_file(folder / "model.safetensors"), name: torch.ones(1)}, folder / "model.safetensors")
    refuses(fresh(seed=1), folder, family)


def test_a_folder_without_a_config_is_read(folder: Path, fresh: Fresh) -> None:
    (folder / "config.json").unlink()
    model = fresh(seed=1)
    load_hf_weights(model, folder)
    assert torch.equal(model.output.weight, fresh(seed=0).output.weight)


def test_a_damaged_config_is_named(folder: Path, fresh: Fresh) -> None:
    (folder / "config.json").write_text("{")
    refuses(fresh(seed=1), folder, "config.json can't be read as JSON")
    (folder / "config.json").write_text("[]")
    refuses(fresh(seed=1), folder, "config.json holds no JSON object")
    (folder / "config.json").write_text("[" * 100_000)
    refuses(fresh(seed=1), folder, "config.json can't be read as JSON: maximum recursion depth")


def test_facts_that_change_the_logits_and_no_shape_are_compared(
    folder: Path, config: DecoderConfig, fresh: Fresh
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
    tmp_path: Path, config: DecoderConfig, fresh: Fresh, stated: dict[str, Any], told: str
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


def test_quantized_weights_are_refused(folder: Path, fresh: Fresh) -> None:
    edit_config(folder, quantization_config={"quant_method": "fp8"})
    refuses(fresh(seed=1), folder, r"quantization_config \(fp8\): its weights are quantized")
    edit_config(folder, quantization_config=None)
    name, state = "model.layers.1.mlp.up_proj.weight", load_file(folder / "model.safetensors")
    for dtype, kind in ((torch.int8, "I8"), (torch.float8_e4m3fn, "F8_E4M3"), (torch.bool, "BOOL")):
        save_file({**state, name: state[name].to(dtype)}, folder / "model.safetensors")
        refuses(fresh(seed=1), folder, rf"holds 1 tensors that are no floating-point.*{name} \({kind}\)")


@pytest.mark.parametrize("with_config", [True, False])
def test_another_vocabulary_is_refused_with_what_to_do(
    folder: Path, config: DecoderConfig, fresh: Fresh, with_config: bool
) -> None:
    if not with_config:
        (folder / "config.json").unlink()
    model = fresh(replace(config, vocab_size=70))
    refuses(model, folder, "vocabulary of 64 ids and the model has one of 70. Build the model with vocab_size=64")


def test_missing_extra_and_reshaped_tensors_are_all_named(folder: Path, fresh: Fresh) -> None:
    state = load_file(folder / "model.safetensors")
    del state["model.norm.weight"], state["model.layers.1.mlp.gate_proj.weight"]
    state["model.layers.2.mlp.up_proj.weight"] = torch.zeros(1)
    state["model.layers.0.self_attn.q_proj.weight"] = torch.zeros(64, 31)
    save_file(state, folder / "model.safetensors")
    message = str(refuses(fresh(seed=1), folder, "does not fit the model"))
    assert "missing: model.layers.1.mlp.gate_proj.weight, model.norm.weight;" in message
    assert "extra: model.layers.2.mlp.up_proj.weight;" in message
    assert "of another shape: model.layers.0.self_attn.q_proj.weight (file [64, 31], model [64, 32])" in message


def test_a_long_list_is_counted_in_the_sentence_and_whole_in_the_notes(folder: Path, fresh: Fresh) -> None:
    (folder / "config.json").unlink()
    state = load_file(folder / "model.safetensors")
    gone = sorted(name for name in state if name.startswith("model.layers"))
    save_file({name: state[name] for name in state.keys() - set(gone)}, folder / "model.safetensors")
    error = refuses(fresh(seed=1), folder, f"{gone[7]} and {len(gone) - 8} more")
    assert gone[8] not in str(error)
    assert error.__notes__ == [f"All {len(gone)} tensors missing: {', '.join(gone)}"]


def test_a_file_that_was_cut_off_anywhere_is_one_sentence(folder: Path, fresh: Fresh) -> None:
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    model = fresh(seed=1)
    lengths = {0, 1, 7, 8, 9, header - 1, header, header + 1, len(whole) - 1, *range(0, len(whole), len(whole) // 40)}
    for length in sorted(lengths):
        path.write_bytes(whole[:length])
        error = refuses(model, folder, rf"model\.safetensors \({length:,} bytes\) can't be read as safetensors:")
        assert str(error).endswith("It is cut off or another kind of file: fetch it again.")
        assert "\n" not in str(error)


def test_an_index_that_names_an_absent_file_is_refused(shards: Path, fresh: Fresh) -> None:
    name = sorted(path.name for path in shards.glob("*.safetensors"))[1]
    (shards / name).unlink()
    refuses(fresh(seed=1), shards, rf"index\.json names {name}, and .* has no such file\. .*Fetch the whole checkpoint")


@pytest.mark.parametrize(
    "place",
    ["../other.safetensors", "{folder}/model.safetensors", "sub/model.safetensors", "..\\\\a", "", "..", "x" * 300],
)
def test_an_index_that_leads_out_of_its_folder_is_refused(
    tmp_path: Path, folder: Path, fresh: Fresh, place: str
) -> None:
    (tmp_path / "other.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    names = load_file(folder / "model.safetensors")
    index = {"weight_map": dict.fromkeys(names, place.format(folder=folder))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refuses(fresh(seed=1), folder, "index.json has tensors in .*, which is no name of a file beside it")


def test_a_list_and_an_index_that_disagree_are_refused(shards: Path, fresh: Fresh) -> None:
    names = sorted(path.name for path in shards.glob("*.safetensors"))
    refuses(fresh(seed=1), shards, f"disagree: the list lacks {names[-1]}. List the files", names[:-1])
    (shards / "model-extra.safetensors").write_bytes((shards / names[0]).read_bytes())
    refuses(fresh(seed=1), shards, "the list adds model-extra.safetensors", [*names, "model-extra.safetensors"])
    load_hf_weights(fresh(seed=1), shards, names[::-1])


def test_a_name_in_the_list_that_is_no_file_is_refused_with_the_nearest(folder: Path, fresh: Fresh) -> None:
    message = "The list of files has modle.safetensors.*Did you mean 'model.safetensors'"
    refuses(fresh(seed=1), folder, message, ["modle.safetensors"])


def test_one_file_named_where_there_are_shards_is_answered_with_the_shards(shards: Path, fresh: Fresh) -> None:
    first = min(path.name for path in shards.glob("*.safetensors"))
    refuses(
        fresh(seed=1), shards, f"has model.safetensors, .* Give the files of its index: {first}", ["model.safetensors"]
    )


def test_a_folder_of_an_adapter_is_no_checkpoint(folder: Path, fresh: Fresh) -> None:
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    message = (
        r"no model\.safetensors and no index; it holds adapter_model\.safetensors\. Name a whole checkpoint's folder"
    )
    refuses(fresh(seed=1), folder, message)


def test_shards_that_do_not_hold_what_the_index_says_are_refused(shards: Path, fresh: Fresh) -> None:
    names = sorted(path.name for path in shards.glob("*.safetensors"))
    first, second = (load_file(shards / name) for name in names[:2])
    moved = next(iter(first))
    save_file({**second, moved: first.pop(moved)}, shards / names[1])
    save_file(first, shards / names[0])
    refuses(fresh(seed=1), shards, f"{moved} is to lie in {names[0]} and is in {names[1]}")
    save_file({**load_file(shards / names[0]), moved: torch.ones(1)}, shards / names[0])
    refuses(fresh(seed=1), shards, f"{moved} lies in {names[0]} and in {names[1]}")
    (shards / "model.safetensors.index.json").write_text('{"weight_map": 3}')
    refuses(fresh(seed=1), shards, "can't be read as an index of safetensors files")


def test_a_folder_of_pickled_weights_says_how_to_convert_them(tmp_path: Path, fresh: Fresh) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    message = r"has its weights in pytorch_model\.bin, and only safetensors are read.*from_pretrained.*save_pretrained"
    refuses(fresh(), tmp_path, message)
    refuses(fresh(), tmp_path, message, ["pytorch_model.bin"])


def test_folders_without_weights_are_refused(tmp_path: Path, fresh: Fresh) -> None:
    refuses(fresh(), tmp_path, "holds no safetensors file")
    refuses(fresh(), tmp_path / "none", "none is no folder")


def test_nan_is_loaded_as_it_is_and_told(folder: Path, fresh: Fresh) -> None:
    state = load_file(folder / "model.safetensors")
    state["model.norm.weight"][3] = float("nan")
    state["model.layers.0.mlp.up_proj.weight"][1, 2] = float("-inf")
    save_file(state, folder / "model.safetensors")
    model = fresh(seed=1)
    with pytest.warns(UserWarning, match=r"NaN or infinity in 2 tensors, such as model\.layers\.0\.mlp\.up_proj"):
        load_hf_weights(model, folder)
    assert model.state_dict()["norm.scale"][3].isnan()
    state["model.layers.0.mlp.up_proj.weight"][1, 2] = 0
    save_file(state, folder / "model.safetensors")
    with pytest.warns(UserWarning, match=r"NaN or infinity in 1 tensor, model\.norm\.weight\. All was loaded as it is"):
        load_hf_weights(model, folder)


def test_a_model_on_the_meta_device_is_refused(tmp_path: Path, folder: Path, fresh: Fresh) -> None:
    with torch.device("meta"):
        model = fresh()
    with pytest.raises(CheckpointError, match="on the meta device.*to_empty"):
        load_hf_weights(model, folder)
    with pytest.raises(CheckpointError, match="on the meta device.*to_empty"):
        save_hf_weights(model, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_the_base_under_adapters_is_loaded_and_merged_weights_are_saved(
    tmp_path: Path, folder: Path, adapted: Fresh, fresh: Fresh, hf_load: Any, same_logits: Any
) -> None:
    model = adapted(use_dora=True)
    load_hf_weights(model, folder)
    # DoRA's magnitudes follow from the base, so that with fresh adapters the model is its base.
    for name, parameter in model.named_parameters():
        if name.endswith("lora_b.weight"):
            torch.nn.init.zeros_(parameter)
    load_hf_weights(model, folder)
    same_logits(model, hf_load(folder))
    trained = adapted(use_dora=True, seed=3)
    before = {name: tensor.clone() for name, tensor in trained.state_dict().items()}
    save_hf_weights(trained, tmp_path / "merged", max_shard_bytes=20_000)
    same_logits(trained, hf_load(tmp_path / "merged"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in trained.state_dict().items())


def test_a_file_is_no_larger_than_asked_unless_one_tensor_is(tmp_path: Path, fresh: Fresh) -> None:
    model = fresh()
    save_hf_weights(model, tmp_path, max_shard_bytes=9_000)
    for file in tmp_path.glob("*.safetensors"):
        tensors = load_file(file)
        assert len(tensors) == 1 or sum(tensor.nbytes for tensor in tensors.values()) <= 9_000
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert index["metadata"]["total_size"] == sum(parameter.nbytes for parameter in model.parameters())
    assert set(index["weight_map"]) == set(tensors_of(tmp_path))
    with pytest.raises(ConfigError, match="max_shard_bytes is 0"):
        save_hf_weights(model, tmp_path, max_shard_bytes=0)


def test_an_earlier_export_is_replaced_and_any_other_folder_is_not(tmp_path: Path, fresh: Fresh) -> None:
    save_hf_weights(fresh(), tmp_path / "out", max_shard_bytes=9_000)
    save_hf_weights(fresh(seed=1), tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["config.json", "model.safetensors"]
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(CheckpointError, match=r"out holds thesis\.tex, and the weights would take the whole folder"):
        save_hf_weights(fresh(), tmp_path / "out")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"^\. can't be replaced as a whole. Name a new folder"):
        save_hf_weights(fresh(), ".")
    with pytest.raises(CheckpointError, match="file is a file. Name a new folder"):
        save_hf_weights(fresh(), tmp_path / "file")


def test_names_in_any_script_are_names(tmp_path: Path, fresh: Fresh) -> None:
    folder = tmp_path / "модель 模型 é ‮ \n'\"$(x) 🦙" / "e\u0301"
    save_hf_weights(fresh(), folder, max_shard_bytes=20_000)
    model = fresh(seed=1)
    load_hf_weights(model, str(folder))
    assert torch.equal(model.output.weight, fresh().output.weight)
