"""What docs/rows.md shows is what runs."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from torchpipe.data.ledger import REASONS
from torchpipe.data.ledger_summary import shown_name
from torchpipe.data.row_policy import OnError, OnUntrained
from torchpipe.datasets import instantiate_dataset
from torchpipe.errors import DataError
from torchpipe.models.tiny import tiny_tokenizer


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "rows.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


def test_code_prints_what_stands_below_it(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHPIPE_CACHE", str(tmp_path))
    shown = re.findall(r"^```python\n((?:(?!```).)*)^```\n\n```text\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)
    assert len(shown) == 3
    for code, expected in shown:
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(code, "rows.md", "exec"), {})
        assert said.getvalue() == expected
    assert len((tmp_path / "bad_rows.jsonl").read_text().splitlines()) == 3


def test_the_transform_that_leaves_a_row_out_says_why(page: str) -> None:
    (code,) = [block for block in blocks(page, "python") if "def check" in block]
    names: dict[str, Any] = {}
    exec(compile(code, "rows.md", "exec"), names)
    with pytest.raises(DataError, match=r"The answer is blank\.") as found:
        names["check"]({"answer": " "})
    assert found.value.reason == "empty"


def test_the_configs_build_data_sets(
    page: str, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alpaca.json").symlink_to(next((shared_data / "alpaca").glob("*.json")))
    sections = [section for block in blocks(page, "yaml") for section in yaml.safe_load(block).items()]
    sizes: dict[str, int] = {}
    for name, section in sections:
        stored = {"cache_dir": str(tmp_path)} if section.get("packed") else {}
        dataset = instantiate_dataset({**section, **stored}, tiny_tokenizer(max_seq_len=4096))
        sizes[name] = dataset.ledger.as_dict()["used"]
    assert sizes["dataset"] > 10 * sizes["dataset_val"] > 0


def test_every_word_is_explained(page: str) -> None:
    named = set(re.findall(r"`(\w+)`", page))
    assert {shown_name(reason) for reason in REASONS} <= named
    assert {*get_args(OnError), *get_args(OnUntrained)} <= named
