"""A run that is killed and resumed, again and again, ends with the weights of a run that never was."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file

from torchpipe._seeds import derive

NUM_STEPS = 12
EndedRun = Callable[..., int]


def newest(folder: Path) -> Path:
    return sorted((folder / "checkpoints").glob("step_*"))[-1]


@pytest.mark.sized("kills", "killed_runs")
def test_killed_and_resumed_ends_with_the_same_weights(
    sft: ModuleType, tiny_config: Callable[..., DictConfig], ended_run: EndedRun, tmp_path: Path, kills: int
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
        done += ended_run("sft", "--config", config, folder=folder, steps=at, delay=delay) == -signal.SIGKILL
    assert done >= kills * 3 // 4

    for folder in sorted(tmp_path.glob("killed*")):
        sft.main(tiny_config(output_dir=str(folder), resume=True, **options))
        got = load_file(newest(folder) / "model.safetensors")
        assert newest(folder).name == f"step_{NUM_STEPS:08d}", (folder / "out.txt").read_text()
        assert all(torch.equal(got[name], expected[name]) for name in expected)
        assert (folder / "log.jsonl").read_text().count("\n") == NUM_STEPS
