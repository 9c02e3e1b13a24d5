"""The profiler writes what it recorded, and says what it had to change."""

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe.errors import ConfigError
from torchpipe.training.profiler import DummyProfiler, setup_torch_profiler

SCHEDULE: dict[str, Any] = {"wait_steps": 1, "warmup_steps": 1, "active_steps": 1, "num_cycles": 1}
# What torchtune 0.6.1 returns beside the profiler for SCHEDULE on a machine's CPU alone, but for output_dir.
TORCHTUNE = {
    "enabled": True, "cpu": True, "cuda": False, "xpu": False, "profile_memory": False, "with_stack": False,
    "record_shapes": True, "with_flops": False, **SCHEDULE,
}  # fmt: skip
# The same for profile_memory, no record_shapes and nothing but active_steps=3.
TORCHTUNE_COMPLETED = {
    "enabled": True, "cpu": True, "cuda": True, "xpu": True, "profile_memory": True, "with_stack": True,
    "record_shapes": True, "with_flops": False, "wait_steps": 5, "warmup_steps": 5, "active_steps": 3, "num_cycles": 1,
}  # fmt: skip


def train(profiler: Any, num_steps: int) -> None:
    layer = torch.nn.Linear(4, 4)
    with profiler as running:
        for _ in range(num_steps):
            layer(torch.ones(2, 4)).sum().backward()
            running.step()


def test_one_that_is_not_enabled_does_nothing_and_warns_of_nothing(tmp_path: Path) -> None:
    profiler, config = setup_torch_profiler(enabled=False, output_dir=tmp_path / "traces", wait_steps=3)
    assert isinstance(profiler, DummyProfiler)
    assert config == {"enabled": False}
    profiler.start()
    train(profiler, 3)
    assert list(tmp_path.iterdir()) == []


def test_a_cycle_writes_a_trace_and_a_table(tmp_path: Path) -> None:
    profiler, config = setup_torch_profiler(
        enabled=True, cuda=False, xpu=False, output_dir=str(tmp_path / "traces"), **SCHEDULE
    )
    assert config == {**TORCHTUNE, "output_dir": str(tmp_path / "traces")}
    train(profiler, 5)
    (folder,) = (tmp_path / "traces").iterdir()
    assert folder.name == "iteration_3"
    (trace,) = folder.glob("r0-*.pt.trace.json.gz")
    with gzip.open(trace) as file:
        events = json.load(file)["traceEvents"]
    assert any(event.get("name") == "aten::linear" for event in events)
    assert "aten::addmm" in (folder / "rank0_key_averages.txt").read_text(encoding="utf-8")


def test_each_cycle_has_a_folder(tmp_path: Path) -> None:
    options: dict[str, Any] = {**SCHEDULE, "wait_steps": 0, "num_cycles": 2}
    profiler, _ = setup_torch_profiler(enabled=True, output_dir=tmp_path, **options)
    train(profiler, 6)
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["iteration_2", "iteration_4"]


@pytest.mark.parametrize("num_steps", [0, 1, 2, 3])
def test_a_run_that_ends_before_its_cycle_ends_without_an_error(tmp_path: Path, num_steps: int) -> None:
    profiler, _ = setup_torch_profiler(enabled=True, output_dir=tmp_path, **{**SCHEDULE, "warmup_steps": 2})
    train(profiler, num_steps)


def test_stacks_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    profiler, _ = setup_torch_profiler(enabled=True, with_stack=True, output_dir=tmp_path, **SCHEDULE)
    train(profiler, 4)
    assert "test_profiler" in (tmp_path / "iteration_3" / "rank0_stacks.txt").read_text(encoding="utf-8")


def test_a_gap_in_the_schedule_is_filled_and_told(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="profile") as told:
        _, config = setup_torch_profiler(
            enabled=True, profile_memory=True, record_shapes=False, active_steps=3, output_dir=tmp_path
        )
    assert config == {**TORCHTUNE_COMPLETED, "output_dir": str(tmp_path)}
    assert [str(one.message) for one in told] == [
        "The profiler's schedule is not complete, and takes wait_steps=5, warmup_steps=5, num_cycles=1.",
        "profile_memory needs with_stack and record_shapes: they are turned on.",
    ]


def test_no_activity_and_no_folder_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="profile") as told:
        _, config = setup_torch_profiler(enabled=True, cpu=False, cuda=False, xpu=False, **SCHEDULE)
    assert (config.cpu, config.cuda, config.xpu, config.output_dir) == (True, True, True, "profiler_output")
    assert [str(one.message)[:44] for one in told] == [
        "The profiler is given no activity, and recor",
        "The profiler is given no output_dir, and wri",
    ]


def test_ranks_beside_the_first_warn_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        setup_torch_profiler(enabled=True, output_dir=tmp_path)


def test_a_device_that_is_not_there_can_not_be_all_there_is_to_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu = {torch.profiler.ProfilerActivity.CPU}
    monkeypatch.setattr("torchpipe.training.profiler.supported_activities", lambda: cpu)
    with pytest.raises(ConfigError, match=r"is to record cuda alone, which torch does not find here\. Set cpu=true"):
        setup_torch_profiler(enabled=True, cpu=False, xpu=False, output_dir=tmp_path, **SCHEDULE)


@pytest.mark.parametrize(("name", "value", "least"), [("wait_steps", -1, 0), ("active_steps", 0, 1)])
def test_steps_that_are_not_possible_are_refused(tmp_path: Path, name: str, value: int, least: int) -> None:
    with pytest.raises(ConfigError, match=rf"The profiler's {name} is {value}\. Give a whole number, {least} or more"):
        setup_torch_profiler(enabled=True, output_dir=tmp_path, **{**SCHEDULE, name: value})
