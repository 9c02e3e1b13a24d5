"""Data sets are told apart by their rows and by what is made of them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from torchpipe._fingerprint import fingerprint
from torchpipe.data import InputOutputToMessages
from torchpipe.datasets import ConcatDataset, SFTDataset
from torchpipe.errors import NoFingerprint
from torchpipe.models.llama3 import Llama3Tokenizer

ROWS = [{"input": f"{number}?", "output": f"{number}!"} for number in range(5)]


@pytest.fixture
def build(tmp_path: Path, shared_data: Path) -> Any:
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(ROWS))
    ranks = str(shared_data / "tokenizers" / "torchtune" / "tiktoken_small.model")

    def built(max_seq_len: int | None = None, **options: Any) -> SFTDataset:
        given = {
            "source": "json",
            "data_files": str(file),
            "split": "train",
            "message_transform": InputOutputToMessages(),
        }
        return SFTDataset(**{**given, "model_transform": Llama3Tokenizer(ranks, max_seq_len=max_seq_len), **options})

    return built


def test_rows_transforms_lengths_and_policy_count(build: Any) -> None:
    made = [
        build(),
        build(split="train[:3]"),
        build(max_seq_len=9),
        build(max_seq_len=10),
        build(max_seq_len=9, overflow="truncate"),
        build(overflow="truncate", max_seq_len=10, truncation_type="left"),
        build(message_transform=InputOutputToMessages(column_map={"input": "output", "output": "input"})),
        build(message_transform=InputOutputToMessages(new_system_prompt="x")),
        build(filter_fn=lambda row: row["input"] != "1?"),
        build(filter_fn=lambda row: row["input"] != "2?"),
    ]
    assert len({fingerprint(each) for each in made}) == len(made)
    assert fingerprint(build()) == fingerprint(build())
    used = build()
    assert len(used[0]["tokens"]) > 3
    assert fingerprint(used) == fingerprint(build())


def test_a_concatenation_is_told_by_its_parts_in_their_order(build: Any) -> None:
    first, second = build(), build(max_seq_len=9)
    told = {fingerprint(ConcatDataset(parts)) for parts in ([first, second], [second, first], [first], [first, first])}
    assert len(told) == 4
    assert fingerprint(ConcatDataset([build(), second])) in told


def test_a_transform_that_draws_has_no_fingerprint(build: Any) -> None:
    class Draws(InputOutputToMessages):
        def __call__(self, sample: Any) -> Any:
            return super().__call__({**sample, "output": random.choice("ab")})

    with pytest.raises(NoFingerprint, match=r"Draws\.__call__ uses random\.choice"):
        fingerprint(build(message_transform=Draws()))
