"""Items of any data set lead back to the rows that they were made of."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch.utils.data import Subset

from torchpipe.datasets import ConcatDataset, GrowingPackedDataset, PackedDataset, chat_dataset, describe_rows, rows_of
from torchpipe.models.tiny import tiny_tokenizer

Built = Callable[..., Any]


def keeps_even(row: dict[str, Any]) -> bool:
    return int(row["messages"][1]["content"].split()[0]) % 2 == 0


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """Function (number of rows, name, **options) -> a data set of chats whose reply begins with the row's number."""

    def build(num_rows: int, name: str = "chats.jsonl", **options: Any) -> Any:
        rows = [
            {
                "messages": [
                    {"role": "user", "content": f"Say {row}!"},
                    {"role": "assistant", "content": f"{row} " + "word " * (row * row % 9)},
                ]
            }
            for row in range(num_rows)
        ]
        file = tmp_path / name
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return chat_dataset(
            tiny_tokenizer(max_seq_len=options.pop("max_seq_len", 64), mask_policy="sampled"),
            source="json",
            data_files=str(file),
            conversation_column="messages",
            conversation_style="openai",
            **options,
        )

    return build


def rows_read(item: Any) -> set[int]:
    """The numbers that an item's text says its rows have."""
    text = tiny_tokenizer().decode([int(token) for token in item["tokens"]], truncate_at_eos=False)
    return {int(row) for row in re.findall(r"Say (\d+)!", text)}


def test_an_item_of_plain_rows_is_its_row(built: Built) -> None:
    dataset = built(6)
    assert rows_of(dataset, [5, 2, 3, 4]) == {dataset.name: [2, 3, 4, 5]}
    assert describe_rows(dataset, [5, 2, 3, 4, 0]) == f"rows 0, 2-5 of {dataset.name}"


@pytest.mark.parametrize("strategy", ["next_fit", "best_fit_decreasing", "concat_then_split"])
def test_a_pack_leads_to_all_rows_in_it(built: Built, strategy: str) -> None:
    packed = built(30, packed=True, strategy=strategy)
    for pack in range(len(packed)):
        (rows,) = rows_of(packed, [pack]).values()
        if strategy == "concat_then_split":  # a row's first part may stand in the pack before
            assert rows_read(packed[pack]) <= set(rows)
        else:
            assert rows_read(packed[pack]) == set(rows)
    assert rows_of(packed, range(len(packed))) == {packed.name: [*range(30)]}


def test_rows_that_a_filter_leaves_out_count_in_packs_as_in_their_errors(built: Built) -> None:
    packed = built(20, packed=True, filter_fn=keeps_even)
    assert rows_of(packed, range(len(packed))) == {packed.name: [*range(0, 20, 2)]}
    assert {row for pack in range(len(packed)) for row in rows_read(packed[pack])} == {*range(0, 20, 2)}


def test_a_row_that_gives_several_samples_is_named_by_each(built: Built) -> None:
    stored = built(8, cache=True, overflow="split", max_seq_len=16)
    assert len(stored) > 8
    named = [rows for item in range(len(stored)) for rows in rows_of(stored, [item]).values()]
    assert [row for (row,) in named] == sorted(row for (row,) in named)
    assert {row for (row,) in named} == {*range(8)}
    assert describe_rows(stored, [0]) == f"item 0 (row 0 of {stored.name})"


def test_rows_of_joined_data_sets_are_named_by_their_source(built: Built) -> None:
    first, second = built(10, "a.jsonl", packed=True), built(10, "b.jsonl", packed=True)
    joined = ConcatDataset([first, second])
    last = len(joined) - 1
    (rows,) = rows_of(second, [len(second) - 1]).values()
    assert rows_of(joined, [last]) == {second.name: rows}
    assert describe_rows(joined, [last]) == f"pack {last} ({_words(rows)} of {second.name})"
    assert rows_of(joined, range(len(joined))) == {first.name: [*range(10)], second.name: [*range(10)]}


def _words(rows: list[int]) -> str:
    return f"rows {rows[0]}-{rows[-1]}" if len(rows) > 2 else f"rows {rows[0]}, {rows[1]}"


def test_a_part_of_a_data_set_leads_to_the_rows_of_the_whole(built: Built) -> None:
    dataset = built(9)
    part = Subset(dataset, [8, 1, 2])
    assert rows_of(part, [0, 1]) == {dataset.name: [1, 8]}
    assert describe_rows(part, [0]) == f"item 0 (row 8 of {dataset.name})"


def test_packs_of_a_store_that_is_being_built_lead_to_the_rows_of_the_source(
    toy: SimpleNamespace, tmp_path: Path
) -> None:
    recipe = toy.ToyRecipe(num_rows=120)
    growing = GrowingPackedDataset(recipe, max_seq_len=32, cache_dir=tmp_path, num_proc=1, shard_rows=40)
    try:
        assert growing.wait_for(None)
        whole = PackedDataset(recipe, max_seq_len=32, cache_dir=tmp_path / "whole", num_proc=1)
        every = rows_of(whole, range(len(whole)))
        assert rows_of(growing, range(len(growing))) == every
        last = growing.packs_of(2)
        (rows,) = rows_of(growing, [last.start]).values()
        assert rows[0] >= 80
        assert describe_rows(growing, [last.start]).startswith(f"pack {last.start} (row")
    finally:
        growing.close()


def test_samples_in_memory_lead_to_their_places() -> None:
    samples = [{"tokens": [row] * 4, "labels": [row] * 4} for row in range(5)]
    packed = PackedDataset(samples, max_seq_len=8)
    assert list(rows_of(packed, [1]).values()) == [[2, 3]]


def test_padding_is_made_of_no_row() -> None:
    assert rows_of(["a"], [-1]) == {}
    assert describe_rows(["a"], [-1, -1]) == "padding alone"
