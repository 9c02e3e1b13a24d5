"""Builders leave out bad rows, duplicates and held-out rows as they are asked to, and say what became of every row."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from datasets import Dataset

from torchpipe.data.duplicates import overlap
from torchpipe.data.splits import Holdout
from torchpipe.datasets import (
    ConcatDataset,
    GrowingPackedDataset,
    PackedDataset,
    SFTDataset,
    StoredDataset,
    alpaca_dataset,
    chat_dataset,
    count_samples,
    instantiate_dataset,
    instruct_dataset,
)
from torchpipe.errors import ColumnError, ConfigError, DataError, SourceError
from torchpipe.models.tiny import tiny_tokenizer

GOOD = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
DIRTY: list[tuple[Any, str | None]] = [
    (GOOD, None),
    ([], "empty"),
    ([{"role": "user", "content": None}, GOOD[1]], "empty"),
    ([GOOD[1], GOOD[0]], "bad_role_order"),
    ([GOOD[0]], "bad_role_order"),
    ([{"role": "usr", "content": "hi"}, GOOD[1]], "bad_message"),
    ([{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}], "bad_columns"),
    ("hi", "bad_columns"),
    ([{"role": "user", "content": "\ud83d"}, GOOD[1]], "unwritable"),
    ([GOOD[0], {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}], "unwritable"),
    ([GOOD[0], {"role": "assistant", "tool_calls": [{"function": {}}]}], "bad_message"),
    ([GOOD[0], {"role": "assistant", "content": "word " * 300}], "too_long"),
    ([GOOD[0], {**GOOD[1], "weight": 0}], "no_trainable_tokens"),
    ([{"role": "user", "content": "مرحبا שלום"}, {"role": "assistant", "content": "a\r\n\tb\x00 你好"}], None),
]
ROWS = [{"messages": turns} for turns, _ in DIRTY]


def chats(tmp_path: Path, rows: Any = None, **options: Any) -> Any:
    given = {"conversation_column": "messages", "conversation_style": "openai", "packed": True, "on_error": "skip"}
    given |= {"overflow": "error", "cache_dir": str(tmp_path), "num_proc": 1, **options}
    return chat_dataset(tiny_tokenizer(max_seq_len=64), source=rows or ROWS, **given)


def expected() -> dict[str, tuple[int, ...]]:
    reasons = dict.fromkeys(reason for _, reason in DIRTY if reason)
    return {reason: tuple(row for row, (_, why) in enumerate(DIRTY) if why == reason) for reason in reasons}


@pytest.mark.parametrize("options", [{}, {"packed": False, "cache": True}, {"start": "by_shard", "shard_rows": 5}])
def test_each_kind_of_bad_row_has_its_reason_and_nothing_is_lost(tmp_path: Path, options: dict[str, Any]) -> None:
    dataset = chats(tmp_path, **options)
    assert isinstance(dataset, PackedDataset | StoredDataset | GrowingPackedDataset)
    assert len(dataset) > 0  # waits where it is by shard
    ledger = dataset.ledger
    assert ledger is not None
    assert ledger.examples == expected()
    assert ledger.as_dict() == {"read": 14, "used": 2, **{reason: len(rows) for reason, rows in expected().items()}}
    assert "bad_message 2 (rows 5, 10)" in ledger.describe()
    counts = dataset.counts
    assert counts is not None
    assert (counts.rows, counts.bad_rows, counts.too_long_rows, counts.emptied_rows) == (2, 10, 1, 1)
    assert "10 more rows left out, which can't be used" in counts.describe()


def test_rows_in_quarantine_can_be_mended_and_read_again(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    chats(tmp_path, on_error="quarantine", quarantine_file=str(file))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["content"] for line in lines] == [ROWS[line["row"]] for line in lines]
    mended = [{"messages": [GOOD[0], *line["content"]["messages"]]} for line in lines if line["row"] == 1]
    assert lines[0]["error"].startswith("Row 1 of list: ")
    with pytest.raises(DataError, match="Row 0 of list: A conversation needs at least 2 messages"):
        chats(tmp_path, mended, on_error="raise")


def test_a_share_of_bad_rows_that_can_not_be_met_names_counts_and_first_rows(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"list: up to row 2, 2 rows of 14 .*empty 2 \(rows 1, 2\)\. The first: Row 1 of"
    ):
        chats(tmp_path, max_error_share=0.1)


@pytest.mark.parametrize("options", [{}, {"packed": False, "cache": True}])
def test_where_every_row_is_bad_the_first_error_is_said(tmp_path: Path, options: dict[str, Any]) -> None:
    wrong = [{"messages": turns} for turns, reason in DIRTY if reason == "bad_role_order"]
    with pytest.raises(
        DataError, match=r"no sample is left.* 2 more rows left out, .*The first: Row 0 of list: Message 0"
    ):
        chats(tmp_path, wrong, **options)


def test_rows_that_are_samples_by_number_are_not_left_out(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match="on_error='skip' gives a row no sample, and without a store row k is sample k"
    ):
        chats(tmp_path, packed=False)
    with pytest.raises(ConfigError, match=r"'max_error_shar' is not an option of .*Did you mean 'max_error_share'\?"):
        chats(tmp_path, max_error_shar=1)


def test_a_row_of_a_list_that_trains_nothing_is_said_refused_or_kept() -> None:
    rows = [{"messages": GOOD}, {"messages": [GOOD[0], {**GOOD[1], "weight": 0}]}]
    options: dict[str, Any] = {"source": rows, "conversation_column": "messages", "conversation_style": "openai"}
    dataset = chat_dataset(tiny_tokenizer(), **options)
    with pytest.warns(UserWarning, match="Row 1 of list has no token that is trained, and so has its sample") as said:
        assert set(dataset[1]["labels"]) == set(dataset[1]["labels"]) == {-100}
    assert len(said) == 1
    with pytest.raises(DataError, match="Row 1 of list: The row has no token that is trained: all of its messages"):
        chat_dataset(tiny_tokenizer(), **options, on_untrained="raise")[1]
    kept = chat_dataset(tiny_tokenizer(), **options, on_untrained="keep")
    assert kept.ledger is not None
    assert kept.ledger.as_dict() == {"read": 2, "used": 2}


def test_a_pack_with_nothing_to_train_is_told(tmp_path: Path) -> None:
    rows = [{"messages": [GOOD[0], {**GOOD[1], "weight": 0}]}]
    with pytest.raises(DataError, match=r"no sample is left to pack\. .*1 more row left out, without a trained token"):
        chats(tmp_path, rows)
    with pytest.raises(DataError, match=r"no sample is left\. .*1 more row left out, without a trained token"):
        chats(tmp_path, rows, packed=False, cache=True)
    assert chats(tmp_path, rows, on_untrained="keep").describe().endswith("; 1 of them have nothing to train")


def alpaca(shared_data: Path, tmp_path: Path, **options: Any) -> Any:
    file = str(next((shared_data / "alpaca").glob("*.json")))
    given = {"source": "json", "data_files": file, "cache_dir": str(tmp_path), **options}
    return alpaca_dataset(tiny_tokenizer(), **given)


def test_the_two_parts_of_a_split_are_all_rows_and_share_none(shared_data: Path, tmp_path: Path) -> None:
    whole = alpaca(shared_data, tmp_path)
    split = {"share": 0.1, "seed": 3}
    train = alpaca(shared_data, tmp_path, holdout={**split, "part": "train"})
    validation = alpaca(shared_data, tmp_path, holdout={**split, "part": "validation"})
    assert len(train) + len(validation) == len(whole)
    assert overlap(validation.rows, train.rows).num_shared == 0
    assert train.ledger.as_dict() == {"read": len(whole), "used": len(train), "other_part": len(validation)}
    assert count_samples(validation).other_part_rows == len(train)
    stored = alpaca(shared_data, tmp_path, holdout=Holdout(**split), cache=True)
    assert torch.equal(stored[5]["tokens"], torch.tensor(train[5]["tokens"]))
    assert (len(stored), stored.ledger.as_dict()) == (len(train), train.ledger.as_dict())
    assert stored.ledger.examples == train.ledger.examples
    assert "train part" in stored.name
    packed = PackedDataset(train, max_seq_len=2048, cache_dir=tmp_path)
    row, _ = packed.row_of(5)
    assert row == stored.row_of(5)[0] != 5
    assert packed.samples[row]["tokens"] == train[5]["tokens"]  # looked at again by the source's numbers


def test_an_error_names_the_row_by_its_number_in_the_source() -> None:
    rows = [{"q": f"q{n % 3}", "a": "yes" if n < 8 else None} for n in range(10)]
    dataset: Any = instruct_dataset(
        tiny_tokenizer(), source=rows, column_map={"input": "q", "output": "a"}, drop_duplicates=["q", "a"]
    )
    assert len(dataset) == 5
    with pytest.raises(ColumnError, match="Row 8 of list: Column 'a' is null"):
        dataset[3]


@pytest.mark.parametrize("cache", [False, True])
def test_rows_that_are_left_out_are_named_as_the_source_numbers_them_also_behind_a_filter(cache: bool) -> None:
    pairs = [("a", "1"), ("drop", "2"), ("a", "1"), ("b", "3"), ("drop", "4"), ("b", "3")]
    rows = [{"input": asked, "output": said} for asked, said in pairs]
    dataset: Any = instruct_dataset(
        tiny_tokenizer(), source=rows, filter_fn=_is_kept, drop_duplicates=True, cache=cache, num_proc=1
    )
    assert dataset.ledger.as_dict() == {"read": 6, "used": 2, "filtered": 2, "duplicate": 2}
    assert dataset.ledger.examples == {"filtered": (1, 4), "duplicate": (2, 5)}


def test_where_a_filter_does_not_say_which_rows_it_left_none_is_named() -> None:
    rows = Dataset.from_list([{"input": text, "output": "1"} for text in ("drop", "a", "a")])
    dataset: Any = instruct_dataset(tiny_tokenizer(), source=rows, filter_fn=_is_kept, drop_duplicates=True)
    assert dataset.ledger.as_dict() == {"read": 3, "used": 1, "filtered": 1, "duplicate": 1}
    assert dataset.ledger.examples == {}


def _is_kept(row: dict[str, Any]) -> bool:
    return row["input"] != "drop"


def test_groups_stay_together_in_a_packed_data_set(tmp_path: Path) -> None:
    rows = [{"q": f"q{n}", "a": f"a{n}", "user": n // 5} for n in range(200)]
    used: list[set[int]] = []
    for part in ("train", "validation"):
        packed: Any = instruct_dataset(
            tiny_tokenizer(max_seq_len=64),
            source=rows,
            column_map={"input": "q", "output": "a"},
            packed=True,
            cache_dir=str(tmp_path),
            holdout={"share": 0.3, "group_column": "user", "part": part},
        )
        used.append({int(row) // 5 for row in packed.content.rows})
    assert used[0] | used[1] == set(range(40))
    assert not used[0] & used[1]


def test_a_part_that_would_be_empty_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"holdout": {"share": 0.001, "part": "validation"}, "on_error": "raise"}
    rows = [{"messages": GOOD}]
    with pytest.raises(SourceError, match="No row of list .*is left of 1: .*'other_part': 1.* Check holdout"):
        chats(tmp_path, rows, packed=False, overflow=None, **options)
    with pytest.raises(DataError, match=r"no sample is left to pack\. .*1 more row in the other part of the split"):
        chats(tmp_path, rows, **options)


@pytest.mark.parametrize("options", [{}, {"cache": True, "num_proc": 1}, {"cache": True, "num_proc": 2}])
def test_duplicates_are_left_out_but_for_the_first(tmp_path: Path, options: dict[str, Any]) -> None:
    rows = [{"q": f"q{n % 7}", "a": "yes", "id": n} for n in range(30)]
    given: dict[str, Any] = {"source": rows, "column_map": {"input": "q", "output": "a"}, "cache_dir": str(tmp_path)}
    given = {**given, **options} if options else {key: value for key, value in given.items() if key != "cache_dir"}
    unlike: Any = instruct_dataset(tiny_tokenizer(), **given, drop_duplicates=["q", "a"])
    assert unlike.ledger.as_dict() == {"read": 30, "used": 7, "duplicate": 23}
    assert tuple(unlike.ledger.examples["duplicate"]) == (7, 8, 9, 10, 11)
    assert len(instruct_dataset(tiny_tokenizer(), **given, drop_duplicates=True)) == 30
    assert count_samples(unlike).duplicate_rows == 23


def test_equal_rows_never_land_in_both_parts_even_where_their_groups_do(tmp_path: Path) -> None:
    rows = [{"q": f"q{n % 20}", "a": "yes", "user": n} for n in range(100)]
    parts: list[Any] = [
        instruct_dataset(
            tiny_tokenizer(),
            source=rows,
            column_map={"input": "q", "output": "a"},
            drop_duplicates=["q", "a"],
            holdout={"share": 0.4, "group_column": "user", "part": part},
        )
        for part in ("train", "validation")
    ]
    assert overlap(parts[1].rows, parts[0].rows, columns=["q", "a"]).num_shared == 0
    assert len(parts[0]) + len(parts[1]) == 20


def test_a_filtered_row_is_no_first_of_its_content(tmp_path: Path) -> None:
    rows = [{"q": "same", "a": "yes", "keep": n > 2} for n in range(6)]
    stored: Any = instruct_dataset(
        tiny_tokenizer(),
        source=rows,
        column_map={"input": "q", "output": "a"},
        filter_fn=is_kept,
        drop_duplicates=["q"],
        cache=True,
        cache_dir=str(tmp_path),
    )
    assert stored.ledger.as_dict() == {"read": 6, "used": 1, "filtered": 3, "duplicate": 2}
    assert stored.row_of(0) == (3, 0)


def is_kept(row: dict[str, Any]) -> bool:
    return row["keep"]


def test_rows_that_can_not_be_compared_are_errors_of_those_rows(tmp_path: Path) -> None:
    rows = [{"q": "a", "a": "b", "id": 1}, {"q": "a", "a": "b"}]
    options: dict[str, Any] = {"source": rows, "column_map": {"input": "q", "output": "a"}, "cache_dir": str(tmp_path)}
    with pytest.raises(ColumnError, match="Row 1 of list: The row has no column 'id'"):
        instruct_dataset(tiny_tokenizer(), **options, cache=True, drop_duplicates=["id"])
    skipped: Any = instruct_dataset(tiny_tokenizer(), **options, cache=True, drop_duplicates=["id"], on_error="skip")
    assert skipped.ledger.as_dict() == {"read": 2, "used": 1, "bad_columns": 1}
    for wrong in ("id", [], [3]):
        with pytest.raises(ConfigError, match="drop_duplicates is .* true .rows are compared as a whole., false, or a"):
            instruct_dataset(tiny_tokenizer(), **options, drop_duplicates=wrong)  # pyright: ignore[reportArgumentType]


def test_every_choice_is_part_of_the_key_and_a_share_is_not(tmp_path: Path) -> None:
    rows = [{"messages": GOOD}, {"messages": [GOOD[0], {"role": "assistant", "content": "no"}]}]
    choices: list[dict[str, Any]] = [
        {},
        {"on_error": "raise"},
        {"on_untrained": "keep"},
        {"drop_duplicates": True},
        {"drop_duplicates": ["messages"]},
        {"holdout": {"share": 0.01}},
        {"holdout": {"share": 0.02}},
        {"holdout": {"share": 0.01, "seed": 1}},
    ]
    stores = {chats(tmp_path, rows, packed=False, cache=True, **choice).store.path for choice in choices}
    assert len(stores) == len(choices)
    assert chats(tmp_path, rows, packed=False, cache=True, max_error_share=0.5).store.path in stores


def test_joined_data_sets_add_up_what_became_of_their_rows(tmp_path: Path) -> None:
    both = ConcatDataset([chats(tmp_path), chats(tmp_path, [{"messages": GOOD}, {"messages": []}])])
    assert both.ledger.as_dict() == {
        "read": 16,
        "used": 3,
        **{reason: len(rows) + (reason == "empty") for reason, rows in expected().items()},
    }


def test_joined_and_packed_data_sets_tell_what_their_parts_left_out(tmp_path: Path) -> None:
    options: dict[str, Any] = {"column_map": {"input": "q", "output": "a"}, "drop_duplicates": True}
    parts: list[Any] = [
        instruct_dataset(tiny_tokenizer(), source=[{"q": f"q{n % 3}", "a": "yes"} for n in range(size)], **options)
        for size in (5, 9)
    ]
    both = ConcatDataset(parts)
    assert both.ledger.as_dict() == {"read": 14, "used": 6, "duplicate": 8}
    assert count_samples(both).duplicate_rows == 8
    packed = PackedDataset(both, max_seq_len=64, cache_dir=tmp_path)
    assert packed.ledger.as_dict() == {"read": 14, "used": 6, "duplicate": 8}
    assert packed.counts.duplicate_rows == 8


def test_a_data_set_of_ones_own_that_is_packed_tells_what_was_read() -> None:
    packed = PackedDataset([{"tokens": [1, 2], "labels": [2, -100]}] * 3, max_seq_len=8)
    assert packed.ledger.as_dict() == {"read": 3, "used": 3}
    filtered = SFTDataset(
        source=[{"messages": GOOD}] * 4,
        message_transform=chats_of,
        model_transform=tiny_tokenizer(),
        filter_fn=first_two(),
    )
    assert filtered.ledger.as_dict() == {"read": 4, "used": 2, "filtered": 2}


def chats_of(row: Any) -> Any:
    from torchpipe.data import OpenAIToMessages

    return OpenAIToMessages()(row)


def first_two() -> Any:
    seen: list[int] = []
    return lambda row: seen.append(1) or len(seen) <= 2


def test_a_config_names_all_of_it(shared_data: Path, tmp_path: Path) -> None:
    section = yaml.safe_load(
        f"""
        _component_: torchpipe.datasets.alpaca_dataset
        source: json
        data_files: {next((shared_data / "alpaca").glob("*.json"))}
        packed: true
        cache_dir: {tmp_path}
        on_error: quarantine
        max_error_share: 0.01
        quarantine_file: {tmp_path / "bad.jsonl"}
        holdout: {{share: 0.05, part: validation, group_column: null, seed: 0}}
        drop_duplicates: [instruction, input]
        """
    )
    dataset = instantiate_dataset(section, tiny_tokenizer(max_seq_len=2048))
    ledger = dataset.ledger.as_dict()
    assert ledger["read"] == ledger["used"] + ledger["other_part"] + ledger.get("duplicate", 0)
    assert (tmp_path / "bad.jsonl").read_bytes() == b""
