"""Meta's and torchtune's files hold the same weights under other names."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe.errors import CheckpointError
from torchpipe.models import DecoderConfig, load_hf_weights, save_hf_weights, save_weights
from torchpipe.models.hf_names import name_in
from torchpipe.models.single_file import load_single_file

Fresh = Callable[..., Any]


def meta_state(model: Any) -> dict[str, torch.Tensor]:
    """As Meta publishes them: with an output projection in any case, and the frequencies."""
    state = {str(name_in("meta", name)): tensor for name, tensor in model.state_dict().items()}
    return {**state, "output.weight": model.output.weight.detach(), "rope.freqs": torch.ones(8)}


@pytest.mark.parametrize("tied", [True, False])
def test_metas_layout_and_hugging_faces_give_one_model(
    tmp_path: Path, config: DecoderConfig, fresh: Fresh, hf_load: Any, same_logits: Any, tied: bool
) -> None:
    config = replace(config, tied_embeddings=tied)
    source = fresh(config)
    torch.save(meta_state(source), tmp_path / "consolidated.00.pth")
    model = fresh(config, seed=1)
    load_single_file(model, tmp_path / "consolidated.00.pth", "meta")
    save_hf_weights(model, tmp_path / "hf")
    same_logits(model, hf_load(tmp_path / "hf"))
    again = fresh(config, seed=2)
    load_hf_weights(again, tmp_path / "hf")
    for name, tensor in source.state_dict().items():
        assert torch.equal(model.state_dict()[name], tensor)
        assert torch.equal(again.state_dict()[name], tensor)


@pytest.mark.parametrize("file", ["weights.pt", "weights.safetensors"])
def test_files_with_our_own_names_are_read(tmp_path: Path, fresh: Fresh, file: str) -> None:
    source = fresh()
    if file.endswith(".pt"):
        torch.save(source.state_dict(), tmp_path / file)
    else:
        save_weights(source, tmp_path / file)
    model = fresh(seed=1)
    load_single_file(model, tmp_path / file, "ours")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), source.parameters(), strict=True))


def test_a_pickled_file_that_was_cut_off_is_one_sentence(tmp_path: Path, fresh: Fresh) -> None:
    path = tmp_path / "consolidated.00.pth"
    torch.save(meta_state(fresh()), path)
    whole = path.read_bytes()
    model = fresh(seed=1)
    for length in (0, 1, 3, 100, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"consolidated\.00\.pth can't be read as tensors .* fetch it again"):
            load_single_file(model, path, "meta")
    for old, new in ((b"QK\x00", b"\x85K\x00"), (b"storageq\x03", b"storageh\x03")):  # other words of the pickle
        damaged = whole.replace(old, new, 1)
        assert damaged != whole
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"consolidated\.00\.pth can't be read as tensors .* fetch it again"):
            load_single_file(model, path, "meta")
    assert torch.equal(model.output.weight, fresh(seed=1).output.weight)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path, fresh: Fresh) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "ran",)

    torch.save({"tok_embeddings.weight": Trap()}, tmp_path / "a.pth")
    with pytest.raises(CheckpointError, match="can't be read as tensors"):
        load_single_file(fresh(), tmp_path / "a.pth", "meta")
    assert not (tmp_path / "ran").exists()


def test_something_other_than_tensors_by_name_is_refused(tmp_path: Path, fresh: Fresh) -> None:
    for content in ([torch.ones(1)], {"epoch": 3}):
        torch.save(content, tmp_path / "a.pt")
        with pytest.raises(CheckpointError, match="something other than tensors by name"):
            load_single_file(fresh(), tmp_path / "a.pt", "ours")
    with pytest.raises(CheckpointError, match=r"There is no file .*none\.pt"):
        load_single_file(fresh(), tmp_path / "none.pt", "ours")


def test_names_of_the_wrong_layout_are_listed(tmp_path: Path, fresh: Fresh) -> None:
    torch.save(fresh().state_dict(), tmp_path / "a.pt")
    with pytest.raises(CheckpointError, match=r"missing: layers.0.attention.wk.weight.*extra: layers.0.attn.k_proj"):
        load_single_file(fresh(), tmp_path / "a.pt", "meta")


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e5m2, torch.complex64])
def test_tensors_that_are_no_floats_are_refused(tmp_path: Path, fresh: Fresh, dtype: torch.dtype) -> None:
    state = fresh().state_dict()
    torch.save({**state, "norm.scale": state["norm.scale"].to(dtype)}, tmp_path / "model.pt")
    model = fresh(seed=1)
    before = model.output.weight.clone()
    with pytest.raises(CheckpointError, match=rf"norm\.scale \({dtype}\). They are quantized"):
        load_single_file(model, tmp_path / "model.pt", "ours")
    assert torch.equal(model.output.weight, before)
