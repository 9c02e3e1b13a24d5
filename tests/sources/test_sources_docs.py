"""docs/sources.md: its table is that of the readers, and its configs work."""

import gzip
import json
import re
from pathlib import Path

import fsspec
import pytest
from omegaconf import OmegaConf

from torchpipe.datasets import instantiate_dataset
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.sources.file_formats import FORMATS
from torchpipe.sources.file_source import _SPLIT_WORDS

READER = {"json": "JsonRows", "csv": "CsvRows", "text": "TextRows"}


def code(names: object, separator: str = ", ") -> str:
    return separator.join(f"`{name}`" for name in names)  # pyright: ignore[reportGeneralTypeIssues]


def test_the_table_holds_every_format(repository: Path) -> None:
    page = (repository / "docs" / "sources.md").read_text(encoding="utf-8")
    for row in FORMATS:
        reader = READER[row.name] if row.rows else "load_dataset"
        cells = [f"`{row.name}`", code(row.others), code(row.suffixes, " "), f"`{reader}`", code(sorted(row.options))]
        assert f"| {' | '.join(cells)} |\n" in page
    words = "; ".join(code(names) for names in _SPLIT_WORDS.values())
    assert words in " ".join(page.split())


def test_the_configs_work(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    row = json.dumps({"messages": turns}).encode() + b"\n"
    Path("chats.jsonl.gz").write_bytes(gzip.compress(row))
    Path("data").mkdir()
    for name in ("part-0.jsonl", "part-1.jsonl"):
        Path("data", name).write_bytes(row * 10)
    fsspec.filesystem("memory").pipe("/bucket/held_out.jsonl", row)
    page = (repository / "docs" / "sources.md").read_text(encoding="utf-8").replace("s3://", "memory://")
    blocks = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    built = [instantiate_dataset(OmegaConf.create(block).dataset, tiny_tokenizer()) for block in blocks]
    assert [len(dataset) for dataset in built] == [1, 19]  # pyright: ignore[reportArgumentType]
