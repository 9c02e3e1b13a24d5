"""Stores of rows for supervised fine-tuning hold what SFTDataset gives, and are told apart by all that decides it."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe.data import InputOutputToMessages, Message, OpenAIToMessages, ShareGPTToMessages
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.datasets import SFTDataset
from torchpipe.errors import ColumnError, ConfigError, DataError, SourceError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store import TokenStore
from torchpipe.store.accounts import ledger_of, sample_counts
from torchpipe.store.build import build_store
from torchpipe.store.dataset_recipe import DatasetRecipe
from torchpipe.store.sft_recipe import SFTRecipe

QUESTIONS = InputOutputToMessages(column_map={"input": "question", "output": "answer"})
POLICIES = [None, ("drop", None), ("split", None), *(("truncate", side) for side in ("right", "left", "turns"))]


class CallsAsText:
    """Conversations whose calls are text, which the Llama 3 format has a place for."""

    def __init__(self) -> None:
        self.inner = ShareGPTToMessages(column_map={"conversations": "conversations", "tools": None})

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        return {"messages": [self.as_text(message) for message in self.inner(sample)["messages"]]}

    def as_text(self, message: Message) -> Message:
        if not message.tool_calls:
            return message
        text = message.text_content + "".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
        return Message("assistant", text, masked=message.masked, ipython=True, eot=message.eot)


def is_short(row: Mapping[str, Any]) -> bool:
    return len(row["question"]) < 200


def every_third(row: Mapping[str, Any], index: int) -> bool:
    return index % 3 == 0


def recipe(shared_data: Path, **options: Any) -> SFTRecipe:
    files = {"data_files": str(shared_data / "gsm8k" / "train.jsonl"), "split": "train"}
    given = {"source": "json", "load_dataset_kwargs": files, "message_transform": QUESTIONS, **options}
    return SFTRecipe(**{"model_transform": tiny_tokenizer(), **given})


def same(store: TokenStore, samples: list[dict[str, Any]]) -> bool:
    return store.num_samples == len(samples) and all(
        store.sample(index)["tokens"].tolist() == sample["tokens"]
        and store.sample(index)["labels"].tolist() == sample["labels"]
        for index, sample in enumerate(samples)
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_store_holds_the_samples_of_the_data_set(shared_data: Path, tmp_path: Path, policy: Any) -> None:
    rows = json.loads((shared_data / "llamafactory" / "glaive_toolcall_en_demo.json").read_text())
    tokenizer = tiny_tokenizer(mask_policy="sampled")
    overflow, options = None, {}
    if policy is not None:
        options = {"overflow": policy[0], "truncation_type": policy[1], "max_seq_len": 384}
        overflow = OverflowPolicy(max_seq_len=384, overflow=policy[0], truncation_type=policy[1] or "right")
    store = build_store(
        SFTRecipe(source=rows, message_transform=CallsAsText(), model_transform=tokenizer, overflow=overflow),
        cache_dir=tmp_path,
        num_proc=2,
        shard_rows=64,
    )
    dataset = SFTDataset(
        source=rows, message_transform=CallsAsText(), model_transform=tokenizer, one_sample_a_row=False, **options
    )
    fitted = [dataset.fitted(row) for row in range(len(dataset))]
    assert same(store, [sample for one in fitted for sample in one.samples])
    ledger = ledger_of(store.shards)
    ledger.check(num_rows=len(rows))
    assert {reason: len(ids) for reason, ids in ledger.left_out.items()} == {
        reason: num
        for reason in ("too_long", "nothing_trained")
        if (num := [one.left_out for one in fitted].count(reason))
    }
    counts = sample_counts(store)
    assert counts.split_rows == sum(len(one.samples) > 1 for one in fitted)
    assert counts.truncated_tokens == sum(sample.get("num_truncated", 0) for one in fitted for sample in one.samples)
    assert counts.unstopped_rows == sum(bool(sample.get("lost_stop")) for one in fitted for sample in one.samples)
    assert same(build_store(DatasetRecipe(dataset=dataset), cache_dir=tmp_path), [s for f in fitted for s in f.samples])


def test_weights_are_stored_where_messages_weigh_differently(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello", "weight": 0.25}]
    plain = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Bye"}]
    rows = [{"messages": plain}, {"messages": talk}]
    settings: dict[str, Any] = {"message_transform": OpenAIToMessages(), "model_transform": tiny_tokenizer()}
    store = build_store(SFTRecipe(source=rows, **settings), cache_dir=tmp_path)
    dataset = SFTDataset(source=rows, **settings)
    assert "loss_weights" in dataset[1]
    assert "loss_weights" not in dataset[0]
    assert store.has_weights
    np.testing.assert_allclose(store.sample(1)["loss_weights"], dataset[1]["loss_weights"])
    assert store.sample(0)["loss_weights"].tolist() == [float(label != -100) for label in dataset[0]["labels"]]


def test_rows_have_the_numbers_of_the_source_whatever_the_filter_leaves(shared_data: Path, tmp_path: Path) -> None:
    store = build_store(recipe(shared_data, filter_fn=is_short), cache_dir=tmp_path, num_proc=2, shard_rows=500)
    lines = (shared_data / "gsm8k" / "train.jsonl").read_text().splitlines()
    kept = [row for row, line in enumerate(lines) if is_short(json.loads(line))]
    assert 0 < len(kept) < len(lines)
    assert store.rows.tolist() == kept
    assert sample_counts(store).filtered_rows == len(lines) - len(kept)


def test_the_filter_of_a_hugging_face_data_set_is_called_as_its_own_filter_calls_it(tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_list([{"question": f"How many? {n}", "answer": str(n)} for n in range(20)])
    settings: dict[str, Any] = {"message_transform": QUESTIONS, "model_transform": tiny_tokenizer()}
    given: dict[str, Any] = {"filter_fn": every_third, "filter_kwargs": {"with_indices": True, "num_proc": None}}
    store = build_store(SFTRecipe(source=rows, **settings, **given), cache_dir=tmp_path)
    dataset = SFTDataset(source=rows, **settings, **given)
    assert same(store, list(dataset))
    assert store.rows.tolist() == list(range(0, 20, 3))


def test_a_bad_row_is_named_as_the_data_set_names_it(tmp_path: Path) -> None:
    rows = [{"question": "a", "answer": "b"}] * 30 + [{"question": "a"}] + [{"question": "a", "answer": "b"}] * 30
    settings: dict[str, Any] = {"source": rows, "message_transform": QUESTIONS, "model_transform": tiny_tokenizer()}
    with pytest.raises(ColumnError) as expected:
        SFTDataset(**settings)[30]
    for num_proc in (1, 2):
        with pytest.raises(ColumnError) as found:
            build_store(SFTRecipe(**settings), cache_dir=tmp_path, num_proc=num_proc, shard_rows=10)
        assert str(found.value) == str(expected.value)
        assert str(found.value).startswith("Row 30 of list: ")


def test_a_filter_that_keeps_nothing_says_what_the_data_set_says(shared_data: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"filter_fn kept none of the 7473 rows of .*train.jsonl\. Check what"):
        build_store(recipe(shared_data, filter_fn=nothing), cache_dir=tmp_path)


def nothing(row: Mapping[str, Any]) -> bool:
    return False


def test_a_mask_that_is_none_names_its_row(tmp_path: Path) -> None:
    class Odd:
        def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
            return {"tokens": [1, 2, 3], "mask": [False, sample["mask"], True]}

        def fingerprint(self) -> str:
            return "odd"

    rows = [{"mask": True}] * 7 + [{"mask": 2}]
    with pytest.raises(DataError, match=r"Row 7 of list: its mask holds other than True \(not trained\) and False"):
        build_store(SFTRecipe(source=rows, message_transform=None, model_transform=Odd()), cache_dir=tmp_path)


CHANGES: dict[str, dict[str, Any]] = {
    "filter_fn": {"filter_fn": is_short},
    "message_transform": {
        "message_transform": InputOutputToMessages(column_map={"input": "answer", "output": "question"})
    },
    "model_transform": {"model_transform": tiny_tokenizer(mask_policy="sampled")},
    "overflow": {"overflow": OverflowPolicy(max_seq_len=512)},
}


@pytest.mark.parametrize("field", CHANGES)
def test_each_setting_is_a_field_of_the_key(shared_data: Path, field: str) -> None:
    fields = recipe(shared_data).key_fields()
    changed = recipe(shared_data, **CHANGES[field]).key_fields()
    assert {name for name in fields | changed if fields.get(name) != changed.get(name)} == {field}
    assert recipe(shared_data).key_fields() == fields


def test_with_overflow_the_tokenizers_own_length_is_no_part_of_the_key(shared_data: Path) -> None:
    overflow = OverflowPolicy(max_seq_len=512)
    keys = [
        recipe(shared_data, overflow=overflow, model_transform=tiny_tokenizer(max_seq_len=length)).key_fields()
        for length in (128, None)
    ]
    assert keys[0] == keys[1]


def test_a_changed_file_is_told_by_name(shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"question": "a", "answer": "b"}\n')
    given = recipe(shared_data, load_dataset_kwargs={"data_files": str(file), "split": "train"})
    first = build_store(given, cache_dir=tmp_path)
    file.write_text('{"question": "a", "answer": "b"}\n{"question": "c", "answer": "d"}\n')
    second = build_store(given, cache_dir=tmp_path)
    assert (first.num_samples, second.num_samples) == (1, 2)
    assert f"{file}: no store for these settings yet; the nearest one differs in 'source." in capsys.readouterr().err


def test_by_content_a_file_is_the_same_wherever_it_lies(shared_data: Path, tmp_path: Path) -> None:
    stores = []
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"question": "a", "answer": "b"}\n')
        files = {"data_files": str(tmp_path / name), "split": "train"}
        stores.append(build_store(recipe(shared_data, load_dataset_kwargs=files, content=True), cache_dir=tmp_path))
    assert stores[0].path == stores[1].path


def test_what_can_not_be_told_apart_is_named_in_one_warning(shared_data: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"for this run alone.*filter_fn: .*random.*message_transform: ") as caught:
        store = build_store(
            recipe(shared_data, filter_fn=sometimes, message_transform=Noisy()), cache_dir=tmp_path, num_proc=2
        )
    assert len(caught) == 1
    assert store.path.name.startswith("run-")


def sometimes(row: Mapping[str, Any]) -> bool:
    import random

    return random.random() < 0.9


class Noisy:
    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        sometimes(sample)
        return dict(QUESTIONS(sample))


def test_options_that_do_not_fit_are_refused(shared_data: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="filter_kwargs was given without a filter_fn"):
        recipe(shared_data, filter_kwargs={"num_proc": 2})
    with pytest.raises(ConfigError, match=r"filter_kwargs with_indices are for Hugging Face data sets"):
        build_store(
            recipe(shared_data, filter_fn=every_third, filter_kwargs={"with_indices": True}), cache_dir=tmp_path
        )


def test_neither_the_key_nor_a_hit_imports_datasets(shared_data: Path, tmp_path: Path, repository: Path) -> None:
    script = f"""
import sys
from torchpipe.data import InputOutputToMessages
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store.build import build_store
from torchpipe.store.sft_recipe import SFTRecipe
files = {{"data_files": {str(shared_data / "gsm8k" / "train.jsonl")!r}, "split": "train"}}
transform = InputOutputToMessages(column_map={{"input": "question", "output": "answer"}})
recipe = SFTRecipe(
    source="json", load_dataset_kwargs=files, message_transform=transform, model_transform=tiny_tokenizer()
)
store = build_store(recipe, cache_dir={str(tmp_path)!r})
assert store.num_samples == 7473
assert "datasets" not in sys.modules
"""
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], check=True, cwd=repository)


@pytest.mark.parametrize("num_proc", [1, 2])
def test_a_line_that_is_no_row_is_named_when_its_shard_is_made(tmp_path: Path, num_proc: int) -> None:
    """Lines are parsed once, by who tokenises them; what was finished before is kept."""
    file = tmp_path / "rows.jsonl"
    line = json.dumps({"question": "1 + 1?", "answer": "2"})
    file.write_text("\n".join([line] * 20 + ['{"question": '] + [line] * 20), encoding="utf-8")
    recipe = SFTRecipe(
        source="json",
        load_dataset_kwargs={"data_files": str(file), "split": "train"},
        message_transform=QUESTIONS,
        model_transform=tiny_tokenizer(),
    )
    with pytest.raises(SourceError, match=r"rows\.jsonl, line 21 is not valid JSON: Expecting value at column 14"):
        build_store(recipe, cache_dir=tmp_path, num_proc=num_proc, shard_rows=5)
    assert len(list(tmp_path.glob("store/*/shards/*/shard.json"))) >= 3
