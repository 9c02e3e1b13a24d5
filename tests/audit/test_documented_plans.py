"""The screens in docs/plan.md are what is printed."""

import shutil
from pathlib import Path

import pytest

from torchpipe._shipped_files import pairs_file, sample_file
from torchpipe.cli.main import main


def test_the_plan_of_gsm8k_is_as_documented(
    shared_data: Path,
    llama3_tokenizer_file: Path,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.jsonl").symlink_to(shared_data / "gsm8k" / "train.jsonl")
    words = "data_file=train.jsonl dataset.split=train dataset_val=null gradient_accumulation_steps=4 --ranks 8"
    options = [f"tokenizer.path={llama3_tokenizer_file}", "--max-seq-len", "256,512,2048"]
    assert main(["plan", "tiny_gsm8k/sft", *words.split(), *options]) == 0
    assert f"```\n{capsys.readouterr().out}```\n" in (repository / "docs" / "plan.md").read_text(encoding="utf-8")


def test_the_plan_of_stored_rows_is_as_documented(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample_file(), "chats.json")
    words = (
        "data_file=chats.json dataset.packed=false dataset.cache=true dataset.overflow=drop dataset.max_seq_len=256 "
        "batch_size=4 --ranks 2 --max-seq-len 128,256,512 --strategies next_fit,best_fit_decreasing"
    )
    assert main(["plan", "tiny/sft", *words.split()]) == 0
    assert f"```\n{capsys.readouterr().out}```\n" in (repository / "docs" / "plan.md").read_text(encoding="utf-8")


def test_the_plan_of_pairs_is_as_documented(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(pairs_file(), "sample_pairs.json")
    words = "data_file=sample_pairs.json dataset_val=null --max-seq-len 512"
    assert main(["plan", "tiny/dpo", *words.split()]) == 0
    assert f"```\n{capsys.readouterr().out}```\n" in (repository / "docs" / "plan.md").read_text(encoding="utf-8")


def test_the_plan_of_a_graph_is_as_documented(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(sample_file(), "chats.json")
    words = f"data_file=chats.json gradient_accumulation_steps=2 dataloader.cache_dir={tmp_path} --ranks 2"
    assert main(["plan", "tiny/graph", *words.split()]) == 0
    assert f"```\n{capsys.readouterr().out}```\n" in (repository / "docs" / "plan.md").read_text(encoding="utf-8")
