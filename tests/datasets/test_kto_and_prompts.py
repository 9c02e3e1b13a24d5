"""Data sets of labelled answers and of prompts, as they are called."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

from torchpipe.data import padded_collate_kto, padded_collate_prompts
from torchpipe.datasets import (
    KTODataset,
    PromptDataset,
    count_samples,
    instantiate_dataset,
    kto_dataset,
    prompt_dataset,
)
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
COLUMNS = {"prompt": "prompt", "completion": "completion", "label": "label"}
ROWS = [{"prompt": f"What is {n} + {n}?", "completion": str(2 * n + n % 2), "label": n % 2 == 0} for n in range(4)]


def text(tokens: Any) -> str:
    return TOKENIZER.decode(list(tokens), truncate_at_eos=False, skip_special_tokens=False)


def test_an_item_has_the_answer_as_labels_and_whether_it_is_desirable() -> None:
    dataset = kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS)
    assert isinstance(dataset, KTODataset)
    assert list(dataset[0]) == ["input_ids", "labels", "desirable"]
    assert [item["desirable"] for item in dataset] == [True, False, True, False]
    assert text(label for label in dataset[1]["labels"] if label != -100).endswith("\n\n3<|eot_id|>")


def test_a_prompt_and_its_completion_are_refused_with_the_columns_to_name() -> None:
    with pytest.raises(DataError, match=r"no 'messages'. Name them in column_map: {prompt: prompt, completion"):
        kto_dataset(TOKENIZER, source=ROWS)[0]


def test_only_what_follows_the_last_question_is_trained() -> None:
    talk = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
        {"role": "assistant", "content": "So long"},
    ]
    item = kto_dataset(TOKENIZER, source=[{"messages": talk, "label": True}])[0]
    assert "Hello" in text(item["input_ids"])
    assert "Hello" not in text(label for label in item["labels"] if label != -100)
    with pytest.raises(DataError, match="Row 0 of list: The conversation ends with the user's message"):
        kto_dataset(TOKENIZER, source=[{"messages": talk[:3], "label": True}])[0]


def test_batches_of_labelled_answers_come_from_a_loader() -> None:
    dataset = kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS)
    batch = next(iter(DataLoader(dataset, batch_size=4, collate_fn=padded_collate_kto)))
    assert batch["tokens"].shape == batch["labels"].shape
    assert batch["desirable"].tolist() == [True, False, True, False]


def test_long_rows_are_cut_or_refused() -> None:
    cut = kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS, overflow="truncate", max_seq_len=24)
    assert all(len(item["input_ids"]) <= 24 for item in cut)
    with pytest.raises(DataError, match=r"tokens are more than max_seq_len=8"):
        kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS, overflow="error", max_seq_len=8)[0]
    with pytest.raises(ConfigError, match=r"overflow='drop' gives a row no item, .*Store it \(cache=True\)"):
        kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS, overflow="drop", max_seq_len=8)
    with pytest.raises(ConfigError, match="overflow='split' makes several samples of a row, and a label judges one"):
        kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS, overflow="split", max_seq_len=8, cache=True)


def test_published_labelled_rows(shared_data: Path) -> None:
    file = shared_data / "llamafactory" / "kto_en_demo.json"
    section = OmegaConf.create(f"{{_component_: torchpipe.datasets.kto_dataset, source: json, data_files: {file}}}")
    dataset = instantiate_dataset(section, TOKENIZER)
    rows = json.loads(file.read_text(encoding="utf-8"))
    assert (
        Counter(item["desirable"] for item in dataset) == Counter(row["label"] for row in rows) == {True: 94, False: 86}
    )
    for item, row in zip(dataset, rows, strict=True):
        assert text(label for label in item["labels"] if label != -100).endswith(
            f"{row['messages'][-1]['content'].strip()}<|eot_id|>"
        )
    assert dataset.ledger.as_dict() == {"read": 180, "used": 180}


def test_a_prompt_ends_with_what_begins_the_reply() -> None:
    dataset = prompt_dataset(TOKENIZER, source=ROWS, new_system_prompt="Be brief.", keep_columns=["label"])
    assert isinstance(dataset, PromptDataset)
    item = dataset[3]
    assert item["columns"] == {"label": False}
    assert text(item["tokens"]).endswith(
        "Be brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhat is 3 + 3?<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )


def test_a_prompt_is_what_stands_before_the_answer_in_training() -> None:
    trained = kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS)[0]["input_ids"]
    prompt = prompt_dataset(TOKENIZER, source=ROWS)[0]["tokens"]
    assert trained[: len(prompt)] == prompt


def test_long_prompts_are_refused_or_lose_their_beginning() -> None:
    whole = prompt_dataset(TOKENIZER, source=ROWS)[0]["tokens"]
    cut = prompt_dataset(TOKENIZER, source=ROWS, max_prompt_len=9, overflow="truncate")[0]["tokens"]
    assert cut == whole[-9:]
    with pytest.raises(DataError, match=r"Row 0 of list: The prompt has \d+ tokens, and max_prompt_len is 9"):
        prompt_dataset(TOKENIZER, source=ROWS, max_prompt_len=9)[0]
    with pytest.raises(ConfigError, match="overflow of a prompt data set is 'drop'"):
        prompt_dataset(TOKENIZER, source=ROWS, overflow="drop")  # pyright: ignore[reportArgumentType]


def test_a_column_to_keep_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match="keep_columns has 'lable'; the row has .*'label'"):
        prompt_dataset(TOKENIZER, source=ROWS, keep_columns=["lable"])[0]


@pytest.mark.parametrize(
    ("file", "options", "num_rows"),
    [
        ("code/HumanEval_100.jsonl", {"keep_columns": ["task_id", "test"]}, 100),
        ("ifeval/ifeval_prompts.jsonl", {"keep_columns": ["key"]}, 360),
        ("mt_bench/question.jsonl", {"column_map": {"prompt": "turns"}, "keep_columns": ["question_id", "turns"]}, 80),
    ],
)
def test_published_prompts(file: str, options: dict[str, Any], num_rows: int, shared_data: Path) -> None:
    dataset = prompt_dataset(TOKENIZER, source="json", data_files=str(shared_data / file), **options)
    assert len(dataset) == num_rows
    items = list(dataset)
    assert all(text(item["tokens"]).endswith("assistant<|end_header_id|>\n\n") for item in items)
    batch = padded_collate_prompts(items, padding_idx=TOKENIZER.pad_id)
    assert batch["tokens"].shape == (num_rows, max(len(item["tokens"]) for item in items))
    assert len(batch["columns"]) == num_rows


def test_labelled_answers_and_prompts_are_counted() -> None:
    counts = count_samples(kto_dataset(TOKENIZER, source=ROWS, column_map=COLUMNS))
    assert (counts.rows, counts.untrained_rows) == (4, 0)
    prompts = count_samples(prompt_dataset(TOKENIZER, source=ROWS))
    assert (prompts.rows, prompts.trained_tokens) == (4, 0)
    assert prompts.longest < counts.longest


@pytest.mark.parametrize("build", [kto_dataset, prompt_dataset])
def test_where_nothing_is_stored_leaving_rows_out_is_refused_with_what_stores_them(build: Any) -> None:
    with pytest.raises(ConfigError, match=r"on_error='skip' .* Store the rows \(cache=True, or packed=True where"):
        build(TOKENIZER, source=ROWS, on_error="skip")


def test_the_warning_of_a_labelled_row_that_trains_nothing_names_ways_that_are_there() -> None:
    dataset = kto_dataset(tiny_tokenizer(max_seq_len=8), source=ROWS, column_map=COLUMNS)
    with pytest.warns(
        UserWarning, match=r"no token that is trained.*its sample\. cache=True leaves such rows out"
    ) as told:
        dataset[0]
    assert "packed=True" not in str(told[0].message)
