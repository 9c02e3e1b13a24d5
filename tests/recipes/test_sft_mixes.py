"""Recipe sft over several data sets: a list of them, a mix with its shares, a mix that is packed."""

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from omegaconf import OmegaConf
from run_folders import Build, same_weights, weights_of

from torchpipe.audit.plan_report import plan_config


@pytest.mark.parametrize("packed", [True, False])
def test_a_list_of_dataset_sections_is_trained_on_as_one(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str], packed: bool
) -> None:
    cfg = tiny_config(max_steps=1, dataset__packed=packed)
    OmegaConf.resolve(cfg)  # dataset_val takes some of its keys from dataset
    cfg.dataset = [{**cfg.dataset, "split": "train[:5]"}, {**cfg.dataset, "split": "train[5:12]"}]
    sft.main(cfg)
    assert "training rows: 12 rows" in capsys.readouterr().out


def test_a_mix_says_its_shares_and_each_held_out_source_its_loss(
    sft: ModuleType, tiny_config: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    cfg = tiny_config(max_steps=2, run_val_every_n_steps=1, dataset__packed=False, dataset__cache=True)
    OmegaConf.resolve(cfg)
    cfg.dataset = [
        {**cfg.dataset, "split": "train[:6]", "weight": 2, "name": "short"},
        {**cfg.dataset, "split": "train[6:24]", "weight": 1, "name": "long"},
    ]
    cfg.dataset_val = {name: {**cfg.dataset_val, "split": split} for name, split in PARTS.items()}
    sft.main(cfg)
    out = capsys.readouterr().out
    assert "training rows: 9 rows" in out
    assert "training rows, mixed: 9 rows of 2 data sets by rows: short 66.7% (asked for 66.7%; 6 places" in out
    assert "held-out rows of short: 3 rows" in out
    for name in ("held-out", "held-out short", "held-out long"):
        assert f"\n{name} loss: " in out
    log = [json.loads(line) for line in (Path(cfg.output_dir) / "log.jsonl").read_text().splitlines()]
    held_out = [line for line in log if "held_out_loss" in line]
    assert [set(line["held_out_losses"]) for line in held_out] == [{"held-out short", "held-out long"}] * 2
    for line in held_out:
        assert min(line["held_out_losses"].values()) < line["held_out_loss"] < max(line["held_out_losses"].values())


def test_a_packed_mix_goes_on_to_the_bit_and_its_plan_is_that_of_the_run(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def mixed(output_dir: str, **options: Any) -> Any:
        cfg = tiny_config(output_dir=str(tmp_path / output_dir), dataset__packed=False, **options)
        OmegaConf.resolve(cfg)
        part = {**cfg.dataset, "cache": True}
        cfg.dataset_val.packed = True
        names = {"short": {**part, "split": "train[:6]"}, "long": {**part, "split": "train[6:24]"}}
        mix = {"_component_": "torchpipe.datasets.MixDataset", "datasets": names, "weights": {"short": 1, "long": 2}}
        mix |= {"by": "trained_tokens", "stop": "all"}
        cfg.dataset = {"_component_": "torchpipe.datasets.PackedDataset", "ds": mix, "strategy": "best_fit_decreasing"}
        return cfg

    sft.main(mixed("whole", max_steps=4, epochs=3, batch_size=2))
    for steps in (1, 3, 4):
        sft.main(mixed("parts", max_steps=steps, epochs=3, batch_size=2, resume=True))
    assert same_weights(weights_of(str(tmp_path / "whole")), weights_of(str(tmp_path / "parts")))
    printed = capsys.readouterr().out
    (train, _) = plan_config(mixed("plan", batch_size=2)).sections
    assert f"training rows: {train.counts.describe()}" in printed
    assert "training rows, mixed: " in printed
    assert train.num_items == len(train.steps) * 2 - train.num_padding_items


PARTS = {"short": "train[-6:-3]", "long": "train[-3:]"}
