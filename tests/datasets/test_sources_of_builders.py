"""From files of every kind to samples, through the builders: content arrives as it is written."""

import gzip
import json
from pathlib import Path
from typing import Any

import fsspec
import pytest

from torchpipe.datasets import StoredDataset, chat_dataset, instruct_dataset, messages_dataset
from torchpipe.errors import ColumnError, ConfigError, MalformedRow
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(max_seq_len=512)
ODD = "a\r\nb\tc\u2028d\x00 [é]"
COLUMNS = {"input": "q", "output": "a"}


def instruct(source: str, **options: Any) -> Any:
    return instruct_dataset(TOKENIZER, source=source, column_map=COLUMNS, **options)


def answer(sample: Any) -> str:
    trained = [token for token in sample["labels"] if token != -100]
    return TOKENIZER.decode(trained, truncate_at_eos=False)


def test_content_is_the_same_from_json_csv_gzip_and_an_address(tmp_path: Path) -> None:
    row = json.dumps({"q": "ask", "a": ODD})
    (tmp_path / "a.jsonl").write_text(row)
    (tmp_path / "a.json").write_text(f"[\n{row}]")
    (tmp_path / "a.csv").write_bytes(f'q,a\nask,"{ODD}"\n'.encode())
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(row.encode()))
    fsspec.filesystem("memory").pipe("/builders/a.jsonl", row.encode())
    sources = [*sorted(map(str, tmp_path.iterdir())), "memory://builders/a.jsonl"]
    samples = [instruct(source)[0] for source in sources]
    assert len(samples) == 5
    assert all(sample == samples[0] for sample in samples)
    assert ODD in answer(samples[0])


def test_a_store_of_a_compressed_file_is_used_again_until_the_file_changes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.jsonl.gz"
    folders = []
    for text in ("one", "one", "two"):
        content = gzip.compress(json.dumps({"q": "ask", "a": text}).encode(), mtime=0)
        if not file.exists() or file.read_bytes() != content:
            file.write_bytes(content)
        dataset = instruct(str(file), cache=True, cache_dir=str(tmp_path / "cache"))
        assert text in answer(dataset[0])
        folders.append({path.name for path in (tmp_path / "cache" / "store").iterdir() if path.is_dir()})
    assert folders[0] == folders[1] < folders[2]
    assert "the nearest one differs in 'source.file 0'" in capsys.readouterr().err


def test_a_malformed_line_is_found_before_the_first_sample(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"q": "x", "a": "y"}\n{"q": "x", "a": y}\n')
    with pytest.raises(MalformedRow, match=r"a\.jsonl, line 2 is not valid JSON: Expecting value at column 17"):
        instruct(str(tmp_path / "a.jsonl"))
    with pytest.raises(MalformedRow, match=r"Row 1 of .*a\.jsonl, line 2 is not valid JSON"):
        instruct(str(tmp_path / "a.jsonl"), cache=True, cache_dir=str(tmp_path / "cache"), num_proc=1)


def test_a_row_without_a_column_is_named_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"q": "x", "a": "y"}\n{"q": "x", "A ": "y"}\n')
    dataset = instruct(str(tmp_path / "a.jsonl"))
    assert "y" in answer(dataset[0])
    with pytest.raises(ColumnError, match=r"Row 1 of .*a\.jsonl: The row has no column 'a'; it has 'q', 'A '"):
        dataset[1]


def test_tools_of_one_row_keep_their_own_keys_up_to_the_message(tmp_path: Path) -> None:
    """A type for the whole column would give each tool the keys of all others, as nulls."""
    from torchpipe.data import OpenAIToMessages
    from torchpipe.sources import load_rows

    tools = [{"name": "f", "parameters": {"x": 1.0, "n": None}}, {"name": "g", "parameters": {"y": [1, "two"]}}]
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    for name, ends in (("a.jsonl", ("", "\n", "")), ("b.json", ("[", ",", "]"))):
        rows = [json.dumps({"messages": turns, "tools": [tool]}) for tool in tools]
        (tmp_path / name).write_text(ends[0] + ends[1].join(rows) + ends[2])
        loaded = load_rows(str(tmp_path / name), split="train")
        made = [OpenAIToMessages(column_map={"messages": "messages", "tools": "tools"})(row) for row in loaded]
        assert [row["tools"] for row in made] == [[tool] for tool in tools]
    dataset = chat_dataset(
        TOKENIZER, source=str(tmp_path), conversation_column="messages", conversation_style="openai", tools_column=None
    )
    assert len(dataset) == 4


def test_one_broken_line_is_left_out_and_written_down(tmp_path: Path) -> None:
    file = tmp_path / "qa.jsonl"
    good = [json.dumps({"input": f"{n} + 1?", "output": str(n + 1)}) for n in range(5)]
    file.write_text("\n".join([*good[:3], '{"input": "3 + 1?", "out', *good[3:]]) + "\n", encoding="utf-8")
    bad_rows = tmp_path / "bad.jsonl"
    dataset = instruct_dataset(
        tiny_tokenizer(512),
        source="json",
        data_files=str(file),
        cache=True,
        cache_dir=str(tmp_path / "cache"),
        num_proc=1,
        on_error="quarantine",
        quarantine_file=str(bad_rows),
    )
    assert isinstance(dataset, StoredDataset)
    assert dataset.ledger.as_dict() == {"read": 6, "used": 5, "malformed_json": 1}
    (written,) = [json.loads(line) for line in bad_rows.read_text(encoding="utf-8").splitlines()]
    assert written["row"] == 3
    assert written["reason"] == "malformed_json"
    assert "qa.jsonl, line 4 is not valid JSON" in written["error"]
    assert written["content"] == '{"input": "3 + 1?", "out'


@pytest.mark.parametrize("option", ["sequence_len", "max_samples", "val_size"])
def test_an_option_of_another_trainer_is_refused_without_internals(tmp_path: Path, option: str) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "1 + 1?", "answer": "2"}\n')
    theirs: Any = {option: 1}
    with pytest.raises(ConfigError, match=rf"^'{option}' is not an option of .* docs/coming_from\.md says") as told:
        messages_dataset(TOKENIZER, source=str(tmp_path / "rows.jsonl"), **theirs)
    assert "__init__" not in str(told.value)
