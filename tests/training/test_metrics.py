"""The log: a line a step for the file, and lines for the person where there is no terminal."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from torchpipe.training import TrainingLog


def lines(path: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_step_is_a_json_line_and_some_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs" / "log.jsonl"
    with TrainingLog(path, num_steps=5, done_steps=0, every=2) as log:
        for step in range(1, 6):
            log.step(step, loss=1.0 / step, tokens=100, trained_tokens=60)
        log.validation(5, loss=0.5)
    assert [line["step"] for line in lines(path)] == [1, 2, 3, 4, 5, 5]
    assert lines(path)[0]["trained_tokens"] == 60
    assert lines(path)[-1] == {"step": 5, "held_out_loss": 0.5}
    out = capsys.readouterr().out
    assert [line.split()[1] for line in out.splitlines()] == ["2/5", "4/5", "5/5", "5/5"]
    assert "300 trained tokens" in out
    assert "held-out loss 0.500" in out


def test_other_numbers_over_held_out_rows_are_told_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingLog(tmp_path / "log.jsonl", num_steps=1, done_steps=0, every=1) as log:
        log.validation(1, loss=0.5, more={"reward_margin": 1.25})
    assert lines(tmp_path / "log.jsonl") == [{"step": 1, "held_out_loss": 0.5, "held_out_reward_margin": 1.25}]
    assert "held-out loss 0.500  reward margin 1.250" in capsys.readouterr().out


def test_the_number_of_steps_may_become_known_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with TrainingLog(tmp_path / "log.jsonl", num_steps=None, done_steps=0, every=2) as log:
        for step in range(1, 4):
            log.step(step, loss=1.0, tokens=1, trained_tokens=1)
        log.expect(4)
        log.step(4, loss=1.0, tokens=1, trained_tokens=1)
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["2/?", "4/4"]


def test_a_resumed_log_keeps_the_steps_that_were_saved(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with TrainingLog(path, num_steps=4, done_steps=0, every=1) as log:
        for step in (1, 2, 3):
            log.step(step, loss=1.0, tokens=1, trained_tokens=1)
    with path.open("a") as file:
        file.write('{"step": 4, "lo')  # a kill in the middle of a line
    with TrainingLog(path, num_steps=4, done_steps=2, every=1) as log:
        log.step(3, loss=2.0, tokens=1, trained_tokens=1)
    assert [(line["step"], line["loss"]) for line in lines(path)] == [(1, 1.0), (2, 1.0), (3, 2.0)]


def test_a_new_run_starts_a_new_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 9}\n')
    with TrainingLog(path, num_steps=1, done_steps=0, every=1) as log:
        log.step(1, loss=1.0, tokens=1, trained_tokens=1)
    assert [line["step"] for line in lines(path)] == [1]


class Noted:
    """A logger of metrics that takes notes."""

    def __init__(self) -> None:
        self.notes: list[Any] = []

    def log(self, name: str, data: float, step: int) -> None:
        self.notes.append((step, {name: data}))

    def log_dict(self, payload: Mapping[str, float], step: int) -> None:
        self.notes.append((step, dict(payload)))

    def log_config(self, config: Any) -> None:
        self.notes.append(config)

    def close(self) -> None:
        self.notes.append("closed")


def test_a_logger_is_given_the_same_numbers_every_so_many_steps(tmp_path: Path) -> None:
    noted = Noted()
    path, config = tmp_path / "log.jsonl", "the config"
    log = TrainingLog(path, num_steps=4, done_steps=0, every=2, metric_logger=lambda: noted, config=config)
    assert noted.notes == []  # a run that can't start leaves nothing
    with log:
        for step in range(1, 5):
            log.step(step, loss=1.0, tokens=8, trained_tokens=4, more={"lr": 0.5 * step})
        log.validation(4, loss=0.25)
    given, *steps, held_out, closed = noted.notes
    assert (given, held_out, closed) == ("the config", (4, {"held_out_loss": 0.25}), "closed")
    assert [(step, payload["loss"], payload["lr"]) for step, payload in steps] == [(2, 1.0, 1.0), (4, 1.0, 2.0)]
    assert [line.get("lr") for line in lines(tmp_path / "log.jsonl")] == [0.5, 1.0, 1.5, 2.0, None]


def test_a_silent_log_makes_no_logger(tmp_path: Path) -> None:
    def refuse() -> None:
        raise AssertionError

    with TrainingLog(tmp_path / "x", num_steps=1, done_steps=0, every=1, silent=True, metric_logger=refuse) as log:
        log.step(1, loss=1.0, tokens=1, trained_tokens=1)
