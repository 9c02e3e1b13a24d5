"""Builders of single data sets: torchtune's sources and columns, on rows of the same form."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from torchpipe.config import instantiate, validate
from torchpipe.datasets import (
    PackedDataset,
    alpaca_cleaned_dataset,
    alpaca_dataset,
    grammar_dataset,
    samsum_dataset,
    slimorca_dataset,
)
from torchpipe.errors import ConfigError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
SOURCES: list[tuple[Callable[..., Any], str]] = [
    (alpaca_cleaned_dataset, "yahma/alpaca-cleaned"),
    (grammar_dataset, "liweili/c4_200m"),
    (samsum_dataset, "Samsung/samsum"),
    (slimorca_dataset, "Open-Orca/SlimOrca-Dedup"),
]
TURNS = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]


def text(sample: Mapping[str, Any]) -> str:
    return TOKENIZER.decode(sample["tokens"])


def trained_text(sample: Mapping[str, Any]) -> str:
    return TOKENIZER.decode([t for t in sample["labels"] if t != -100], truncate_at_eos=False)


@pytest.mark.parametrize(("builder", "source"), SOURCES)
def test_a_preset_has_torchtunes_source(builder: Callable[..., Any], source: str) -> None:
    assert inspect.signature(builder).parameters["source"].default == source


def test_alpaca_cleaned_dataset_reads_what_alpaca_dataset_reads() -> None:
    rows = [{"instruction": "Add.", "input": "2 + 2", "output": "4"}]
    assert alpaca_cleaned_dataset(TOKENIZER, source=rows)[0] == alpaca_dataset(TOKENIZER, source=rows)[0]


def test_grammar_dataset_trains_on_the_corrected_sentence() -> None:
    sample = grammar_dataset(TOKENIZER, source=[{"input": "He go.", "output": "He goes."}])[0]
    assert "He go." in text(sample)
    assert trained_text(sample) == "assistant\n\nHe goes."


@pytest.mark.parametrize("column_map", [None, {"input": "dialogue", "output": "summary"}])
def test_samsum_dataset_trains_on_the_summary(column_map: dict[str, str] | None) -> None:
    rows = [{"dialogue": "A: Hi! B: Hi!", "summary": "They greet."}]
    assert trained_text(samsum_dataset(TOKENIZER, source=rows, column_map=column_map)[0]) == "assistant\n\nThey greet."


@pytest.mark.parametrize(("column", "column_map"), [("conversations", None), ("turns", {"conversations": "turns"})])
def test_slimorca_dataset_trains_on_the_answers(column: str, column_map: dict[str, str] | None) -> None:
    dataset = slimorca_dataset(TOKENIZER, source=[{column: TURNS}], column_map=column_map)
    assert trained_text(dataset[0]) == "assistant\n\nyo"


def test_the_options_of_the_general_builders_reach_a_preset() -> None:
    tokenizer = tiny_tokenizer(max_seq_len=32)
    rows = [{"conversations": TURNS}, {"conversations": TURNS}]
    packed = slimorca_dataset(tokenizer, source=rows, packed=True, masking_strategy="train_on_all")
    assert isinstance(packed, PackedDataset)
    summaries = [{"dialogue": "A", "summary": "B"}, {"dialogue": "C", "summary": "D"}]
    kept = samsum_dataset(tokenizer, source=summaries, new_system_prompt="Be short.", filter_fn=lambda row: True)
    assert "Be short." in text(kept[1])
    with pytest.raises(ConfigError, match="'conversation_column'"):
        slimorca_dataset(tokenizer, source=rows, conversation_column="conversations")


@pytest.mark.parametrize("name", ["alpaca_cleaned_dataset", "grammar_dataset", "samsum_dataset", "slimorca_dataset"])
def test_a_preset_is_named_in_a_config(name: str) -> None:
    config = {"_component_": f"torchpipe.datasets.{name}", "packed": False, "split": "train[:2]", "column_map": None}
    validate({"dataset": config})
    with pytest.raises(ConfigError, match="max_seq_len has to be set on the tokenizer"):
        instantiate(config, TOKENIZER, packed=True)
