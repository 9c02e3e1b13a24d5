"""Weights go to Hugging Face's layout and back without a change."""

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
Refuses = Callable[..., CheckpointError]


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for file in folder.glob("*.safetensors") for name, tensor in load_file(file).items()}


def assert_identical(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


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
    tmp_path: Path, config: DecoderConfig, fresh: Fresh, folder: Path, refuses: Refuses
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
