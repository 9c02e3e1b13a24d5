"""A run that is killed and resumed, again and again, ends with the weights of a run that never was."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from run_folders import newest
from safetensors.torch import load_file

from torchpipe._seeds import derive

NUM_STEPS = 12
EndedRun = Callable[..., int]


@pytest.mark.sized("kills", "killed_runs")
def test_killed_and_resumed_ends_with_the_same_weights(
    sft: ModuleType, tiny_config: Callable[..., DictConfig], ended_run: EndedRun, tmp_path: Path, kills: int
) -> None:
    options = {"batch_size": 1, "epochs": 4, "max_steps": NUM_STEPS, "save_every_n_steps": 2}
    whole = tiny_config(output_dir=str(tmp_path / "whole"), **options)
    sft.main(whole)
    config = tmp_path / "config.yaml"
    OmegaConf.save(whole, config)
    check_killed_runs(["sft", "--config", str(config)], ended_run, tmp_path, kills, "model.safetensors")


@pytest.mark.sized("kills", "killed_runs")
def test_killed_and_resumed_adapters_end_with_the_same_weights(
    torchtune_job: Callable[..., list[str]],
    torchtune_llama: SimpleNamespace,
    torchpipe_command: Callable[..., Any],
    ended_run: EndedRun,
    tmp_path: Path,
    kills: int,
) -> None:
    """With dropout, a schedule and clipped gradients, in bfloat16, over loaded weights; two epochs are exported."""
    options = ["seed=3", "model.lora_dropout=0.1", "lr_scheduler.num_warmup_steps=3", "clip_grad_norm=0.5"]
    options += ["gradient_accumulation_steps=1", "epochs=2", "save_every_n_steps=2", "max_generated_tokens=2"]
    words = ["lora_finetune_single_device", *torchtune_job(torchtune_llama.LORA, *options, rows=4 * NUM_STEPS // 2)]
    whole = torchpipe_command("run", *words, f"output_dir={tmp_path / 'whole'}")
    assert whole.returncode == 0, whole.stderr
    check_killed_runs(words, ended_run, tmp_path, kills, "adapter.safetensors")
    for folder in (tmp_path / "whole", *tmp_path.glob("killed*")):
        exports = [load_file(folder / f"epoch_{epoch}" / "model.safetensors") for epoch in (0, 1)]
        expected = [load_file(tmp_path / "whole" / f"epoch_{epoch}" / "model.safetensors") for epoch in (0, 1)]
        for got, want in zip(exports, expected, strict=True):
            assert all(torch.equal(got[name], want[name]) for name in want)


def check_killed_runs(words: list[str], ended_run: EndedRun, folder: Path, kills: int, file: str) -> None:
    """Kills runs of NUM_STEPS steps, ends them, and compares their last weights with those in ``folder/whole``."""
    expected = load_file(newest(folder / "whole") / file)
    done = 0
    for round_number in range(kills):
        killed = folder / f"killed{round_number // 4}"  # every fourth kill a new run begins
        killed.mkdir(exist_ok=True)
        at = 2 + 3 * (round_number % 4)
        delay = derive(0, "kill", round_number) % 1000 / 20_000  # up to 50 ms: also in the middle of a save
        status = ended_run(*words, f"output_dir={killed}", folder=killed, steps=at, delay=delay)
        done += status == -signal.SIGKILL
    assert done >= kills * 3 // 4

    for killed in sorted(folder.glob("killed*")):
        ended_run(*words, f"output_dir={killed}", folder=killed, steps=10**9)
        got = load_file(newest(killed) / file)
        assert newest(killed).name == f"step_{NUM_STEPS:08d}", (killed / "out.txt").read_text()
        assert all(torch.equal(got[name], expected[name]) for name in expected)
        assert (killed / "log.jsonl").read_text().count("\n") == NUM_STEPS
