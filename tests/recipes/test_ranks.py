"""The recipe on several ranks: the same steps on any number of them, and SIGTERM ends it after a step."""

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from run_folders import Build, same_weights, steps_of, weights_of

from torchpipe.errors import CheckpointError, ConfigError

# 23 rows, two a step: 12 steps an epoch, the last of them with a padding row. The run saves at its end only.
OPTIONS: dict[str, Any] = {
    "dataset__packed": False,
    "dataset__split": "train[:23]",
    "dataset_val": None,
    "batch_size": 1,
    "epochs": 6,
    "log_every_n_steps": 100,
}
NUM_STEPS = 72


@pytest.fixture
def config_in(tiny_config: Build, tmp_path: Path) -> Callable[..., Path]:
    """Function (name of a folder, **options) -> a config in it that trains there."""

    def write(name: str, **options: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        OmegaConf.save(tiny_config(output_dir=str(folder), **{**OPTIONS, **options}), folder / "config.yaml")
        return folder / "config.yaml"

    return write


def test_two_ranks_end_at_sigterm_and_go_on_to_the_bit_and_on_one_rank_with_the_same_batches(
    sft: ModuleType,
    tiny_config: Build,
    config_in: Callable[..., Path],
    ended_run: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    two = ("--standalone", "--nproc_per_node", "2", "sft", "--config")
    whole, parts, alone = tmp_path / "whole", tmp_path / "parts", tmp_path / "alone"
    assert ended_run(*two, config_in("whole"), folder=whole, steps=10**9) == 0

    # Ended in the middle, with workers, which the launcher signals too.
    status = ended_run(*two, config_in("parts"), "num_workers=1", folder=parts, steps=14, number=signal.SIGTERM)
    out = (parts / "out.txt").read_text()
    assert status == 128 + signal.SIGTERM, out
    assert "Traceback" not in out
    done = len(steps_of(parts, "step"))
    assert 14 <= done < NUM_STEPS
    checkpoint = parts / "checkpoints" / f"step_{done:08d}"
    assert f"SIGTERM: ended after step {done} of {NUM_STEPS}, saved as {checkpoint}. resume=true goes on." in out
    assert out.count("SIGTERM: ended") == 1, "rank 0 alone prints"
    shutil.copytree(parts, alone)

    assert ended_run(*two, parts / "config.yaml", folder=parts, steps=10**9) == 0
    assert f"resumed at step {done} of {NUM_STEPS}" in (parts / "out.txt").read_text()
    assert same_weights(weights_of(parts), weights_of(whole))
    assert steps_of(parts, "step", "loss", "trained_tokens") == steps_of(whole, "step", "loss", "trained_tokens")

    sft.main(tiny_config(**OPTIONS, output_dir=str(alone), resume=True))
    printed = capsys.readouterr().out
    assert (
        "world size was 2, is 1: 2 packs a step and 0 padding packs = world size 1 x accumulation 2 x batch size 1"
    ) in printed
    assert steps_of(alone, "step", "trained_tokens") == steps_of(whole, "step", "trained_tokens")
    losses = [torch.tensor(steps_of(folder, "loss")) for folder in (alone, whole)]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-4)


def test_one_process_ends_at_sigterm_and_goes_on_to_the_bit(
    sft: ModuleType, tiny_config: Build, config_in: Callable[..., Path], ended_run: Callable[..., int], tmp_path: Path
) -> None:
    options = {"global_batch_size": 2, "num_workers": 1}
    folder = tmp_path / "parts"
    status = ended_run("sft", "--config", config_in("parts", **options), folder=folder, steps=14, number=signal.SIGTERM)
    out = (folder / "out.txt").read_text()
    assert status == 0, out
    assert "resume=true goes on." in out
    assert "training loss" not in out, "nothing more is done"
    sft.main(tiny_config(**OPTIONS, **options, output_dir=str(folder), resume=True))
    sft.main(tiny_config(**OPTIONS, **options, output_dir=str(tmp_path / "whole")))
    assert same_weights(weights_of(folder), weights_of(tmp_path / "whole"))


@pytest.mark.soak
@pytest.mark.parametrize("kills", [20])
def test_two_ranks_killed_again_and_again_end_with_the_same_weights(
    config_in: Callable[..., Path], ended_run: Callable[..., int], tmp_path: Path, kills: int
) -> None:
    two = ("--standalone", "--nproc_per_node", "2", "sft", "--config")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert ended_run(*two, config_in("whole"), folder=whole, steps=10**9) == 0
    config = config_in("parts", save_every_n_steps=2)
    done = 0
    for number in range(kills):
        how = signal.SIGTERM if number % 2 else signal.SIGKILL
        status = ended_run(*two, config, folder=parts, steps=3 * (number + 1), number=how)
        done += status in (-signal.SIGKILL, 128 + signal.SIGTERM)
    assert done >= kills * 3 // 4
    assert ended_run(*two, config, folder=parts, steps=10**9) == 0
    assert same_weights(weights_of(parts), weights_of(whole))
    assert steps_of(parts, "step", "loss") == steps_of(whole, "step", "loss")


@pytest.mark.parametrize("balance", ["none", "steps"])
def test_the_packs_of_a_step_are_kept_whatever_the_settings_say_on_resume(
    sft: ModuleType, tiny_config: Build, tmp_path: Path, balance: str
) -> None:
    small = {**OPTIONS, "balance": balance, "num_rows_for_training_loss": 0}
    sft.main(tiny_config(**small, global_batch_size=5, max_steps=1))
    state = json.loads((tmp_path / "out" / "checkpoints" / "step_00000001" / "state.json").read_text())
    assert (state["loader"]["global_batch_size"], state["loader"]["balance"]) == (5, balance)
    sft.main(tiny_config(**small, max_steps=2, resume=True))  # without global_batch_size: that of the state
    with pytest.raises(CheckpointError, match="global_batch_size was 5 and is 4"):
        sft.main(tiny_config(**small, max_steps=3, resume=True, global_batch_size=4))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"global_batch_size": 4, "gradient_accumulation_steps": 2}, "a step has, and gradient_accumulation_steps too"),
        ({"balance": "within"}, "balance is 'within'. It is one of 'none', 'within_step', 'steps'"),
        ({"balance": "steps", "shuffle": False}, "chooses which packs form a step, and shuffle=False keeps them"),
        ({"prefetch_factor": 2}, "prefetch_factor has no effect without workers"),
    ],
)
def test_settings_of_the_loader_that_can_not_work_are_refused(
    sft: ModuleType, tiny_config: Build, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence):
        sft.main(tiny_config(**options, data_file="gone.json"))
