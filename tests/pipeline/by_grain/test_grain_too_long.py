"""Of a node that drops much for its length it is said so, once, where Grain runs the graph."""

import warnings
from itertools import islice
from typing import Any

import pytest
from numbered_graphs import Cropped, Loader, stream

from torchpipe.pipeline import FirstFitPackingConfig, SingleDatasetConfig


def packed(rows: Any, **options: Any) -> FirstFitPackingConfig:
    return FirstFitPackingConfig(dataset=rows, name="packs", **options)


def test_at_the_end_of_a_pass_a_node_that_dropped_much_is_named(loader: Loader) -> None:
    with pytest.warns(UserWarning, match="^packs: ") as warned:
        list(loader(packed(stream(40)), length=16, repeat=False, num_logical_shards=3))  # a fourth is too long
    assert len(warned) == 1, "of three parts one speaks"
    said = str(warned[0].message)
    assert said.startswith("packs: ")
    assert "% of the tokens are dropped, in documents that are too long: " in said
    assert "set overflow to 'truncate' or 'split'" in said


def test_a_run_without_end_says_so_once_when_a_thousand_rows_were_seen(loader: Loader) -> None:
    rows = loader(packed(stream(40)), length=16, num_prefetch_batches=0)
    batches = iter(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        while rows.ledger.get("packs", {"rows_in": 0})["rows_in"] < 900:
            next(batches)
    with pytest.warns(UserWarning, match="^packs: ") as warned:
        list(islice(batches, 300))
    assert len(warned) == 1
    rows.close()


@pytest.mark.parametrize("options", [{"overflow": "truncate"}, {"overflow": "split"}])
def test_of_rows_that_are_cut_as_asked_for_nothing_is_said(options: dict[str, Any], loader: Loader) -> None:
    list(loader(packed(stream(40), **options), length=16, repeat=False))


def test_a_small_part_is_dropped_without_a_word(loader: Loader) -> None:
    rows = [[100 * row, 10] for row in range(60)] + [[9000, 40]]
    few = SingleDatasetConfig(source=rows, processor=Cropped.Config(), name="few")
    assert len(list(loader(packed(few), length=16, repeat=False))) > 1
