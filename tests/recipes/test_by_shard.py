"""The recipe on rows that are tokenised while it trains: the same run as on rows that were tokenised before."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from omegaconf import DictConfig, OmegaConf
from run_folders import Build, same_weights, steps_of, weights_of

from torchpipe.errors import ConfigError, DataError, TorchpipeError

ByShard = Callable[..., DictConfig]


@pytest.fixture
def by_shard(
    tiny_config: Build, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., DictConfig]:
    """Function (name of a folder, cache=, **options) -> a config that trains there while slow_chats.py is tokenised.

    Shards have 6 rows, so that three of eight are before the gate. Each cache is a store of its own.
    """
    monkeypatch.syspath_prepend(repository / "tests" / "recipes")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(repository / "tests" / "recipes"), str(repository)]))

    def build(name: str, *, cache: str, dataset: dict[str, Any] | None = None, **options: Any) -> DictConfig:
        config = tiny_config(output_dir=str(tmp_path / name), dataset_val=None, batch_size=1, epochs=3, **options)
        config.dataset = {
            "_component_": "slow_chats.slow_chats",
            "start": "by_shard",
            "shard_rows": 6,
            "strategy": "best_fit_decreasing",
            "num_proc": 1,
            "cache_dir": str(tmp_path / cache),
            **(dataset or {}),
        }
        config.tokenizer.max_seq_len = 256
        config.log_every_n_steps = 100
        return config

    return build


def test_a_run_stopped_during_the_build_ends_with_the_weights_of_one_after_it(
    sft: ModuleType, by_shard: ByShard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = {"gate": str(tmp_path / "gate")}
    parts = {"name": "parts", "cache": "parts", "dataset": gate}
    sft.main(by_shard(**parts, max_steps=3))  # the rows behind the gate are not tokenised
    first = capsys.readouterr().out
    assert "steps: ? (known when all rows are tokenised); 1 pack a step and 0 padding packs" in first
    assert "first training rows: 6 rows" in first
    assert "first training rows, packed: " in first
    assert "\ntraining rows" not in first
    sft.main(by_shard(**parts, max_steps=5, resume=True))
    assert "resumed at step 3 of ?" in capsys.readouterr().out
    (tmp_path / "gate").touch()
    sft.main(by_shard(**parts, resume=True))
    last = capsys.readouterr().out
    assert "\ntraining rows: 48 rows" in last
    assert "\ntraining rows, packed: " in last

    whole = by_shard("whole", cache="parts", dataset=gate)  # the store is finished by now
    sft.main(whole)
    num_steps = len(steps_of(whole.output_dir, "step"))
    assert f"steps: {num_steps}; 1 pack a step" in capsys.readouterr().out
    assert f"\nsteps: {num_steps}; 1 pack a step" in last
    assert same_weights(weights_of(by_shard(**parts).output_dir), weights_of(whole.output_dir))
    assert steps_of(by_shard(**parts).output_dir, "step", "loss") == steps_of(whole.output_dir, "step", "loss")


def test_a_bad_row_ends_the_run_after_a_checkpoint_and_mended_it_goes_on(
    sft: ModuleType, by_shard: ByShard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad").touch()
    parts = {"name": "parts", "cache": "parts", "dataset": {"bad": str(tmp_path / "bad")}}
    with pytest.raises(TorchpipeError, match="Row 19"):
        sft.main(by_shard(**parts))
    out = capsys.readouterr().out
    done = len(steps_of(by_shard(**parts).output_dir, "step"))
    assert done > 0
    assert f"The run is saved as {tmp_path / 'parts' / 'checkpoints' / f'step_{done:08d}'}. Correct the rows" in out
    (tmp_path / "bad").unlink()
    sft.main(by_shard(**parts, resume=True))
    whole = by_shard("whole", cache="whole")
    sft.main(whole)
    assert same_weights(weights_of(by_shard(**parts).output_dir), weights_of(whole.output_dir))


def test_a_bad_row_of_the_first_shard_is_told_before_a_model_is_built(
    sft: ModuleType, by_shard: ByShard, tmp_path: Path
) -> None:
    (tmp_path / "bad").touch()
    bad = {"bad": str(tmp_path / "bad"), "first_behind": 2}
    with pytest.raises(DataError, match="Row 3"):
        sft.main(by_shard("out", cache="cache", dataset=bad, model__embed_dim=-1))


def test_held_out_rows_are_needed_as_a_whole(sft: ModuleType, by_shard: ByShard) -> None:
    config = by_shard("out", cache="cache")
    config.dataset_val = config.dataset
    with pytest.raises(ConfigError, match="dataset_val has start: by_shard, and held-out rows are needed as a whole"):
        sft.main(config)


def builders_of(cache: Path) -> list[int]:
    """The processes that have something of a cache open: those that build, beside the run itself."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str(cache) in " ".join(
                os.readlink(entry) for entry in (process / "fd").iterdir()
            ):
                found.append(int(process.name))
        except OSError:
            continue  # it has ended
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_run_that_ends_while_it_waits_for_rows_ends_the_builder_and_goes_on(
    sft: ModuleType, by_shard: ByShard, ended_run: Callable[..., int], tmp_path: Path, how: signal.Signals
) -> None:
    gate = {"gate": str(tmp_path / "gate")}
    config, folder = by_shard("parts", cache="parts", dataset=gate, save_every_n_steps=1), tmp_path / "parts"
    folder.mkdir()
    OmegaConf.save(config, folder / "config.yaml")
    status = ended_run("sft", "--config", folder / "config.yaml", folder=folder, steps=3, delay=0.5, number=how)
    out = (folder / "out.txt").read_text()
    done = len(steps_of(config.output_dir, "step"))
    if how == signal.SIGTERM:
        assert status == 0, out
        assert f"SIGTERM: ended after step {done} of ?, saved as " in out
    deadline = time.monotonic() + 30
    while (left := builders_of(tmp_path / "parts")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []
    (tmp_path / "gate").touch()
    sft.main(by_shard("parts", cache="parts", dataset=gate, save_every_n_steps=1, resume=True))
    whole = by_shard("whole", cache="whole", dataset=gate)
    sft.main(whole)
    assert same_weights(weights_of(config.output_dir), weights_of(whole.output_dir))
    assert steps_of(config.output_dir, "step", "loss") == steps_of(whole.output_dir, "step", "loss")


@pytest.mark.soak
def test_two_ranks_wait_together_and_one_goes_on_with_the_same_steps(
    sft: ModuleType, by_shard: ByShard, ended_run: Callable[..., int], tmp_path: Path
) -> None:
    two = ("--standalone", "--nproc_per_node", "2", "sft", "--config")
    gate = {"gate": str(tmp_path / "gate")}
    workers = {"parts": 1, "whole": 0}
    configs = {name: by_shard(name, cache=name, dataset=gate, num_workers=n) for name, n in workers.items()}
    for name, config in configs.items():
        (tmp_path / name).mkdir()
        OmegaConf.save(config, tmp_path / name / "config.yaml")
    folder = tmp_path / "parts"
    status = ended_run(*two, folder / "config.yaml", folder=folder, steps=1, delay=1.0, number=signal.SIGTERM)
    out = (folder / "out.txt").read_text()
    assert status == 128 + signal.SIGTERM, out
    assert "Traceback" not in out
    assert out.count("SIGTERM: ended after step") == 1, "rank 0 alone prints"
    shutil.copytree(folder, tmp_path / "alone")
    (tmp_path / "gate").touch()
    assert ended_run(*two, tmp_path / "whole" / "config.yaml", folder=tmp_path / "whole", steps=10**9) == 0
    assert ended_run(*two, folder / "config.yaml", folder=folder, steps=10**9) == 0
    assert same_weights(weights_of(configs["parts"].output_dir), weights_of(configs["whole"].output_dir))
    alone = by_shard("alone", cache="parts", dataset=gate, resume=True)
    sft.main(alone)
    assert steps_of(alone.output_dir, "step", "trained_tokens") == steps_of(
        configs["whole"].output_dir, "step", "trained_tokens"
    )
    losses = [torch.tensor(steps_of(config.output_dir, "loss")) for config in (alone, configs["whole"])]
    torch.testing.assert_close(losses[0], losses[1], rtol=1e-4, atol=1e-4)


def test_a_bad_row_ends_both_ranks(by_shard: ByShard, ended_run: Callable[..., int], tmp_path: Path) -> None:
    (tmp_path / "bad").touch()
    config = by_shard("parts", cache="parts", dataset={"bad": str(tmp_path / "bad")})
    folder = tmp_path / "parts"
    folder.mkdir()
    OmegaConf.save(config, folder / "config.yaml")
    two = ("--standalone", "--nproc_per_node", "2", "sft", "--config")
    assert ended_run(*two, folder / "config.yaml", folder=folder, steps=10**9) == 1
    out = (folder / "out.txt").read_text()
    assert "Row 19" in out
    assert "Correct the rows where they stand" in out
    assert list((folder / "checkpoints").glob("step_*")), out
