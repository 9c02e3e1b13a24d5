"""The command: rows out, sentences for what can't be."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torchpipe._shipped_files import sample_file
from torchpipe.cli.explain import wants_color
from torchpipe.cli.main import main

DATA = f"data_file={sample_file()}"
ROW = ["explain", "tiny/sft", DATA, "dataset.packed=false"]


def test_it_shows_the_first_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ROW) == 0
    out = capsys.readouterr().out
    assert "\nrow 0: " in out
    assert "masking_strategy train_on_assistant" in out
    assert "mask_policy sampled" in out
    assert "trained  message 1 (assistant), content" in out
    assert "\x1b" not in out


def test_it_shows_the_first_pack_without_reading_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "tiny/sft", "-n", "2", DATA]) == 0
    out = capsys.readouterr().out
    assert "\npack 0: 2,048 tokens" in out
    assert "\npack 1: 2,048 tokens" in out
    assert " packs" not in out.splitlines()[0]


def test_rows_are_chosen_by_number_and_from_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ROW, "--row", "3", "--row", "-1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["row"] for row in found["rows"]] == [3, found["num_rows"] - 1]


def test_another_section_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ROW, "--section", "dataset_val", "dataset_val.packed=false"]) == 0
    assert "train[90%:]" in capsys.readouterr().out.splitlines()[0]


def test_labels_and_colours_are_there_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ROW, "--labels", "--color", "--max-tokens", "5"]) == 0
    out = capsys.readouterr().out
    assert "  label  " in out
    assert "\x1b[90m" in out
    assert "tokens more" in out


def test_no_model_is_built(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ROW, "model=no.such.model", "loss=null"]) == 0


@pytest.mark.parametrize(
    ("asked", "terminal", "no_color", "term", "expected"),
    [
        (None, True, "", "xterm", True),
        (None, True, "1", "xterm", False),
        (None, True, "", "dumb", False),
        (None, False, "", "xterm", False),
        (True, False, "1", "dumb", True),
        (False, True, "", "xterm", False),
    ],
)
def test_colour_follows_the_flag_then_no_color_then_the_terminal(
    monkeypatch: pytest.MonkeyPatch, asked: bool | None, terminal: bool, no_color: str, term: str, expected: bool
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setenv("TERM", term)
    assert wants_color(asked) is expected


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["explain", "tiny/sfd"], 2, "There is no config tiny/sfd"),
        ([*ROW, "--row", "999"], 1, "Row 999 was asked for, and the data set has 252 rows."),
        (["explain", "tiny/sft", DATA, "--row", "999"], 1, "Row 999 was asked for, and the data set has"),
        ([*ROW, "--section", "dataset_test"], 1, "The config has no dataset_test section"),
        (["explain", "tiny/sft"], 1, "data_file"),
        (["explain", "tiny/sft", "data_file=nowhere.json"], 1, "nowhere.json"),
        ([*ROW, "dataset=null"], 1, "The config has no dataset section"),
        ([*ROW, "tokenizer=null"], 1, "The config has no tokenizer section"),
        ([*ROW, "dataset=torchpipe.datasets.chat_datasets"], 1, "Did you mean"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    words: list[str], status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    shown = capsys.readouterr()
    assert shown.err.startswith("Error: ")
    assert sentence in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "0"],
        ["-n", "x"],
        ["--row", "a"],
        ["--rows"],
        ["-n", "1", "--row", "2"],
        ["--html"],
        ["--inference", "--labels"],
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*ROW, *words])
    assert left.value.code == 2
    assert "torchpipe explain: error: " in capsys.readouterr().err


def test_a_bad_row_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "chats.json"
    file.write_text('[{"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}]')
    words = ["explain", "tiny/sft", f"data_file={file}", "dataset.packed=false", "dataset.split=train"]
    for more in ([], ["--json"]):
        assert main([*words, *more]) == 1
        shown = capsys.readouterr()
        assert f"Row 0 of {file}" in shown.out
        assert shown.err == "Error: Row 0 is refused; the output says why.\n"
    assert main(["explain", "tiny/sft", f"data_file={file}", "dataset.split=train"]) == 1  # packing reads all rows
    assert f"Error: Row 0 of {file}" in capsys.readouterr().err


def test_contexts_are_compared_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*ROW, "--inference", "-n", "2"]) == 0
    assert "row 1: 1 assistant turn, all contexts the same" in capsys.readouterr().out
    assert main(["explain", "tiny/sft", DATA, "--inference", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "torchpipe.inference/1"
    assert all(turn["same"] for row in found["rows"] for turn in row["turns"])


def test_a_terminal_of_another_encoding_gets_escapes() -> None:
    code = f"import sys; from torchpipe.cli.main import main; sys.exit(main({ROW!r}))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, env={"PYTHONIOENCODING": "ascii", "PATH": ""}, check=True
    )
    assert b"\\xb7" in result.stdout


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys; from torchpipe.cli.main import main\n"
        "try: main(['explain', '--help'])\nexcept SystemExit: print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.endswith("False\n")


def test_the_documented_screen_is_what_it_prints(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    turns = [{"role": "user", "content": "What is 2 + 2?"}, {"role": "assistant", "content": "It is 4."}]
    (tmp_path / "chats.json").write_text(json.dumps([{"messages": turns}]))
    words = [f"data_file={tmp_path / 'chats.json'}", "dataset.packed=false", "dataset.split=train"]
    assert main(["explain", "tiny/sft", *words]) == 0
    shown = capsys.readouterr().out
    documented = (repository / "docs" / "explain.md").read_text(encoding="utf-8")
    assert shown[shown.index("row 0: ") :] in documented
