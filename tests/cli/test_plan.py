"""The command: a plan out, sentences for what can't be."""

import json
from pathlib import Path

import pytest

from torchpipe._shipped_files import sample_file
from torchpipe.cli.main import main

PLAN = ["plan", "tiny/sft", f"data_file={sample_file()}"]


def test_it_shows_the_sections_the_cost_and_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--ranks", "64", "--max-seq-len", "512,2048", "dataset.overflow=split"]) == 0
    out = capsys.readouterr().out
    assert "  ledger   252 rows read, 252 stored\n" in out
    assert "\ndataset_val: " in out
    assert "1 an epoch, 20 in the run; 64 packs a step = batch_size 1 x gradient_accumulation_steps 1 x 64 ranks" in out
    assert "64, each with 1 micro-batch of 1 pack a step; 46 padding packs to fill the steps" in out
    assert "coefficients of torchpipe.models.tiny.tiny_llama3." in out
    lines = [line.split() for line in out.splitlines() if line.lstrip().startswith(("512 ", "2,048 "))]
    assert [line[1] for line in lines[:4]] == ["next_fit", "concat_then_split", "first_fit", "best_fit_decreasing"]
    assert len(lines) == 8


def test_an_estimate_and_a_refusal_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--max-seq-len", "128", "dataset.overflow=split", "--strategies", "next_fit"]) == 0
    out = capsys.readouterr().out
    assert "~112 rows split" in out
    assert "\n~ estimated from lengths: " in out
    assert main([*PLAN, "--max-seq-len", "128", "dataset.overflow=error", "--strategies", "next_fit"]) == 0
    assert "a run stops: overflow is error, and 112 rows too long" in capsys.readouterr().out


def test_json_has_a_schema_and_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PLAN, "--ranks", "4", "--json", "batch_size=2", "max_steps=7", "model=null"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "torchpipe.plan/1"
    assert found["ranks"] == 4
    assert found["cost"]["of"] == "Llama 3 8B"
    assert found["cost"]["why_not_own"] == "the config has no model section"
    train = found["sections"][0]
    assert train["ledger"] == {"read": 252, "stored": 252}
    assert (train["num_items"], train["steps_an_epoch"], train["num_steps"], train["num_padding_items"]) == (
        18,
        3,
        7,
        6,
    )
    assert set(train["spreads"]) == {"none", "within_step", "steps"}
    assert [one["num_packs"] for one in found["alternatives"]] == [19, 18, 19, 18]
    assert all(one["worst"]["none"] >= 1 for one in found["alternatives"])


def test_no_model_is_built_and_nothing_is_trained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["model._component_=torchpipe.models.llama3_1.llama3_1_405b", f"output_dir={tmp_path / 'out'}"]
    assert main([*PLAN, *words]) == 0
    assert "coefficients of torchpipe.models.llama3_1.llama3_1_405b." in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["plan", "tiny/sfd"], 2, "There is no config tiny/sfd"),
        (["plan", "tiny/sft"], 1, "data_file"),
        (["plan", "tiny/sft", "data_file=nowhere.json"], 1, "nowhere.json"),
        ([*PLAN, "dataset=null"], 1, "The config has no dataset section"),
        ([*PLAN, "batch_size=0"], 1, "batch_size is 0. Give a whole number, 1 or more."),
        ([*PLAN, "--strategies", "next_fut"], 1, "Did you mean 'next_fit'?"),
        ([*PLAN, "dataset.overflow=error", "tokenizer.max_seq_len=64"], 1, "tokens are more than max_seq_len=64"),
    ],
)
def test_what_is_wrong_is_a_sentence(
    words: list[str], status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == status
    shown = capsys.readouterr()
    assert "Error: " in shown.err
    assert sentence in shown.err
    assert shown.out == ""


@pytest.mark.parametrize(
    "words", [["--ranks", "0"], ["--ranks", "x"], ["--max-seq-len", "512,"], ["--strategies", ","], ["--rank", "2"]]
)
def test_a_wrong_command_line_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*PLAN, *words])
    assert left.value.code == 2
    assert "torchpipe plan: error: " in capsys.readouterr().err
