"""docs/mixing.md: its configs build, its code runs, and what it says is printed is printed."""

import io
import json
import re
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe import config
from torchpipe.datasets import MixDataset, PackedDataset, describe_mix, instantiate_dataset, instantiate_held_out
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(max_seq_len=512)


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "mixing.md").read_text(encoding="utf-8")


@pytest.fixture
def configs(
    page: str, shared_data: Path, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Any]:
    """The page's configs, in a folder where their files are."""
    monkeypatch.chdir(tmp_path)
    rows = (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    chats = json.loads((repository / "torchpipe" / "assets" / "sample_chats.json").read_text(encoding="utf-8"))
    lines = [json.dumps(chat) + "\n" for chat in chats]
    for name, some in (("math", rows[:40]), ("math_val", rows[40:45])):
        Path(f"{name}.jsonl").write_text("".join(some), encoding="utf-8")
    for name, some in (("chats", lines[:60]), ("chats_val", lines[60:70])):
        Path(f"{name}.jsonl").write_text("".join(some), encoding="utf-8")
    found = [OmegaConf.create(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    for cfg in found:
        config.validate(cfg)
    return found


def test_the_configs_give_what_the_page_says(configs: list[Any], page: str):
    listed, packed, held_out = configs
    mix = instantiate_dataset(listed.dataset, TOKENIZER)
    assert isinstance(mix, MixDataset)
    assert [share.items for share in mix.realised()] == [40, 13]
    packs = instantiate_dataset(packed.dataset, TOKENIZER)
    assert isinstance(packs, PackedDataset)
    assert f"training rows, mixed: {describe_mix(packs)}\n" in page
    assert list(instantiate_held_out(held_out.dataset_val, TOKENIZER)) == ["math", "chats"]


def test_three_four_and_three_rows_are_twelve(page: str):
    assert "sizes 3, 4 and 3, it has 12 rows: 4 of each" in page
    mix = MixDataset([list(range(3)), list(range(4)), list(range(3))], weights=[1, 1, 1], stop="all")
    assert Counter(mix.row_of(index).source for index in range(len(mix))) == dict.fromkeys(mix.names, 4)


def test_the_code_prints_what_the_page_says(page: str):
    code, printed = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", page, re.DOTALL)[0]
    with redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    assert out.getvalue() == printed
