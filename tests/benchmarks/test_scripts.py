"""The scripts that the benchmark starts still run on today's torchpipe. Their times are not looked at."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def run(repository: Path, script: str, *arguments: str | Path) -> Any:
    command = [sys.executable, repository / "benchmarks" / script, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


def test_reading_rows_counts_rows_and_tokens(repository: Path, llama3_tokenizer_file: Path, tmp_path: Path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "1 + 1?", "answer": "2"}\n' * 9, encoding="utf-8")
    chats = tmp_path / "chats.jsonl"
    turns = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]
    chats.write_text(json.dumps({"messages": turns}) + "\n", encoding="utf-8")
    tasks = [f"rows={questions}", f"batches={questions}", f"chats={chats}"]
    measured = run(repository, "read_rows.py", "torchpipe", llama3_tokenizer_file, *tasks)
    num_tokens = measured["chats"]["tokens"]
    assert num_tokens > 10
    assert {task: (result["rows"], result["tokens"]) for task, result in measured.items()} == {
        "rows": (9, 9 * num_tokens),
        "batches": (9, 9 * num_tokens),
        "chats": (1, num_tokens),
    }


def test_training_steps_are_timed_for_both_masks_on_one_batch(repository: Path, tmp_path: Path):
    batch = tmp_path / "batch.pt"
    made = run(repository, "training_step.py", "prepare", "config", batch)
    assert made["shape"] == [1, 2048]
    assert made["documents"] > 4
    times = run(repository, "training_step.py", "torchpipe", "varlen,dense", batch)
    assert {mask: len(milliseconds) for mask, milliseconds in times.items()} == {"varlen": 2, "dense": 2}


def test_an_import_is_timed_in_a_process_of_its_own(repository: Path):
    assert run(repository, "import_time.py", "torchpipe")["seconds"] > 0


def test_every_collater_is_timed(repository: Path):
    times = run(repository, "collate.py", "torchpipe")
    assert len(times) == 6
    assert all(milliseconds > 0 for milliseconds in times.values())


def test_explaining_a_pack_is_timed_beside_the_imports(repository: Path):
    assert all(run(repository, "explain_time.py", what)["seconds"] > 0 for what in ("explain", "imports"))


def test_a_traced_render_is_timed_over_a_plain_one(repository: Path, tmp_path: Path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "refuses.jinja").write_text("{{ raise_exception('No.') }}", encoding="utf-8")
    (tmp_path / "templates" / "prints.jinja").write_text("{{ messages[0].content }}", encoding="utf-8")
    row = {"id": "a", "messages": [{"role": "user", "content": "Hi"}], "tools": None, "add_generation_prompt": False}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    measured = run(repository, "chat_templates.py", tmp_path / "templates", tmp_path / "rows.jsonl")
    assert measured["templates"] == 1
    assert measured["median"] > 0
