"""Recipe sft trains: losses fall, rows count as they should, and what it prints and keeps is what was asked for."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from run_folders import Build, same_weights, weights_of

from torchpipe import config
from torchpipe.data import padded_collate_packed, padded_collate_sft
from torchpipe.datasets import instruct_dataset
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_llama3, tiny_tokenizer
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.losses import LinearCrossEntropyLoss
from torchpipe.training import mean_loss, set_seed


def test_training_overfits_a_few_chats_and_says_so(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = tiny_config(dataset__split="train[:4]", epochs=60, batch_size=1, model__embed_dim=64, optimizer__lr=1e-2)
    sft.main(cfg)
    out = capsys.readouterr().out
    before, after = (float(part.split()[-2]) for part in out.split("training loss: ")[1].split("\n")[0].split(","))
    assert after < 0.5 * before
    assert "held-out loss:" in out
    assert "generation from the prompt of the first sample:" in out
    log = [json.loads(line) for line in (Path(cfg.output_dir) / "log.jsonl").read_text().splitlines()]
    assert log[-1]["loss"] < 0.5 * log[0]["loss"]


def test_the_first_sample_is_shown_with_what_is_trained(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    sft.main(tiny_config(max_steps=1, dataset__strategy="next_fit"))
    out = capsys.readouterr().out
    assert "training rows: 24 rows" in out
    assert "\ntraining rows, packed: 9 packs, " in out
    assert "\nsteps: 1; 4 packs a step and 0 padding packs = world size 1" in out
    assert "held-out rows: 8 rows" in out
    trained = next(line for line in out.splitlines() if line.lstrip().startswith("trained"))
    assert "Rinse the rice in cold water" in trained
    assert trained.endswith("<|eot_id|>")
    assert "<|start_header_id|>" not in trained


def test_accumulation_gives_the_gradient_of_one_big_batch(sft: ModuleType, tiny_config: Build, tmp_path: Path) -> None:
    """Rows of very different trained lengths: a mean of micro-batch means would weigh them wrongly."""
    found = []
    for name, batch_size, accumulation in (("big", 4, 1), ("split", 1, 4)):
        cfg = tiny_config(
            output_dir=str(tmp_path / name),
            dataset__packed=False,
            dataset_val__packed=False,
            batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
            max_steps=2,
        )
        OmegaConf.update(cfg, "optimizer", {"_component_": "torch.optim.SGD", "lr": 0.5}, merge=False)
        sft.main(cfg)
        found.append(weights_of(cfg.output_dir))
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name], rtol=1e-5, atol=1e-6)


def test_packed_and_unpacked_rows_have_the_same_loss_on_the_same_weights(shared_data: Path) -> None:
    tokenizer = tiny_tokenizer(max_seq_len=1024)
    set_seed(0)
    model = tiny_llama3(tokenizer.vocab_size)
    loss_fn = LinearCrossEntropyLoss()
    loss_fn.set_model_output(model)
    found = {}
    for packed in (False, True):
        rows = instruct_dataset(
            tokenizer,
            source="json",
            data_files=str(shared_data / "gsm8k" / "train.jsonl"),
            split="train[:40]",
            column_map={"input": "question", "output": "answer"},
            packed=packed,
        )
        samples = [rows[i] for i in range(len(rows))]
        for mask in ("dense", "varlen") if packed else ("none",):
            batches: Any = (
                [padded_collate_packed(samples[i : i + 2], mask=mask) for i in range(0, len(samples), 2)]  # pyright: ignore[reportArgumentType]
                if packed
                else [padded_collate_sft(samples[i : i + 5]) for i in range(0, len(samples), 5)]
            )
            found[mask] = mean_loss(model, loss_fn, batches, torch.device("cpu"))
    assert found["dense"] == pytest.approx(found["none"], rel=1e-5)
    assert found["varlen"] == pytest.approx(found["none"], rel=1e-5)


def test_validation_is_logged_and_changes_nothing(sft: ModuleType, tiny_config: Build, tmp_path: Path) -> None:
    plain = tiny_config(output_dir=str(tmp_path / "plain"), max_steps=3, batch_size=2)
    validated = tiny_config(output_dir=str(tmp_path / "val"), max_steps=3, batch_size=2, run_val_every_n_steps=2)
    sft.main(plain)
    sft.main(validated)
    assert same_weights(weights_of(plain.output_dir), weights_of(validated.output_dir))
    log = [json.loads(line) for line in (tmp_path / "val" / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if "held_out_loss" in line] == [2]


def test_checkpoints_are_kept_as_told(sft: ModuleType, tiny_config: Build) -> None:
    cfg = tiny_config(batch_size=1, max_steps=6, save_every_n_steps=2, keep_last_n_checkpoints=2)
    sft.main(cfg)
    names = sorted(entry.name for entry in (Path(cfg.output_dir) / "checkpoints").iterdir())
    assert names == ["step_00000004", "step_00000006"]


def test_held_out_rows_can_be_left_out_with_one_key(sft: ModuleType, tiny_config: Build) -> None:
    sft.main(tiny_config(max_steps=1, dataset_val=None, run_val_every_n_steps=10))


def test_a_filter_can_be_named_in_yaml(sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]) -> None:
    sft.main(tiny_config(max_steps=1, dataset__filter_fn=f"{__name__}.is_cooking"))
    assert "more rows left out by filter_fn" in capsys.readouterr().out


def is_cooking(row: dict[str, Any]) -> bool:
    return row["topic"] == "cooking"


def test_every_shipped_config_builds_its_parts(repository: Path, sft: ModuleType) -> None:
    configs = sorted((repository / "configs").rglob("sft.yaml"))
    assert configs
    for file in configs:
        loaded = OmegaConf.load(file)
        assert isinstance(loaded, DictConfig)
        assert set(map(str, loaded)) <= set(sft.KEYS)
        config.validate(loaded)
        with torch.device("meta"):
            assert isinstance(config.instantiate(loaded.model), TransformerDecoder)


def chats_file(path: Path, *weights: float | None) -> str:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"What is {number} + {number}?"},
                {"role": "assistant", "content": f"It is {2 * number}.", "weight": weight},
            ]
        }
        for number, weight in enumerate(weights)
    ]
    path.write_text(json.dumps(rows))
    return str(path)


@pytest.mark.parametrize("packed", [True, False])
def test_weights_of_messages_reach_the_gradient_however_rows_are_batched(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, packed: bool
) -> None:
    one, other = (0.5, 2.0, None, 0.25), (1, 1, 1, 1)
    common = {
        "dataset_val": None,
        "dataset__split": "train",
        "dataset__packed": packed,
        "tokenizer__max_seq_len": 64,
        "epochs": 2,
        "shuffle": False,
    }
    found = {}
    for name, weights, batch_size, accumulation in (
        ("whole", one, 4, 1),
        ("parts", one, 1, 4),
        ("twice", tuple(2 * (weight or 1) for weight in one), 4, 1),
        ("plain", other, 4, 1),
    ):
        cfg = tiny_config(
            **common,
            data_file=chats_file(tmp_path / f"{name}.json", *weights),
            output_dir=str(tmp_path / name),
            batch_size=batch_size,
            gradient_accumulation_steps=accumulation,
        )
        cfg.optimizer = {"_component_": "torch.optim.SGD", "lr": 0.5}
        sft.main(cfg)
        found[name] = weights_of(cfg.output_dir)
    for name, tensor in found["whole"].items():
        torch.testing.assert_close(found["parts"][name], tensor, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(found["twice"][name], tensor, rtol=1e-4, atol=1e-6)
    assert not all(torch.allclose(found["plain"][name], tensor, rtol=1e-4) for name, tensor in found["whole"].items())


def test_weights_and_a_loss_without_a_place_for_them_are_refused(
    sft: ModuleType, tiny_config: Build, tmp_path: Path
) -> None:
    cfg = tiny_config(
        dataset_val=None,
        dataset__split="train",
        dataset__packed=False,
        data_file=chats_file(tmp_path / "chats.json", 0.5),
        loss={"_component_": "torch.nn.CrossEntropyLoss"},
    )
    with pytest.raises(ConfigError, match="the loss CrossEntropyLoss takes no loss_weights"):
        sft.main(cfg)
