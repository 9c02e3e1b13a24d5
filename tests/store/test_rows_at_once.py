"""Rows that are asked for many at once give the samples that each gives alone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe.data import InputOutputToMessages
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store.flat_samples import FlatSamples
from torchpipe.store.sft_recipe import SFTRecipe
from torchpipe.store.source_recipe import SourceRows

NUM_ROWS = 60


def is_short(row: Mapping[str, Any]) -> bool:
    return len(row["question"]) < 200


def rows_of(shared_data: Path, **options: Any) -> SourceRows:
    files = {"data_files": str(shared_data / "gsm8k" / "train.jsonl"), "split": "train"}
    questions = InputOutputToMessages(column_map={"input": "question", "output": "answer"})
    given: dict[str, Any] = {"source": "json", "load_dataset_kwargs": files, "message_transform": questions, **options}
    return SFTRecipe(**{"model_transform": tiny_tokenizer(), **given}).open()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"filter_fn": is_short},
    {"overflow": OverflowPolicy(max_seq_len=150, overflow="drop")},
    {"overflow": OverflowPolicy(max_seq_len=150, overflow="split"), "filter_fn": is_short},
]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
def test_a_shard_of_rows_at_once_is_the_shard_of_rows_one_by_one(shared_data: Path, options: dict[str, Any]) -> None:
    rows = rows_of(shared_data, **options)
    at_once = FlatSamples(name="rows", vocab_size=rows.vocab_size)
    alone = FlatSamples(name="rows", vocab_size=rows.vocab_size)
    for row, made in enumerate(rows.samples_of_rows(range(NUM_ROWS))):
        at_once.add_row(row, made)
        alone.add_row(row, rows.samples_of(row))
    shards = [flat.finished(first_row=0, num_rows=NUM_ROWS) for flat in (at_once, alone)]
    for name in ("tokens", "labels", "trained", "lengths", "rows", "left_out", "loss_weights"):
        first, second = (getattr(shard, name) for shard in shards)
        assert (first is None) == (second is None), name
        assert first is None or np.array_equal(first, second), name
    assert shards[0].counts == shards[1].counts


def test_arrays_of_other_kinds_are_taken_as_lists_are() -> None:
    flat = FlatSamples(name="rows", vocab_size=None)
    kinds = [(np.uint32, np.bool_), (np.int64, np.bool_), (np.uint32, np.uint8), (np.uint16, np.int64)]
    for row, (ids, flags) in enumerate(kinds):
        flat.add_row(row, [{"tokens": np.array([5, 6, 7], dtype=ids), "mask": np.array([1, 0, 0], dtype=flags)}])
    shard = flat.finished(first_row=0, num_rows=len(kinds))
    assert shard.tokens.tolist() == [5, 6, 7] * len(kinds)
    assert shard.trained is not None
    assert shard.trained.tolist() == [True, True, False] * len(kinds)
