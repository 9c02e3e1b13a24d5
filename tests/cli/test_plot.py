"""``torchpipe plot``: a picture of runs."""

import json
from pathlib import Path

import pytest
from PIL import Image

from torchpipe.cli.main import main


def run_of(folder: Path) -> Path:
    folder.mkdir()
    lines = [{"step": step, "loss": 3.0 / step} for step in range(1, 6)] + [{"step": 5, "held_out_loss": 1.0}]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return folder


def test_runs_are_drawn_and_the_pictures_path_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = [str(run_of(tmp_path / "a")), str(run_of(tmp_path / "b") / "log.jsonl")]
    assert main(["plot", *runs]) == 0
    assert main(["plot", runs[0], "--out", "pictures/a.png"]) == 0
    assert capsys.readouterr().out == "losses.png\npictures/a.png\n"
    for picture in ("losses.png", "pictures/a.png"):
        with Image.open(tmp_path / picture) as image:
            assert image.format == "PNG"


def test_a_run_that_is_not_there_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(tmp_path / "none"), "-o", str(tmp_path / "out.png")]) == 1
    assert (
        capsys.readouterr().err
        == f"Error: {tmp_path / 'none'} is not there. Give a run's log.jsonl, or its output_dir.\n"
    )
    assert main(["plot", str(tmp_path), "-o", str(tmp_path / "out.png")]) == 1
    assert f"{tmp_path / 'log.jsonl'} is not there" in capsys.readouterr().err


def test_an_ending_that_is_no_kind_of_picture_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", str(run_of(tmp_path / "a")), "-o", str(tmp_path / "out.txt")]) == 1
    assert "out.txt is no name of a picture: its ending is one of" in capsys.readouterr().err
