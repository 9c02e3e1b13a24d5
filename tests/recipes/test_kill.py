"""A run that is killed and resumed, again and again, ends with the weights of a run that never was."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file

from torchpipe._seeds import derive

NUM_STEPS = 12


def newest(folder: Path) -> Path:
    return sorted((folder / "checkpoints").glob("step_*"))[-1]


def logged_steps(folder: Path) -> int:
    log = folder / "log.jsonl"
    return log.read_text().count("\n") if log.exists() else 0


def run_until(config: Path, folder: Path, steps: int, delay: float) -> int:
    """Starts or resumes the run and kills it ``delay`` seconds after it logged ``steps`` steps; its exit status."""
    command = [sys.executable, "-m", "torchpipe.cli.main", "run", "sft", "--config", str(config), "resume=true"]
    with (folder / "out.txt").open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "OMP_NUM_THREADS": "1"})
    while process.poll() is None and logged_steps(folder) < steps:
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    return process.wait()


@pytest.mark.sized("kills", "killed_runs")
def test_killed_and_resumed_ends_with_the_same_weights(
    sft: ModuleType, tiny_config: Callable[..., DictConfig], tmp_path: Path, kills: int
) -> None:
    options = {"batch_size": 1, "epochs": 4, "max_steps": NUM_STEPS, "save_every_n_steps": 2}
    whole = tiny_config(output_dir=str(tmp_path / "whole"), **options)
    sft.main(whole)
    expected = load_file(newest(tmp_path / "whole") / "model.safetensors")

    done = 0
    for round_number in range(kills):
        folder = tmp_path / f"killed{round_number // 4}"  # every fourth kill a new run begins
        folder.mkdir(exist_ok=True)
        config = folder / "config.yaml"
        OmegaConf.save(tiny_config(output_dir=str(folder), **options), config)
        at = 2 + 3 * (round_number % 4)
        delay = derive(0, "kill", round_number) % 1000 / 20_000  # up to 50 ms: also in the middle of a save
        done += run_until(config, folder, at, delay) == -signal.SIGKILL
    assert done >= kills * 3 // 4

    for folder in sorted(tmp_path.glob("killed*")):
        run_until(folder / "config.yaml", folder, 10**9, 0.0)
        got = load_file(newest(folder) / "model.safetensors")
        assert newest(folder).name == f"step_{NUM_STEPS:08d}", (folder / "out.txt").read_text()
        assert all(torch.equal(got[name], expected[name]) for name in expected)
        assert logged_steps(folder) == NUM_STEPS
