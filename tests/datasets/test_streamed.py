"""Builders with streaming=True: the items of the same builder without, one after another."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

from torchpipe.data import padded_collate_dpo, padded_collate_sft
from torchpipe.datasets import (
    StreamedDataset,
    chat_dataset,
    instantiate_dataset,
    instruct_dataset,
    messages_dataset,
    preference_dataset,
    text_completion_dataset,
)
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


@pytest.fixture
def questions(tmp_path: Path) -> list[str]:
    """Four files of five questions each."""
    files = [tmp_path / f"{number}.jsonl" for number in range(4)]
    for number, file in enumerate(files):
        rows = [{"input": f"{number} + {row}?", "output": str(number + row)} for row in range(5)]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return list(map(str, files))


def instruct(files: list[str], **options: Any) -> Any:
    return instruct_dataset(TOKENIZER, source="json", data_files=files, **options)


def counted(items: Any) -> Counter[tuple[int, ...]]:
    return Counter(tuple(item["tokens"]) for item in items)


def test_the_items_are_those_of_the_builder_without(questions: list[str]) -> None:
    stream, rows = instruct(questions, streaming=True), instruct(questions)
    assert isinstance(stream, StreamedDataset)
    found = list(stream)
    assert counted(found) == counted(rows)
    expected = {tuple(item["tokens"]): item for item in rows}
    assert all(item == expected[tuple(item["tokens"])] for item in found)
    assert stream.ledger.as_dict() == {"read": 20, "used": 20}


def test_batches_have_the_same_keys_and_workers_share_the_rows(questions: list[str]) -> None:
    def batches(dataset: Any, **options: Any) -> list[Any]:
        return list(DataLoader(dataset, batch_size=5, collate_fn=padded_collate_sft, **options))

    alone = batches(instruct(questions, streaming=True))
    shared = batches(instruct(questions, streaming=True), num_workers=2)
    assert [set(batch) for batch in alone] == [set(batch) for batch in batches(instruct(questions))]
    assert sum(len(batch["tokens"]) for batch in shared) == 20
    assert counted({"tokens": row.tolist()} for batch in shared for row in batch["tokens"]).total() == 20


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [1, 3, 4])
@pytest.mark.parametrize("num_files", [1, 2, 4])
def test_workers_give_each_item_once(num_files: int, num_workers: int, questions: list[str]) -> None:
    """Whether the files divide among them, are fewer, or have rows enough for each."""
    Path(questions[0]).write_text(json.dumps({"input": "1 + 1?", "output": "2"}) + "\n", encoding="utf-8")
    files = questions[:num_files]
    loader = DataLoader(instruct(files, streaming=True), batch_size=None, num_workers=num_workers)
    expected = counted(instruct(files))
    assert counted(loader) == expected
    assert counted(loader) == expected


def test_each_pass_reads_the_files_in_another_order(questions: list[str]) -> None:
    stream = instruct(questions, streaming=True)
    first, second = list(stream), list(stream)
    assert counted(first) == counted(second)
    assert first != second
    assert list(instruct(questions, streaming=True)) == first


PAIR = {"prompt": [{"role": "user", "content": "Hi"}]}
BUILDERS: dict[str, tuple[Callable[..., Any], list[dict[str, Any]], dict[str, Any]]] = {
    "chat": (
        chat_dataset,
        [{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}] * 3,
        {"conversation_column": "messages", "conversation_style": "openai"},
    ),
    "messages": (messages_dataset, [{"question": "1 + 1?", "answer": "2"}] * 3, {}),
    "text": (text_completion_dataset, [{"text": "Once upon a time."}] * 3, {"column": "text"}),
    "pairs": (
        preference_dataset,
        [
            {
                "chosen": [*PAIR["prompt"], {"role": "assistant", "content": "Hello"}],
                "rejected": [*PAIR["prompt"], {"role": "assistant", "content": "Go"}],
            }
        ]
        * 3,
        {},
    ),
}


@pytest.mark.parametrize(("builder", "rows", "options"), BUILDERS.values(), ids=list(BUILDERS))
def test_every_builder_streams(
    builder: Callable[..., Any], rows: list[dict[str, Any]], options: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    given = {"source": "json", "data_files": str(file), **options}
    stream, by_number = builder(TOKENIZER, streaming=True, **given), builder(TOKENIZER, **given)
    assert list(stream) == [by_number[row] for row in range(3)]
    if builder is preference_dataset:
        assert len(list(DataLoader(stream, batch_size=2, collate_fn=padded_collate_dpo))) == 2


def test_rows_that_are_left_out_are_counted_by_reason(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    rows = [{"input": "Hi", "output": "Hello " * length} for length in (1, 400, 2)] + [{"input": "", "output": "No"}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    options = {"streaming": True, "overflow": "drop", "max_seq_len": 60, "on_error": "skip"}
    stream = instruct([str(file)], filter_fn=is_no_refusal, **options)
    assert len(list(stream)) == 2
    assert stream.ledger.as_dict() == {"read": 4, "used": 2, "too_long": 1, "filtered": 1}


def is_no_refusal(row: dict[str, str]) -> bool:
    return row["output"] != "No"


def test_a_bad_row_says_where_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"input": "Hi", "output": "Hello"}\n{"input": "Hi", "output": null}\n', encoding="utf-8")
    with pytest.raises(DataError, match=r"Row 1 of part 1 of 1 of the stream .*rows.jsonl"):
        list(instruct([str(file)], streaming=True))
    skipped = instruct([str(file)], streaming=True, on_error="skip")
    assert len(list(skipped)) == 1
    assert skipped.ledger.read == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"packed": True}, "streaming=True reads rows one after another, and packed, cache"),
        ({"cache": True}, "a graph of torchpipe.pipeline packs streams"),
        ({"drop_duplicates": True}, "drop_duplicates compares all rows, and a stream has no end"),
    ],
)
def test_what_needs_all_rows_is_refused(options: dict[str, Any], sentence: str, questions: list[str]) -> None:
    with pytest.raises(ConfigError, match=sentence):
        instruct(questions, streaming=True, **options)


def test_rows_that_are_no_name_for_load_dataset_can_not_be_streamed() -> None:
    with pytest.raises(ConfigError, match="streaming=True is an option of load_dataset, and the source is a list"):
        instruct_dataset(TOKENIZER, source=[{"input": "Hi", "output": "Hello"}], streaming=True)


def test_a_row_of_a_stream_has_no_number(questions: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"whose rows have no numbers. Give it to a DataLoader; .*dataloader"):
        instruct(questions, streaming=True)[0]
    config = {"_component_": "torchpipe.datasets.instruct_dataset", "source": "json", "data_files": questions}
    with pytest.raises(ConfigError, match=r"whose rows have no numbers.*HuggingFaceStreamingSource"):
        instantiate_dataset({**config, "streaming": True}, TOKENIZER)
