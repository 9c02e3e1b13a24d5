"""Labelled answers and prompts of a store are those that are made when they are asked for, by the same policies."""

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

from torchpipe.data import OpenAIToMessages, padded_collate_kto, padded_collate_prompts
from torchpipe.datasets import (
    ConcatDataset,
    GrowingPackedDataset,
    PackedDataset,
    StoredKTODataset,
    StoredPromptDataset,
    kto_dataset,
    prompt_dataset,
    rows_of,
    sft_dataset,
)
from torchpipe.errors import ConfigError, DataError, StoreError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store import TokenStore
from torchpipe.store.accounts import checked_ledger
from torchpipe.store.verify import problems_of

TOKENIZER = tiny_tokenizer()
ROWS = [
    {"prompt": f"What is {n} + {n}?", "completion": str(2 * n + n % 3), "label": n % 3 == 0, "id": n} for n in range(40)
]
FAULTY = [*ROWS[:5], {**ROWS[5], "label": "yes"}, *ROWS[6:9], {**ROWS[9], "prompt": None}, *ROWS[10:]]
LABELLED: dict[str, Any] = {"column_map": {"prompt": "prompt", "completion": "completion", "label": "label"}}


def as_lists(item: Any) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, torch.Tensor) else value for key, value in item.items()}


def stored(build: Any, rows: Any, tmp_path: Path, *, num_proc: int = 1, **options: Any) -> Any:
    return build(TOKENIZER, source=rows, cache=True, cache_dir=str(tmp_path), num_proc=num_proc, **options)


@pytest.mark.parametrize("options", [{}, {"overflow": "truncate", "max_seq_len": 24}, {"new_system_prompt": "Judge."}])
def test_stored_answers_are_those_made_on_demand(options: dict[str, Any], tmp_path: Path) -> None:
    options = {**LABELLED, **options}
    dataset = stored(kto_dataset, ROWS, tmp_path, **options)
    alive = kto_dataset(TOKENIZER, source=ROWS, **options)
    assert isinstance(dataset, StoredKTODataset)
    assert [as_lists(item) for item in dataset] == list(alive)
    assert {item["desirable"] for item in dataset} == {True, False}
    assert dataset.ledger.as_dict() == alive.ledger.as_dict()
    assert as_lists(dataset[-1]) == alive[-1]
    with pytest.raises(IndexError, match="Answer 40 was asked for, and list has 40 answers"):
        dataset[40]


@pytest.mark.parametrize("options", [{}, {"max_prompt_len": 9, "overflow": "truncate"}, {"keep_columns": ["id"]}])
def test_stored_prompts_are_those_made_on_demand(options: dict[str, Any], tmp_path: Path) -> None:
    dataset = stored(prompt_dataset, ROWS, tmp_path, **options)
    alive = prompt_dataset(TOKENIZER, source=ROWS, **options)
    assert isinstance(dataset, StoredPromptDataset)
    assert [as_lists(item) for item in dataset] == list(alive)
    assert dataset.ledger.as_dict() == {"read": 40, "used": 40}
    with pytest.raises(IndexError, match="Prompt 40 was asked for, and list has 40 prompts"):
        dataset[40]


def test_published_answers_and_prompts_are_the_same_stored(shared_data: Path, tmp_path: Path) -> None:
    file = str(shared_data / "llamafactory" / "kto_en_demo.json")
    answers: Any = {"source": "json", "data_files": file}
    made = kto_dataset(TOKENIZER, **answers)
    kept = kto_dataset(TOKENIZER, **answers, cache=True, cache_dir=str(tmp_path), num_proc=1)
    assert [as_lists(item) for item in kept] == list(made)
    assert sum(item["desirable"] for item in kept) == 94
    questions: Any = {"source": "json", "data_files": str(shared_data / "mt_bench" / "question.jsonl")}
    questions |= {"column_map": {"prompt": "turns"}, "keep_columns": ["question_id", "turns"]}
    made = prompt_dataset(TOKENIZER, **questions)
    kept = prompt_dataset(TOKENIZER, **questions, cache=True, cache_dir=str(tmp_path), num_proc=1)
    assert [as_lists(item) for item in kept] == list(made)


def test_loaders_and_copies_have_the_labels_and_the_kept_columns(tmp_path: Path) -> None:
    answers = stored(kto_dataset, ROWS, tmp_path, **LABELLED)
    batches = DataLoader(answers, batch_size=4, collate_fn=padded_collate_kto, num_workers=1)
    found = [flag for batch in batches for flag in batch["desirable"].tolist()]
    assert found == [row["label"] for row in ROWS]
    prompts = pickle.loads(pickle.dumps(stored(prompt_dataset, ROWS, tmp_path, keep_columns=["id"])))
    batch = next(iter(DataLoader(prompts, batch_size=4, collate_fn=padded_collate_prompts)))
    assert batch["columns"] == [{"id": number} for number in range(4)]
    assert batch["tokens"][:, -1].unique().numel() == 1, "prompts are padded on the left"


@pytest.mark.parametrize("num_proc", [1, 2])
def test_rows_that_cannot_be_used_are_left_out_counted_and_written(num_proc: int, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    answers = stored(
        kto_dataset, FAULTY, tmp_path, num_proc=num_proc, on_error="quarantine", quarantine_file=str(bad), **LABELLED
    )
    assert answers.ledger.as_dict() == {"read": 40, "used": 38, "bad_columns": 1, "empty": 1}
    assert answers.ledger.examples == {"bad_columns": (5,), "empty": (9,)}
    assert len(bad.read_text(encoding="utf-8").splitlines()) == 2
    assert [item["desirable"] for item in answers] == [row["label"] for row in FAULTY if row["id"] not in (5, 9)]
    assert rows_of(answers, [4, 5, 8]) == {"list": [4, 6, 10]}
    checked_ledger(answers.store)
    prompts = stored(prompt_dataset, FAULTY, tmp_path, num_proc=num_proc, on_error="skip", keep_columns=["id"])
    assert [item["columns"]["id"] for item in prompts] == [number for number in range(40) if number != 9]
    with pytest.raises(DataError, match="Row 5 of list"):
        stored(kto_dataset, FAULTY, tmp_path, num_proc=num_proc, **LABELLED)


def test_long_answers_are_left_out_where_row_and_item_need_not_agree(tmp_path: Path) -> None:
    lengths = [len(item["input_ids"]) for item in kto_dataset(TOKENIZER, source=ROWS, **LABELLED)]
    limit = sorted(lengths)[20]
    dataset = stored(kto_dataset, ROWS, tmp_path, overflow="drop", max_seq_len=limit, **LABELLED)
    assert dataset.lengths.tolist() == [length for length in lengths if length <= limit]
    assert dataset.ledger.as_dict() == {"read": 40, "used": len(dataset), "too_long": 40 - len(dataset)}


def test_splits_filters_and_duplicates_are_those_without_a_store(tmp_path: Path) -> None:
    rows = [*ROWS, *ROWS[:7]]
    options: dict[str, Any] = {
        "filter_fn": lambda row: row["id"] % 5 > 0,
        "holdout": {"share": 0.3, "part": "train"},
        "drop_duplicates": True,
    }
    builders: list[tuple[Any, dict[str, Any]]] = [(kto_dataset, LABELLED), (prompt_dataset, {"keep_columns": ["id"]})]
    for build, more in builders:
        dataset = stored(build, rows, tmp_path, **options, **more)
        alive = build(TOKENIZER, source=rows, **options, **more)
        assert [as_lists(item) for item in dataset] == list(alive)
        assert dataset.ledger.as_dict() == alive.ledger.as_dict()


def test_what_decides_the_items_is_in_the_key(tmp_path: Path) -> None:
    def folder(build: Any, **options: Any) -> Path:
        return stored(build, ROWS, tmp_path, **options).store.path

    first = folder(kto_dataset, **LABELLED)
    assert folder(kto_dataset, **LABELLED) == first
    assert folder(kto_dataset, new_system_prompt="Judge.", **LABELLED) != first
    flipped = [{**row, "label": not row["label"]} for row in ROWS]
    other = stored(kto_dataset, flipped, tmp_path, **LABELLED)
    assert other.store.path != first
    assert other.fingerprint != TokenStore.open(first).digest, "the labels are part of the samples' hash"
    prompts = folder(prompt_dataset)
    assert len({first, prompts, folder(prompt_dataset, max_prompt_len=900), folder(prompt_dataset)}) == 3


def test_a_damaged_label_is_found(tmp_path: Path) -> None:
    dataset = stored(kto_dataset, ROWS, tmp_path, **LABELLED)
    folder = dataset.store.path
    (file,) = folder.rglob("desirable.npy")
    whole = file.read_bytes()
    file.chmod(0o644)
    file.write_bytes(whole[:-1] + bytes([1 - whole[-1]]))
    assert "desirable.npy" in next(iter(problems_of(folder)))
    lazy = StoredKTODataset(TokenStore.open(folder, verify="lazy"))
    with pytest.raises(StoreError, match=r"desirable\.npy"):
        lazy[0]


def test_a_store_of_other_samples_has_no_labels(tmp_path: Path) -> None:
    prompts = stored(prompt_dataset, ROWS, tmp_path)
    with pytest.raises(StoreError, match="holds samples without a label of their own"):
        StoredKTODataset(prompts.store)[0]


def test_packing_is_refused_and_says_why(tmp_path: Path) -> None:
    told: dict[Any, str] = {kto_dataset: "Labelled answers .* can't be packed: a batch has one label a row"}
    told[prompt_dataset] = "Prompts can't be packed: a model goes on from the end of a row"
    for build, sentence in told.items():
        options: dict[str, Any] = LABELLED if build is kto_dataset else {}
        alive, kept = build(TOKENIZER, source=ROWS, **options), stored(build, ROWS, tmp_path, **options)
        for given in (
            alive,
            kept,
            kept.store,
            alive.recipe,
            ConcatDataset([alive, alive]),
            ConcatDataset([kept, kept]),
        ):
            with pytest.raises(ConfigError, match=sentence):
                PackedDataset(given, max_seq_len=64)
        with pytest.raises(ConfigError, match=sentence):
            build(TOKENIZER, source=ROWS, packed=True, **options)
        with pytest.raises(ConfigError, match=sentence):
            GrowingPackedDataset(alive.recipe, max_seq_len=64)


def test_data_sets_say_which_kind_of_samples_they_have(tmp_path: Path) -> None:
    answers, prompts = stored(kto_dataset, ROWS, tmp_path, **LABELLED), prompt_dataset(TOKENIZER, source=ROWS)
    assert (answers.kind, prompts.kind) == ("kto", "prompts")
    assert ConcatDataset([answers, answers]).kind == "kto"
    assert ConcatDataset([answers, prompts]).kind is None
    chats = [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}]
    packed: Any = sft_dataset(
        tiny_tokenizer(max_seq_len=64), source=chats, message_transform=OpenAIToMessages(), packed=True, num_proc=1
    )
    assert packed.kind == "sft"
