"""What README shows is what runs: its code blocks are written to files and used as it says."""

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from torchpipe.models import save_hf_weights
from torchpipe.models.llama3_2 import llama3_2


def blocks_of(repository: Path, language: str, page: str = "README.md") -> list[str]:
    """A page's fenced blocks of a language, without their indentation."""
    text = (repository / page).read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(body) for _, body in found]


def block_with(repository: Path, language: str, words: str, page: str = "README.md") -> str:
    (found,) = [block for block in blocks_of(repository, language, page) if words in block]
    return found


def test_a_transform_of_ones_own_in_three_steps(
    repository: Path, tmp_path: Path, torchpipe_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "__init__.py").touch()
    (tmp_path / "data" / "dataset.py").write_text(block_with(repository, "python", "TicketToMessages"))
    (tmp_path / "tickets.yaml").write_text(block_with(repository, "yaml", "data.dataset.custom_dataset"))
    tickets = [
        {"product": "kettles", "complaint": f"It leaks, part {i}.", "resolution": f"Send part {i}."} for i in range(4)
    ]
    (tmp_path / "tickets.jsonl").write_text("".join(json.dumps(ticket) + "\n" for ticket in tickets))
    result = torchpipe_command("run", "sft", "--config", "tickets.yaml")
    assert result.returncode == 0, result.stderr
    trained = [line for line in result.stdout.splitlines() if line.lstrip().startswith("trained")]
    assert trained[0].endswith("Send part 0.<|eot_id|>")
    assert "leaks" not in trained[0]
    assert (tmp_path / "runs" / "tickets" / "log.jsonl").is_file()


def test_the_plain_data_loader(repository: Path, tmp_path: Path) -> None:
    row = json.loads(block_with(repository, "json", '"messages"'))
    (tmp_path / "chats.json").write_text(json.dumps([row] * 3))
    code = block_with(repository, "python", "DataLoader(")
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("torch.Size") == 4


def test_the_loop_over_steps(repository: Path, tmp_path: Path) -> None:
    row = json.loads(block_with(repository, "json", '"messages"'))
    (tmp_path / "chats.json").write_text(json.dumps([row] * 300))
    code = block_with(repository, "python", "StepLoader(", page="docs/packing.md")
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("torch.Size([2, 512])") == result.stdout.count("\n") >= 4


def test_a_model_in_python_is_loaded_trained_and_saved(repository: Path, tmp_path: Path) -> None:
    code = block_with(repository, "python", "load_hf_weights(", page="docs/from_torchtune.md")
    sizes = dict(re.findall(r"^    (\w+)=(\d+),$", code, flags=re.MULTILINE))
    names = ("vocab_size", "num_layers", "num_heads", "num_kv_heads", "embed_dim", "intermediate_dim", "max_seq_len")
    model: Any = llama3_2
    save_hf_weights(model(**{name: int(sizes[name]) for name in names}), tmp_path / "checkpoint")
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)) == 8
    assert (tmp_path / "adapter" / "adapter_config.json").is_file()
    assert (tmp_path / "merged" / "config.json").is_file()


def test_a_planner_of_ones_own(repository: Path) -> None:
    code = block_with(repository, "python", "one_each", page="docs/packing.md")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:2] == ["3", "[[0, 1], [2]]"]


@pytest.mark.parametrize(
    ("words", "file"),
    [
        ("instruct_dataset", "gsm8k/train.jsonl"),
        ("sharegpt", "sharegpt/fastchat_dummy_conversation.json"),
        ("alpaca_dataset", "llamafactory/identity.json"),
    ],
)
@pytest.mark.parametrize("packed", [True, False])
def test_real_files_train_by_the_yaml_alone(
    repository: Path,
    shared_data: Path,
    llama3_tokenizer_file: Path,
    tmp_path: Path,
    sft: Any,
    capsys: pytest.CaptureFixture[str],
    words: str,
    file: str,
    packed: bool,
) -> None:
    """The recipe and tiny/sft with a README section laid over it, the real Llama 3 tokenizer, two steps."""
    config = OmegaConf.load(repository / "configs" / "tiny" / "sft.yaml")
    assert isinstance(config, DictConfig)
    section = OmegaConf.create(block_with(repository, "yaml", words))
    tokenizer = OmegaConf.create(block_with(repository, "yaml", "llama3_tokenizer")).tokenizer
    config.pop("dataset")
    config.update(
        dataset={**section.dataset, "data_files": str(shared_data / file), "split": "train[:40]", "packed": packed},
        dataset_val=section.dataset_val,
        tokenizer={**tokenizer, "path": str(llama3_tokenizer_file), "max_seq_len": 512},
        model={**config.model, "vocab_size": 128256, "num_layers": 1, "embed_dim": 16, "max_seq_len": 512},
        output_dir=str(tmp_path),
        data_file=None,
        batch_size=1,
        max_steps=2,
        num_rows_for_training_loss=0,
        max_generated_tokens=2,
    )
    sft.main(config)
    out = capsys.readouterr().out
    assert "training rows: 40 rows" in out
    trained = next(line for line in out.splitlines() if line.lstrip().startswith("trained"))
    assert trained.endswith("<|eot_id|>")
    if "identity" in file:
        assert "{{name}}" in trained


def test_a_chat_without_a_user_turn_is_refused_and_a_split_leaves_it_out(
    shared_data: Path, tmp_path: Path, torchpipe_command: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """Row 3 of that file goes from the system straight to the assistant; its last reply is longer than a row."""
    file = shared_data / "messages" / "toy_chat_fine_tuning.jsonl"
    words = ["run", "sft", "--config", "tiny/sft", f"data_file={file}", "output_dir=out", "dataset_val=null"]
    words += ["~run_val_every_n_steps", "max_steps=1", "dataset.packed=false", "dataset.split=train"]
    refused = torchpipe_command(*words)
    assert refused.returncode == 1
    assert "Row 3 of" in refused.stderr
    assert "toy_chat_fine_tuning.jsonl" in refused.stderr
    assert "Traceback" not in refused.stderr
    trained = torchpipe_command(*words, "dataset.split=train[:3]+train[4:]")
    assert trained.returncode == 0, trained.stderr
    assert "1 row cut to max_seq_len" in trained.stdout
