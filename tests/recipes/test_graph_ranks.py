"""Recipe sft over a graph on several ranks: stopped and resumed to the bit, on one rank with the same rows."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from run_folders import same_weights, steps_of, weights_of

NUM_STEPS = 60

pytestmark = pytest.mark.filterwarnings("ignore:.*are dropped, in documents that are too long")


@pytest.fixture
def config_in(graph_config: Callable[..., DictConfig], random_graph: dict[str, Any]) -> Callable[..., DictConfig]:
    """Function (folder, way, **overrides) -> a config that trains there, on a graph "planned" or run by "grain"."""

    def made(folder: Path, way: str, **overrides: Any) -> DictConfig:
        config = graph_config(max_steps=NUM_STEPS, output_dir=str(folder), log_every_n_steps=100, **overrides)
        if way == "grain":
            config.dataloader.dataset = random_graph
        return config

    return made


@pytest.fixture
def two_ranks(config_in: Callable[..., DictConfig], ended_run: Callable[..., int]) -> Callable[..., int]:
    """Function (folder, way, steps=, number=, **overrides) -> exit status of a run that gets a signal after those
    steps."""

    def run(folder: Path, way: str, *, steps: int = 10**9, number: Any = signal.SIGTERM, **overrides: Any) -> int:
        folder.mkdir(exist_ok=True)
        OmegaConf.save(config_in(folder, way, **overrides), folder / "config.yaml")
        words = ("--standalone", "--nproc_per_node", "2", "sft", "--config", folder / "config.yaml")
        return ended_run(*words, folder=folder, steps=steps, number=number)

    return run


@pytest.fixture
def check_two_ranks(
    sft: ModuleType,
    config_in: Callable[..., DictConfig],
    two_ranks: Callable[..., int],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> Callable[[str], None]:
    """Function (way): two ranks end at SIGTERM, go on to the bit, and one rank goes on with the same rows."""

    def check(way: str) -> None:
        whole, parts, alone = tmp_path / "whole", tmp_path / "parts", tmp_path / "alone"
        # The last step is saved as one of these: no rank may save it, and wait for the others to, again.
        assert two_ranks(whole, way, save_every_n_steps=20) == 0, (whole / "out.txt").read_text()
        assert two_ranks(parts, way, steps=9) == 128 + signal.SIGTERM, (parts / "out.txt").read_text()
        done = len(steps_of(parts, "step"))
        assert 9 <= done < NUM_STEPS
        shutil.copytree(parts, alone)
        assert two_ranks(parts, way) == 0, (parts / "out.txt").read_text()
        said = (parts / "out.txt").read_text()
        assert f"resumed at step {done} of {NUM_STEPS}" in said
        assert "read again" not in said
        assert same_weights(weights_of(parts), weights_of(whole))
        assert steps_of(parts, "step", "loss", "trained_tokens") == steps_of(whole, "step", "loss", "trained_tokens")

        sft.main(config_in(alone, way, resume=True))
        printed = capfd.readouterr()
        assert "world size was 2, is 1: 2 rows a step" in printed.out
        assert "read again" not in printed.err
        assert steps_of(alone, "step", "trained_tokens") == steps_of(whole, "step", "trained_tokens")
        losses = [torch.tensor(steps_of(folder, "loss")) for folder in (alone, whole)]
        torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-4)

    return check


@pytest.mark.soak
def test_two_ranks_of_a_planned_graph_end_at_sigterm_and_go_on_on_two_and_on_one(
    check_two_ranks: Callable[[str], None],
) -> None:
    check_two_ranks("planned")


def test_two_ranks_of_a_graph_that_grain_runs_end_at_sigterm_and_go_on_on_two_and_on_one(
    check_two_ranks: Callable[[str], None],
) -> None:
    check_two_ranks("grain")


@pytest.mark.soak
@pytest.mark.parametrize("way", ["planned", "grain"])
def test_two_ranks_killed_again_and_again_end_with_the_same_weights(
    two_ranks: Callable[..., int], tmp_path: Path, way: str
) -> None:
    whole, parts, kills = tmp_path / "whole", tmp_path / "parts", 10
    assert two_ranks(whole, way) == 0
    done = 0
    for number in range(kills):
        how = signal.SIGTERM if number % 2 else signal.SIGKILL
        status = two_ranks(parts, way, steps=4 * (number + 1), number=how, save_every_n_steps=2)
        done += status in (-signal.SIGKILL, 128 + signal.SIGTERM)
    assert done >= kills * 3 // 4
    assert two_ranks(parts, way) == 0
    assert same_weights(weights_of(parts), weights_of(whole))
    assert steps_of(parts, "step", "loss") == steps_of(whole, "step", "loss")


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
