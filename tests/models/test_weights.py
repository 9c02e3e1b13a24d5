from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from torchpipe.errors import CheckpointError
from torchpipe.models import load_weights, save_weights
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import TransformerDecoder


def build(seed: int = 0, **sizes) -> TransformerDecoder:
    torch.manual_seed(seed)
    return tiny_llama3(**{"vocab_size": 40, "num_layers": 1, "embed_dim": 32, "intermediate_dim": 48, **sizes})


@pytest.mark.parametrize("tied_embeddings", [True, False])
def test_loaded_weights_equal_the_saved_ones(tmp_path: Path, tied_embeddings: bool):
    saved, loaded = build(0, tied_embeddings=tied_embeddings), build(1, tied_embeddings=tied_embeddings)
    save_weights(saved, tmp_path / "new" / "model.safetensors")
    load_weights(loaded, tmp_path / "new" / "model.safetensors")
    tokens = torch.arange(8).view(1, 8)
    assert torch.equal(loaded(tokens), saved(tokens))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.safetensors"]


def test_a_tied_weight_is_saved_once(tmp_path: Path):
    save_weights(build(), tmp_path / "model.safetensors")
    state = load_file(tmp_path / "model.safetensors")
    assert "tok_embeddings.weight" in state
    assert "output.weight" not in state


def test_weights_take_the_models_type(tmp_path: Path):
    saved, loaded = build(0), build(1).bfloat16()
    save_weights(saved, tmp_path / "model.safetensors")
    load_weights(loaded, tmp_path / "model.safetensors")
    expected = saved.bfloat16().state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in loaded.state_dict().items())


def test_missing_extra_and_reshaped_tensors_are_all_named_and_nothing_changes(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    state = {name: tensor.clone() for name, tensor in build(0).state_dict().items()}
    del state["norm.scale"], state["layers.0.mlp.w1.weight"]
    state["lora_a"] = torch.zeros(1)
    state["tok_embeddings.weight"] = torch.zeros(41, 32)
    save_file(state, path)
    model = build(1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(CheckpointError) as caught:
        load_weights(model, path)
    message = str(caught.value)
    assert "missing: layers.0.mlp.w1.weight, norm.scale" in message
    assert "extra: lora_a" in message
    assert "of another shape: tok_embeddings.weight (file [41, 32], model [40, 32])" in message
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_files_that_cannot_be_read_are_refused(tmp_path: Path):
    with pytest.raises(CheckpointError, match=r"absent\.safetensors can't be read as safetensors"):
        load_weights(build(), tmp_path / "absent.safetensors")
    (tmp_path / "damaged.safetensors").write_bytes(b"not a model")
    with pytest.raises(CheckpointError, match=r"damaged\.safetensors can't be read as safetensors"):
        load_weights(build(), tmp_path / "damaged.safetensors")


def test_a_model_on_meta_is_refused_rather_than_left_empty(tmp_path: Path):
    with torch.device("meta"):
        model = build()
    with pytest.raises(CheckpointError, match=r"on the meta device, such as tok_embeddings\.weight.*to_empty"):
        save_weights(model, tmp_path / "model.safetensors")
    save_weights(build(), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="on the meta device"):
        load_weights(model, tmp_path / "model.safetensors")
