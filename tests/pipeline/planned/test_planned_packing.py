"""Rows of several documents: where each begins, how many there may be, and what becomes of long ones."""

from typing import Any

import pytest
import torch
from numbered_graphs import Consecutive, Loader, pairs, single

from torchpipe.errors import DataError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    FirstFitPackingConfig,
    SingleDatasetConfig,
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


@pytest.mark.parametrize(
    ("overflow", "num_tokens"), [("drop", 4 * 9), ("truncate", 4 * 9 + 2 * 16), ("split", 4 * 9 + 2 * 39)]
)
def test_long_documents_go_by_policy_and_are_counted(overflow: Any, num_tokens: int, loader: Loader) -> None:
    rows = [[1000 * row, 10 if row % 3 else 40] for row in range(6)]
    source = SingleDatasetConfig(source=rows, processor=Consecutive.Config())
    packed = loader(FirstFitPackingConfig(dataset=source, overflow=overflow), length=16)
    assert pairs(list(packed)).total() == num_tokens
    told = packed.ledger["FirstFitPackingConfig"]
    counted = {"drop": ("too_long", 2), "truncate": ("truncated_tokens", 46), "split": ("split", 2)}[overflow]
    assert told[counted[0]] == counted[1]


def test_a_long_document_is_an_error_where_that_is_asked_for(loader: Loader) -> None:
    source = SingleDatasetConfig(source=[[0, 40], [500, 5], [1000, 40]], processor=Consecutive.Config())
    with pytest.raises(DataError, match=r"2 rows are too long for rows of 16 tokens and documents of 16"):
        loader(FirstFitPackingConfig(dataset=source, overflow="error"), length=16)
