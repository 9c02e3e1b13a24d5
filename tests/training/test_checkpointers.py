"""torchtune's checkpointers: the base in, merged weights and adapters out, and refusals by name."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe import config
from torchpipe.errors import CheckpointError, ConfigError
from torchpipe.models import load_hf_weights, load_peft_adapter, save_hf_weights
from torchpipe.models.hf_names import name_in
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.peft import LoRAConfig, add_lora, get_adapter_params
from torchpipe.training import (
    DistributedCheckpointer,
    FullModelHFCheckpointer,
    FullModelMetaCheckpointer,
    FullModelTorchTuneCheckpointer,
    ModelType,
)


def decoder(seed: int, *, lora: bool = False, vocab_size: int = 40) -> Any:
    torch.manual_seed(seed)
    model = tiny_llama3(vocab_size=vocab_size, num_layers=2, embed_dim=32, intermediate_dim=48, num_heads=4)
    if lora:
        add_lora(model, LoRAConfig(attn_modules=("q_proj", "v_proj"), rank=2, alpha=4))
        for parameter in get_adapter_params(model).values():
            torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def logits(model: TransformerDecoder) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(30).view(1, 30))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A publisher's folder: shards, config, tokenizer and other files."""
    folder = tmp_path / "base"
    save_hf_weights(decoder(0), folder, max_shard_bytes=12_000, more_config={"eos_token_id": [3, 4]})
    (folder / "tokenizer.model").write_bytes(b"ranks")
    (folder / "generation_config.json").write_text('{"temperature": 0.6}')
    (folder / "LICENSE.txt").write_text("terms")
    (folder / "pytorch_model.bin").write_bytes(b"old")
    (folder / ".cache").mkdir()
    (folder / "original").mkdir()
    return folder


@pytest.fixture
def make(base: Path, tmp_path: Path) -> Callable[..., FullModelHFCheckpointer]:
    """Function (**options) -> a checkpointer of ``base``."""

    def build(**options: Any) -> FullModelHFCheckpointer:
        names = sorted(path.name for path in base.glob("*.safetensors"))
        given = {
            "checkpoint_dir": str(base),
            "checkpoint_files": names,
            "model_type": "LLAMA3_2",
            "output_dir": str(tmp_path / "out"),
        }
        return FullModelHFCheckpointer(**(given | options))

    return build


def test_the_base_is_loaded_and_trained_weights_come_out_beside_the_publishers_files(
    base: Path, make: Callable[..., FullModelHFCheckpointer], tmp_path: Path
) -> None:
    checkpointer, model = make(), decoder(1)
    checkpointer.load(model)
    assert torch.equal(logits(model), logits(decoder(0)))
    with torch.no_grad():
        model.norm.scale.mul_(2)
    folder = checkpointer.export(model, "epoch_0")
    assert folder == tmp_path / "out" / "epoch_0"
    names = ["LICENSE.txt", "config.json", "generation_config.json", "model.safetensors", "tokenizer.model"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / "config.json").read_text())["eos_token_id"] == [3, 4]
    again = decoder(2)
    load_hf_weights(again, folder)
    assert torch.equal(logits(again), logits(model))
    assert checkpointer.export(decoder(5), "epoch_0") == folder  # a run that is resumed writes it again
    assert (base / "pytorch_model.bin").read_bytes() == b"old"


def test_of_adapters_the_merged_weights_and_the_adapter_come_out(
    base: Path, make: Callable[..., FullModelHFCheckpointer]
) -> None:
    checkpointer, model = make(), decoder(1, lora=True)
    checkpointer.load(model)
    folder = checkpointer.export(model, "epoch_0")
    merged = decoder(2)
    load_hf_weights(merged, folder)
    torch.testing.assert_close(logits(merged), logits(model), atol=1e-5, rtol=1e-5)
    # Beside the merged weights transformers would find it, and add it once more.
    assert not (folder / "adapter_config.json").exists()
    again = decoder(3, lora=True)
    checkpointer.load(again)
    load_peft_adapter(again, folder / "adapter")
    assert torch.equal(logits(again), logits(model))
    settings = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == str(base)
    (base / "original_repo_id.json").write_text('{"repo_id": "meta-llama/Llama-3.2-1B"}')
    alone = checkpointer.export(model, "only", adapter_only=True)
    assert not (alone / "config.json").exists()
    settings = json.loads((alone / "adapter" / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == "meta-llama/Llama-3.2-1B"
    with pytest.raises(ConfigError, match="save_adapter_weights_only is True and the model has no adapters"):
        checkpointer.export(decoder(0), "only", adapter_only=True)


@pytest.mark.parametrize("how", ["relative folder", "absolute folder", "file", "torchtune's file"])
def test_a_run_starts_from_an_adapter(make: Callable[..., FullModelHFCheckpointer], tmp_path: Path, how: str) -> None:
    model = decoder(1, lora=True)
    make().load(model)
    folder = make().export(model, "epoch_3", adapter_only=True) / "adapter"
    torch.save({name: tensor.detach() for name, tensor in get_adapter_params(model).items()}, tmp_path / "adapter.pt")
    given = {
        "relative folder": "epoch_3/adapter",
        "absolute folder": str(folder),
        "file": str(folder / "adapter_model.safetensors"),
        "torchtune's file": str(tmp_path / "adapter.pt"),
    }[how]
    again = decoder(2, lora=True)
    make(adapter_checkpoint=given).load(again)
    assert torch.equal(logits(again), logits(model))
    with pytest.raises(ConfigError, match="The model has no adapters"):
        make(adapter_checkpoint=given).load(decoder(2))


def test_an_export_without_adapters_takes_the_place_of_one_with_and_of_nothing_else(
    make: Callable[..., FullModelHFCheckpointer],
) -> None:
    checkpointer = make()
    folder = checkpointer.export(decoder(0, lora=True), "epoch_0")
    assert (folder / "adapter").is_dir()
    checkpointer.export(decoder(0), "epoch_0")
    assert not (folder / "adapter").exists()
    checkpointer.export(decoder(0, lora=True), "epoch_0")
    (folder / "adapter" / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="epoch_0 holds adapter, and the weights would take the whole folder"):
        checkpointer.export(decoder(0), "epoch_0")
    assert (folder / "adapter" / "notes.txt").read_text() == "mine"


def test_an_adapter_that_is_nowhere_is_refused(make: Callable[..., FullModelHFCheckpointer]) -> None:
    with pytest.raises(ConfigError, match="adapter_checkpoint is 'epoch_9', which is neither under output_dir"):
        make(adapter_checkpoint="epoch_9")


def test_files_can_be_a_list_a_format_or_the_index(base: Path, make: Callable[..., FullModelHFCheckpointer]) -> None:
    number = len(list(base.glob("*.safetensors")))
    files = {"filename_format": "model-{}-of-{}.safetensors", "max_filename": f"{number:05d}"}
    for given in (files, None, sorted(path.name for path in base.glob("*.safetensors"))):
        model = decoder(1)
        make(checkpoint_files=given).load(model)
        assert torch.equal(logits(model), logits(decoder(0)))
    many = {"filename_format": "model-{}-of-{}.safetensors", "max_filename": "99999999"}
    for wrong in ({"filename_format": "model-{}.safetensors", "max_filename": "3"}, {"max_filename": "3"}, many):
        with pytest.raises(ConfigError, match="Give a list of names, or filename_format with two {} and max_filename"):
            make(checkpoint_files=wrong)


def test_arguments_stand_in_torchtunes_order() -> None:
    first = [
        "checkpoint_dir",
        "checkpoint_files",
        "model_type",
        "output_dir",
        "adapter_checkpoint",
        "recipe_checkpoint",
    ]
    first += ["resume_from_checkpoint"]
    assert list(inspect.signature(FullModelHFCheckpointer).parameters) == [
        *first,
        "safe_serialization",
        "should_load_recipe_state",
    ]
    for kind in (FullModelMetaCheckpointer, FullModelTorchTuneCheckpointer):
        assert list(inspect.signature(kind).parameters) == [*first, "should_load_recipe_state"]


def test_a_config_builds_one(base: Path, tmp_path: Path) -> None:
    section = config.instantiate(
        {
            "_component_": "torchpipe.training.FullModelHFCheckpointer",
            "checkpoint_dir": str(base),
            "checkpoint_files": sorted(path.name for path in base.glob("*.safetensors")),
            "recipe_checkpoint": None,
            "output_dir": str(tmp_path / "out"),
            "model_type": "LLAMA3",
        }
    )
    model = decoder(1)
    section.load(model)
    assert torch.equal(logits(model), logits(decoder(0)))


def test_embeddings_are_resized_to_the_checkpoint_and_then_to_the_tokenizer(
    base: Path, make: Callable[..., FullModelHFCheckpointer]
) -> None:
    class Tokenizer:
        vocab_size = 42
        special_tokens = {"<s>": 0, "<a>": 40, "<b>": 41}  # noqa: RUF012

    model = decoder(1, vocab_size=128)
    with pytest.raises(CheckpointError, match="vocabulary of 40 ids and the model has one of 128"):
        make().load(model)
    with pytest.warns(UserWarning, match="built for 128 ids and .* has 40: it takes on the checkpoint's"):
        make().load(model, tokenizer=Tokenizer())
    assert torch.equal(logits(model)[..., :40], logits(decoder(0)))
    assert model.tok_embeddings.num_embeddings == 42
    folder = make().export(model, "epoch_0")
    again = decoder(3)
    checkpointer = make(checkpoint_dir=str(folder), checkpoint_files=None, output_dir=str(folder.parent / "more"))
    with pytest.warns(UserWarning, match="built for 40 ids and .* has 42"):
        checkpointer.load(again, tokenizer=Tokenizer())
    assert torch.equal(logits(again), logits(model))


def test_the_fingerprint_follows_the_base_files(base: Path, make: Callable[..., FullModelHFCheckpointer]) -> None:
    before = make().fingerprint()
    assert before == make(output_dir="elsewhere", checkpoint_files=None).fingerprint()
    (base / "tokenizer.model").write_bytes(b"other ranks")
    assert make().fingerprint() == before
    save_hf_weights(decoder(3), base / "other", max_shard_bytes=12_000)
    file = sorted((base / "other").glob("*.safetensors"))[2]
    (base / file.name).write_bytes(file.read_bytes())
    assert make().fingerprint() != before


def test_metas_and_torchtunes_files_are_loaded_by_their_own_checkpointers(tmp_path: Path) -> None:
    source = decoder(0)
    torch.save({name_in("meta", n): t for n, t in source.state_dict().items()}, tmp_path / "consolidated.00.pth")
    torch.save(source.state_dict(), tmp_path / "model.pt")
    for kind, file in (
        (FullModelMetaCheckpointer, "consolidated.00.pth"),
        (FullModelTorchTuneCheckpointer, "model.pt"),
    ):
        model = decoder(1)
        checkpointer = kind(str(tmp_path), [file], "LLAMA3", str(tmp_path.parent / "out" / file))
        checkpointer.load(model)
        assert torch.equal(logits(model), logits(source))
        folder = checkpointer.export(model, "epoch_0")
        again = decoder(2)
        load_hf_weights(again, folder)
        assert torch.equal(logits(again), logits(source))
        with pytest.raises(ConfigError, match=f"checkpoint_files has 2 names, and {kind.__name__} reads one file"):
            kind(str(tmp_path), [file, file], "LLAMA3", str(tmp_path.parent / "out")).load(model)
        with pytest.raises(CheckpointError, match="There is no file .*nothing"):
            kind(str(tmp_path), ["nothing"], "LLAMA3", str(tmp_path.parent / "out")).load(model)


@pytest.mark.parametrize("option", [{"recipe_checkpoint": "r.pt"}, {"resume_from_checkpoint": True}])
def test_runs_are_not_resumed_by_a_checkpointer(
    make: Callable[..., FullModelHFCheckpointer], option: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="the recipe goes on from output_dir with resume=true"):
        make(**option)


def test_what_is_not_read_or_written_is_refused_by_name(
    base: Path, make: Callable[..., FullModelHFCheckpointer]
) -> None:
    with pytest.raises(ConfigError, match="model_type is 'QWEN2', whose weights torchpipe does not read.*LLAMA3_2"):
        make(model_type="QWEN2")
    with pytest.raises(ConfigError, match="no model family. Did you mean 'LLAMA3'"):
        make(model_type="LAMA3")
    assert make(model_type=ModelType.LLAMA3).model_type is ModelType.LLAMA3
    with pytest.raises(ConfigError, match="safe_serialization is False"):
        make(safe_serialization=False)
    with pytest.raises(ConfigError, match=r"output_dir .* lies in checkpoint_dir .*so that the base weights stay"):
        make(output_dir=str(base / "out"))
    with pytest.raises(ConfigError, match="torchpipe has no DistributedCheckpointer.*FullModelHFCheckpointer"):
        DistributedCheckpointer(str(base), "out")
    for name in ("", "..", "a/b"):
        with pytest.raises(ConfigError, match="The name of an export is .* Give the name of one folder"):
            make().export(decoder(0), name)
