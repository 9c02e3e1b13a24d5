"""Rows of several documents: where each begins, how many there may be, and what becomes of long ones."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numbered_graphs import Consecutive, Loader, pairs, single

from torchpipe.errors import DataError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    SampleProcessor,
    SingleDatasetConfig,
    TextSequence,
    WeightedDataset,
)


def test_documents_of_a_row_begin_at_position_0_and_padding_is_marked(loader: Loader) -> None:
    (batch, labels), *_ = loader(FirstFitPackingConfig(dataset=single(9, longest=20)), shuffle=False)
    begins = torch.nonzero(batch["positions"] == 0).flatten().tolist()
    kept = [int(batch["input"][begin]) for begin in begins if not batch["padding_mask"][begin]]
    assert len(kept) > 1
    assert {first % 100 for first in kept} == {0}
    assert (labels[batch["padding_mask"]] == -100).all()


def test_a_row_holds_no_more_documents_than_the_cap(loader: Loader) -> None:
    for graph in (FirstFitPackingConfig, ConcatThenSplitPackingConfig):
        batches = list(loader(graph(dataset=single(60, longest=9)), max_num_documents=3))
        for batch, _ in batches:
            kept = ~batch["padding_mask"]
            assert int((batch["positions"][kept] == 0).sum()) <= 3
            assert len(batch["cu_seqlens"]) == 3 + 1 + 1


@pytest.mark.filterwarnings("ignore:FirstFitPackingConfig of .* are dropped")
@pytest.mark.parametrize(
    ("overflow", "num_tokens"), [("drop", 4 * 9), ("truncate", 4 * 9 + 2 * 16), ("split", 4 * 9 + 2 * 39)]
)
def test_long_documents_go_by_policy_and_are_counted(overflow: Any, num_tokens: int, loader: Loader) -> None:
    rows = [[1000 * row, 10 if row % 3 else 40] for row in range(6)]
    source = SingleDatasetConfig(source=rows, processor=Consecutive.Config())
    packed = loader(FirstFitPackingConfig(dataset=source, overflow=overflow), length=16)
    assert pairs(list(packed)).total() == num_tokens
    told = packed.ledger["FirstFitPackingConfig"]
    assert told["rows_left_out"] == ({"too_long": 2} if overflow == "drop" else {})
    tokens_left_out = {"drop": {"too_long": 78}, "truncate": {"truncated": 46}, "split": {}}[overflow]
    assert told["tokens_left_out"] == tokens_left_out
    assert told["rows_split"] == (2 if overflow == "split" else 0)
    assert told["tokens_in"] == told["tokens_out"] + sum(tokens_left_out.values()) == 4 * 9 + 2 * 39
    assert told["tokens_out"] + told["padding"] == 16 * told["rows_out"]


def test_a_long_document_is_an_error_where_that_is_asked_for(loader: Loader) -> None:
    source = SingleDatasetConfig(source=[[0, 40], [500, 5], [1000, 40]], processor=Consecutive.Config())
    with pytest.raises(DataError, match=r"2 rows too long for rows of 16 tokens and documents of 16"):
        loader(FirstFitPackingConfig(dataset=source, overflow="error"), length=16)


def lengths(*lengths: int, name: str) -> SingleDatasetConfig:
    rows = [[1000 * row, length] for row, length in enumerate(lengths)]
    return SingleDatasetConfig(source=rows, processor=Consecutive.Config(), name=name)


def test_a_source_that_is_mostly_dropped_for_its_length_is_named_with_its_share_and_what_to_do(loader: Loader) -> None:
    mix = DatasetMixConfig(
        datasets=[
            WeightedDataset(dataset=lengths(*[10] * 19, 40, name="chats")),  # 39 of 210 tokens
            WeightedDataset(dataset=lengths(*[10] * 5, name="short")),
        ]
    )
    with pytest.warns(UserWarning, match="^packs of chats: ") as warned:
        loader(FirstFitPackingConfig(dataset=mix, name="packs"), length=16)
    assert len(warned) == 1
    said = str(warned[0].message)
    assert said.startswith("packs of chats: 19% of the tokens are dropped, in documents that are too long: 39 of 210.")
    assert "Raise max_context_length or num_tokens_per_batch, or set overflow to 'truncate' or 'split'" in said


@pytest.mark.parametrize(
    ("overflow", "rows"),
    [("truncate", [10, 40]), ("split", [10, 40]), ("drop", [10] * 99 + [20])],  # 2% of the tokens, 1% of the rows
)
def test_of_a_source_that_is_dropped_in_small_part_or_cut_as_asked_for_nothing_is_said(
    overflow: Any, rows: list[int], loader: Loader
) -> None:
    graph = FirstFitPackingConfig(dataset=lengths(*rows, name="chats"), overflow=overflow)
    assert loader(graph, length=16).ledger["FirstFitPackingConfig"]  # a warning is an error here


def test_rows_of_several_documents_that_have_no_room_in_a_row_are_dropped_with_a_warning(loader: Loader) -> None:
    class Pairs(SampleProcessor):
        def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence:
            positions = np.concatenate([np.arange(sample), np.arange(sample)])
            return TextSequence(input_ids=positions, labels=np.append(positions[1:], -100), positions=positions)

    graph = FirstFitPackingConfig(
        dataset=SingleDatasetConfig(source=[3, 9, 4, 9], processor=Pairs.Config(), name="two")
    )
    with pytest.warns(UserWarning, match=r"of two: 72% of the tokens are dropped.*: 36 of 50"):
        loader(graph, length=16)


class InFours(Consecutive):
    """A row ``[first, tokens]`` to documents of four consecutive ids each."""

    def __call__(self, sample: Sequence[int], rng: np.random.Generator) -> TextSequence:
        first, num_tokens = sample
        ids = np.arange(first, first + num_tokens)
        return TextSequence(input_ids=ids, labels=ids + 1, positions=(ids - first) % 4)

    def fingerprint(self) -> str:
        return "fours of consecutive ids"


@pytest.mark.parametrize(
    ("overflow", "num_tokens", "left_out", "num_split"),
    [("drop", 4, {"over_cap": 24}, 0), ("truncate", 4 + 2 * 8, {"truncated": 8}, 0), ("split", 4 + 2 * 12, {}, 2)],
)
def test_rows_of_too_many_documents_go_by_policy_too(
    overflow: Any, num_tokens: int, left_out: dict[str, int], num_split: int, loader: Loader
) -> None:
    source = SingleDatasetConfig(source=[[0, 4], [100, 12], [200, 12]], processor=InFours.Config())
    packed = loader(FirstFitPackingConfig(dataset=source, overflow=overflow), max_num_documents=2)
    batches = list(packed)
    assert pairs(batches).total() == num_tokens
    assert all(int((batch["positions"][~batch["padding_mask"]] == 0).sum()) <= 2 for batch, _ in batches)
    told = packed.ledger["FirstFitPackingConfig"]
    assert (told["tokens_left_out"], told["rows_split"]) == (left_out, num_split)


def test_rows_of_too_many_documents_are_an_error_where_that_is_asked_for(loader: Loader) -> None:
    source = SingleDatasetConfig(source=[[0, 4], [100, 12]], processor=InFours.Config())
    with pytest.raises(DataError, match=r"1 row has more documents than max_num_documents=2; one has 3\. Raise it"):
        loader(FirstFitPackingConfig(dataset=source, overflow="error"), max_num_documents=2)


def test_a_document_longer_than_the_longest_begins_anew_where_rows_are_not_packed(tmp_path: Path) -> None:
    rows = SingleDatasetConfig(source=[[0, 11]], processor=Consecutive.Config())
    config = GrainDataLoader.Config(dataset=rows, cache_dir=str(tmp_path), num_proc=1, repeat=False)
    one, two = (
        next(iter(replace(config, planned=way).build(tokenizer=None, max_context_length=4, num_tokens_per_batch=12)))
        for way in (True, False)
    )
    assert one[0]["positions"].tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 1] == two[0]["positions"].tolist()


@pytest.mark.parametrize("shuffle", [False, True])
def test_whole_documents_fill_a_batch_in_the_order_in_which_they_come(shuffle: bool, loader: Loader) -> None:
    documents, options = single(103), {"shuffle": shuffle, "num_epochs": 2}
    alone = [batch["input"][~batch["padding_mask"]].tolist() for batch, _ in loader(documents, **options)]
    in_order = FirstFitPackingConfig(dataset=documents, strategy="next_fit")
    rows = [batch["input"][~batch["padding_mask"]].tolist() for batch, _ in loader(in_order, **options)]
    assert [token for row in rows for token in row] == [token for document in alone for token in document]
    lengths = {document[0]: len(document) for document in alone}
    assert all(row[0] in lengths for row in rows)  # no document is cut
    last_of_first_epoch = len(list(loader(in_order, shuffle=shuffle))) - 1
    for k, (row, then) in enumerate(itertools.pairwise(rows)):
        assert len(row) + lengths[then[0]] > 64 or k == last_of_first_epoch
    assert len(rows) < len(alone) / 3
