"""``torchpipe plan`` and the recipe say the same."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from run_folders import Build

from torchpipe.audit.plan_report import SETTINGS, plan_config


def listed(cfg: DictConfig) -> DictConfig:
    OmegaConf.resolve(cfg)  # dataset_val takes some of its keys from dataset
    cfg.dataset = [{**cfg.dataset, "split": "train[:9]"}, {**cfg.dataset, "split": "train[9:24]"}]
    return cfg


def test_the_settings_of_a_plan_are_those_of_the_recipe(sft: ModuleType) -> None:
    assert {key: sft.KEYS[key] for key in SETTINGS} == SETTINGS


@pytest.mark.parametrize(
    ("options", "change"),
    [
        ({"batch_size": 2}, None),
        ({"batch_size": 2, "gradient_accumulation_steps": 3, "tokenizer__max_seq_len": 256}, None),
        ({"batch_size": 1, "global_batch_size": 5, "dataset__strategy": "best_fit_decreasing"}, None),
        ({"batch_size": 2, "dataset__overflow": "drop", "dataset__max_seq_len": 160, "balance": "steps"}, None),
        ({"batch_size": 2, "dataset__overflow": "split", "dataset__max_seq_len": 96}, None),
        ({"batch_size": 4, "dataset__packed": False, "tokenizer__max_seq_len": 128}, None),
        ({"batch_size": 4, "dataset__packed": False, "dataset__cache": True, "shuffle": False}, None),
        ({"batch_size": 2}, listed),
        ({"batch_size": 3, "dataset__packed": False, "max_steps": 5}, listed),
    ],
    ids=["packed", "cut", "global batch", "drop", "split", "unpacked", "cached", "list", "unpacked list"],
)
def test_a_run_has_the_rows_tokens_and_steps_of_its_plan(
    sft: ModuleType,
    tiny_config: Build,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, Any],
    change: Callable[[DictConfig], DictConfig] | None,
) -> None:
    cfg = tiny_config(**{"epochs": 2, "log_every_n_steps": 1000, **options})
    cfg = cfg if change is None else change(cfg)
    report = plan_config(cfg)
    capsys.readouterr()
    sft.main(cfg)
    printed = capsys.readouterr().out.splitlines()
    train, held_out = report.sections
    assert f"training rows: {train.counts.describe()}" in printed
    assert f"held-out rows: {held_out.counts.describe()}" in printed
    log = [json.loads(line) for line in (Path(cfg.output_dir) / "log.jsonl").read_text().splitlines()]
    assert len(log) == train.num_steps
    assert train.num_steps == min(2 * len(train.steps), cfg.get("max_steps") or 1000)
    if "max_steps" not in options:
        trained = sum(step["trained_tokens"] for step in log[: len(train.steps)])
        # The last label of a sample of a split row is the first token of the next.
        assert trained == train.counts.trained_tokens
