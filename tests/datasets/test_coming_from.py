"""docs/coming_from.md: its configs validate, and the names of ours that it says are there."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import torchpipe.data
import torchpipe.datasets
from torchpipe.config import validate


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "coming_from.md").read_text(encoding="utf-8")


def test_its_configs_validate(page: str) -> None:
    blocks: list[Any] = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.S)]
    assert len(blocks) == 2
    for block in blocks:
        validate(block)


def test_its_builders_and_transforms_are_there(page: str) -> None:
    theirs = {"eval_dataset", "load_dataset", "pretraining_dataset", "shuffle_dataset"}
    builders = set(re.findall(r"`(?:torchpipe\.datasets\.)?(\w+_dataset)\b", page)) - theirs
    assert {"messages_dataset", "segments_dataset", "text_completion_dataset"} <= builders
    assert builders <= set(torchpipe.datasets.__all__)
    transforms = set(re.findall(r"\b(\w+ToMessages)\b", page))
    assert transforms <= set(torchpipe.data.__all__)
