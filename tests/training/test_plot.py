"""The picture of a run's losses, read back."""

import json
import sys
from pathlib import Path

import pytest
from PIL import Image

from torchpipe.errors import ConfigError, MissingLibraryError
from torchpipe.training import TrainingLog, plot_losses
from torchpipe.training.plot import read_losses

BLUE, ORANGE = (31, 119, 180), (255, 127, 14)  # matplotlib's first two colours


def run_of(folder: Path, num_steps: int, *, held_out: bool = True, highest: float = 5.0) -> Path:
    """A run's folder, with the log of a recipe."""
    with TrainingLog(folder / "log.jsonl", num_steps=num_steps, done_steps=0, every=num_steps + 1, silent=False) as log:
        for step in range(1, num_steps + 1):
            log.step(step, loss=highest / step, tokens=10, trained_tokens=5)
            if held_out and step % 5 == 0:
                log.validation(step, loss=6.0 / step)
    return folder


def pixels_of(picture: Path, color: tuple[int, int, int]) -> int:
    """How many pixels have a colour."""
    with Image.open(picture) as image:
        assert image.size == (960, 600)
        counts = {found: count for count, found in image.convert("RGB").getcolors(maxcolors=10**6) or []}
    return counts.get(color, 0)


def test_the_losses_of_a_log_are_read_by_step(tmp_path: Path) -> None:
    log = run_of(tmp_path / "run", 5) / "log.jsonl"
    assert read_losses(log) == {
        "loss": [(1, 5.0), (2, 2.5), (3, 5 / 3), (4, 1.25), (5, 1.0)],
        "held_out_loss": [(5, 1.2)],
    }
    assert read_losses(log.parent) == read_losses(log)


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    log = run_of(tmp_path / "run", 2) / "log.jsonl"
    with log.open("a", encoding="utf-8") as file:
        file.write('{"step": 3, "lo')
    assert [step for step, _ in read_losses(log)["loss"]] == [1, 2]


def test_training_and_held_out_losses_are_drawn(tmp_path: Path) -> None:
    with_held_out = plot_losses(run_of(tmp_path / "a", 20), tmp_path / "pictures" / "a.png")
    without = plot_losses(run_of(tmp_path / "b", 20, held_out=False), tmp_path / "b.png")
    assert with_held_out == tmp_path / "pictures" / "a.png"
    assert pixels_of(with_held_out, BLUE) > pixels_of(without, BLUE) > 300
    assert pixels_of(without, ORANGE) == 0


def test_several_runs_have_a_colour_each(tmp_path: Path) -> None:
    logs = [run_of(tmp_path / "first", 20), run_of(tmp_path / "second", 20, highest=9.0)]
    picture = plot_losses(logs, tmp_path / "both.png")
    assert pixels_of(picture, BLUE) > 300
    assert pixels_of(picture, ORANGE) > 300


def test_the_legend_names_the_runs(tmp_path: Path) -> None:
    logs = [run_of(tmp_path / name, 6) for name in ("low_rate", "high_rate")]
    drawn = plot_losses(logs, tmp_path / "runs.svg").read_text(encoding="utf-8")
    for label in ("low_rate: training", "low_rate: held-out", "high_rate: training", "high_rate: held-out"):
        assert f"<!-- {label} -->" in drawn
    drawn = plot_losses({"1e-5": logs[0], "1e-4": logs[1]}, tmp_path / "runs.svg").read_text(encoding="utf-8")
    assert "<!-- 1e-5: training -->" in drawn


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    logs = [run_of(tmp_path / name / "run", 2) for name in ("a", "b")]
    drawn = plot_losses(logs, tmp_path / "runs.svg").read_text(encoding="utf-8")
    assert f"<!-- {tmp_path / 'a' / 'run'}: training -->" in drawn


def test_a_long_run_has_a_line_of_means_over_its_steps(tmp_path: Path) -> None:
    long = plot_losses(run_of(tmp_path / "long", 201, held_out=False), tmp_path / "long.png")
    short = plot_losses(run_of(tmp_path / "short", 200, held_out=False), tmp_path / "short.png")
    assert pixels_of(long, BLUE) > 300
    assert pixels_of(short, BLUE) > 300
    assert long.read_bytes() != short.read_bytes()


def test_a_loss_that_is_no_number_does_not_stop_the_picture(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [{"step": 1, "loss": 2.0}, {"step": 2, "loss": float("nan")}, {"step": 3, "loss": float("inf")}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert plot_losses(log, tmp_path / "out.png").is_file()


def test_a_log_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none/log\.jsonl is not there\. Give a run's log\.jsonl, or its output_dir"):
        plot_losses(tmp_path / "none" / "log.jsonl", tmp_path / "out.png")
    log = tmp_path / "log.jsonl"
    log.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"log\.jsonl holds no loss yet\. Plot it once a step is done"):
        plot_losses(log, tmp_path / "out.png")
    log.write_text('{"step": 1, "loss": 2.0}\nnonsense\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"log\.jsonl, line 2: it is no line of a training log"):
        plot_losses(log, tmp_path / "out.png")
    with pytest.raises(ConfigError, match=r"There is no log to plot"):
        plot_losses([], tmp_path / "out.png")


def test_without_matplotlib_one_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    sentence = r"^A plot needs matplotlib, which is not installed\. Run: pip install 'torchpipe-data\[plot\]'$"
    with pytest.raises(MissingLibraryError, match=sentence):
        plot_losses(run_of(tmp_path / "run", 2), tmp_path / "out.png")
