"""Every file of real data is read as Python's own json and text reading give it."""

import json
from pathlib import Path

from torchpipe.sources import load_rows


def test_every_json_file_of_the_real_data_comes_back_whole(shared_data: Path) -> None:
    files = [file for file in sorted(shared_data.rglob("*")) if file.suffix in (".json", ".jsonl")]
    for file in files:
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".jsonl":
            expected = [json.loads(line) for line in text.split("\n") if line.strip()]
        else:
            expected = json.loads(text)
            expected = expected if isinstance(expected, list) else [expected]
        rows = load_rows(str(file), split="train")
        assert [rows[index] for index in range(len(rows))] == expected, file
    assert len(files) > 60


def test_every_text_file_of_the_real_data_comes_back_byte_by_byte(shared_data: Path) -> None:
    files = [file for file in sorted(shared_data.rglob("*")) if file.suffix in (".txt", ".jinja", ".md", ".inp")]
    documents = load_rows("text", data_files=[str(file) for file in files], split="train", sample_by="document")
    assert [documents[index]["text"].encode() for index in range(len(documents))] == [f.read_bytes() for f in files]
    assert len(files) > 60
