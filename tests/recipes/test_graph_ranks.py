"""Recipe sft over a graph on several ranks: stopped and resumed to the bit, on one rank with the same rows."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file

NUM_STEPS = 60


def weights_of(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(sorted((folder / "checkpoints").glob("step_*"))[-1] / "model.safetensors")


def steps_of(folder: Path, *keys: str) -> list[tuple[Any, ...]]:
    return [tuple(json.loads(line)[key] for key in keys) for line in (folder / "log.jsonl").read_text().splitlines()]


def same(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("way", ["planned", "grain"])
def test_two_ranks_end_at_sigterm_and_go_on_to_the_bit_and_on_one_rank_with_the_same_rows(
    way: str,
    sft: ModuleType,
    graph_config: Callable[..., DictConfig],
    random_graph: dict[str, Any],
    ended_run: Callable[..., int],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def config(folder: Path) -> DictConfig:
        made = graph_config(max_steps=NUM_STEPS, output_dir=str(folder), log_every_n_steps=100)
        if way == "grain":
            made.dataloader.dataset = random_graph
        return made

    def run(folder: Path, steps: int = 10**9) -> int:
        folder.mkdir(exist_ok=True)
        OmegaConf.save(config(folder), folder / "config.yaml")
        words = ("--standalone", "--nproc_per_node", "2", "sft", "--config", folder / "config.yaml")
        return ended_run(*words, folder=folder, steps=steps, number=signal.SIGTERM)

    whole, parts, alone = tmp_path / "whole", tmp_path / "parts", tmp_path / "alone"
    assert run(whole) == 0, (whole / "out.txt").read_text()
    assert run(parts, steps=9) == 128 + signal.SIGTERM, (parts / "out.txt").read_text()
    done = len(steps_of(parts, "step"))
    assert 9 <= done < NUM_STEPS
    shutil.copytree(parts, alone)
    assert run(parts) == 0, (parts / "out.txt").read_text()
    said = (parts / "out.txt").read_text()
    assert f"resumed at step {done} of {NUM_STEPS}" in said
    assert "read again" not in said
    assert same(weights_of(parts), weights_of(whole))
    assert steps_of(parts, "step", "loss", "trained_tokens") == steps_of(whole, "step", "loss", "trained_tokens")

    resumed = config(alone)
    resumed.resume = True
    sft.main(resumed)
    printed = capfd.readouterr()
    assert "world size was 2, is 1: 2 rows a step" in printed.out
    assert "read again" not in printed.err
    assert steps_of(alone, "step", "trained_tokens") == steps_of(whole, "step", "trained_tokens")
    losses = [torch.tensor(steps_of(folder, "loss")) for folder in (alone, whole)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-4)


def test_one_pass_as_rows_come_has_the_same_steps_on_one_rank_and_on_two(
    sft: ModuleType,
    graph_config: Callable[..., DictConfig],
    random_graph: dict[str, Any],
    ended_run: Callable[..., int],
    tmp_path: Path,
) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
        made = graph_config(max_steps=None, output_dir=str(folder), dataloader__repeat=False, global_batch_size=4)
        made.dataloader.num_logical_shards = 4
        made.dataloader.dataset = random_graph["dataset"]  # unpacked: 38 rows, so that two of four parts end first
        OmegaConf.save(made, folder / "config.yaml")
    words = ("--standalone", "--nproc_per_node", "2", "sft", "--config", folders[1] / "config.yaml")
    assert ended_run(*words, folder=folders[1], steps=10**9) == 0, (folders[1] / "out.txt").read_text()
    sft.main(OmegaConf.load(folders[0] / "config.yaml"))
    one, two = (steps_of(folder, "step", "trained_tokens") for folder in folders)
    assert one == two
    assert len(one) == 10
    assert sum(tokens for _, tokens in one) == sum(number - 1 for number in range(2, 40))
