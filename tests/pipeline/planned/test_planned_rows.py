"""Graphs that are planned: each row once, and the same rows for any number of ranks and workers."""

import pickle
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grain
import numpy as np
import pytest
from numbered_graphs import Consecutive, Loader, equal, in_run_order, pairs, pairs_of_rows, rows_of, single

from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetConcatConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    SingleDatasetConfig,
    TextSequence,
    WeightedDataset,
)
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.planned.graph import PlannedGraph
from torchpipe.pipeline.planned.row_steps import ROW_BITS, Cursor, RowSteps

GRAPHS = {
    "unpacked": lambda rows: rows,
    "first fit": lambda rows: FirstFitPackingConfig(dataset=rows),
    "concatenated": lambda rows: ConcatThenSplitPackingConfig(dataset=rows, last_row="pad"),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
def test_every_row_is_there_once_and_all_ranks_end_together(graph: Any, world_size: int, loader: Loader) -> None:
    by_rank = [list(loader(graph(single(103)), rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert len({len(batches) for batches in by_rank}) == 1
    assert pairs(in_run_order(by_rank)) == pairs_of_rows(rows_of(103))
    assert all(batch["num_valid_tokens"] == int((labels != -100).sum()) for batch, labels in in_run_order(by_rank))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_103_rows_over_4_ranks_and_3_workers_each_are_there_once(loader: Loader) -> None:
    by_rank = [list(loader(single(103, longest=20), rank=rank, world_size=4, num_workers=3)) for rank in range(4)]
    assert [len(batches) for batches in by_rank] == [25] * 4  # 5 rows have one token, and become nothing
    assert pairs(in_run_order(by_rank)) == pairs_of_rows(rows_of(103, longest=20))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_batches_do_not_depend_on_the_number_of_workers(num_workers: int, loader: Loader) -> None:
    graph = FirstFitPackingConfig(dataset=single(60))
    assert equal(list(loader(graph, num_workers=num_workers)), list(loader(graph, num_prefetch_batches=0)))


def test_threads_that_ask_for_rows_at_once_get_the_same_ones(loader: Loader) -> None:
    def places(graph: PlannedGraph) -> list[int]:
        steps = RowSteps(graph.num_rows, start=Cursor(0, 0), num_epochs=None, global_batch_size=3)
        with ThreadPoolExecutor(8) as pool:
            return [int(row) for found in pool.map(lambda step: steps.packs(0, step), range(200)) for row in found]

    rows = loader(FirstFitPackingConfig(dataset=single(9)), repeat=True)
    assert isinstance(rows.rows, PlannedBatches)
    sizes = [len(rows.rows.graph.rows(epoch)) for epoch in range(600)]
    expected = [epoch << ROW_BITS | row for epoch, size in enumerate(sizes) for row in range(size)]
    for _ in range(5):
        assert places(rows.rows.graph) == expected[:600]


def test_rows_are_in_their_order_without_shuffle(loader: Loader) -> None:
    found = [batch["input"][0].item() for batch, _ in loader(single(6, longest=5), shuffle=False)]
    assert found == [first for first, number in rows_of(6, longest=5) if number > 1]


def test_a_child_three_times_in_a_concatenation_gives_its_rows_three_times(loader: Loader) -> None:
    child = single(10)
    found = pairs(list(loader(DatasetConcatConfig(datasets=(child, child, single(5, first=10**5), child)))))
    thrice = {pair: 3 * count for pair, count in pairs_of_rows(rows_of(10)).items()}
    assert found == Counter(thrice) + pairs_of_rows(rows_of(5, first=10**5))


def test_what_became_of_every_row_is_counted(loader: Loader) -> None:
    source = SingleDatasetConfig(
        source=rows_of(50),
        processor=Consecutive.Config(),
        pre_filters=(is_even,),
        post_filters=(is_short,),
        name="rows",
    )
    ledger = loader(ConcatThenSplitPackingConfig(dataset=source)).ledger
    told = ledger["rows"]
    assert told["rows_in"] == 50 == told["rows_out"] + sum(told["rows_left_out"].values())
    assert told["rows_left_out"].keys() == {"filtered", "dropped"}
    packed = ledger["ConcatThenSplitPackingConfig"]
    assert packed["rows_in"] == told["rows_out"]
    assert packed["tokens_left_out"]["last_row"] > 0
    assert packed["tokens_in"] == packed["tokens_out"] + packed["tokens_left_out"]["last_row"]


def is_even(row: Sequence[int]) -> bool:
    return row[0] // 100 % 2 == 0


def is_short(sequence: TextSequence) -> bool:
    return len(sequence.input_ids) < 20


def test_a_graph_of_empty_sources_is_a_sentence(loader: Loader) -> None:
    with pytest.raises(DataError, match=r"No row is left of the graph \(nothing: it has no rows\)"):
        loader(SingleDatasetConfig(source=[], processor=Consecutive.Config(), name="nothing"))


def test_a_source_that_is_filtered_out_is_a_sentence_and_is_left_out_of_a_mix(loader: Loader) -> None:
    nothing = SingleDatasetConfig(
        source=rows_of(5),
        processor=Consecutive.Config(),
        pre_filters=(keeps_none,),
        name="nothing",
    )
    with pytest.raises(
        DataError, match=r"No row is left of the graph \(nothing: 5 rows in, 0 out; 5 filtered\). Check"
    ):
        loader(nothing)
    mix = DatasetMixConfig(datasets=(WeightedDataset(dataset=nothing), WeightedDataset(dataset=single(5))))
    with pytest.warns(UserWarning, match="Left out of the mix DatasetMixConfig, for they have no rows: 'nothing'"):
        assert pairs(list(loader(mix))) == pairs_of_rows(rows_of(5))


def keeps_none(row: Sequence[int]) -> bool:
    return False


def test_fewer_rows_than_ranks_give_the_others_padding(loader: Loader) -> None:
    by_rank = [list(loader(single(2), rank=rank, world_size=4)) for rank in range(4)]
    assert [len(batches) for batches in by_rank] == [1] * 4
    assert [batches[0][0]["num_valid_tokens"] for batches in by_rank] == [7, 0, 0, 0]


@pytest.mark.filterwarnings("ignore:some is tokenised for this run alone")
def test_a_row_that_a_data_set_of_grain_left_out_is_no_row(loader: Loader) -> None:
    rows = grain.MapDataset.source(rows_of(9, longest=8)).filter(lambda row: row[0] >= 300)
    found = loader(SingleDatasetConfig(source=rows, processor=Consecutive.Config(), name="some"))
    assert pairs(list(found)) == pairs_of_rows(rows_of(9, longest=8)[3:])
    assert found.ledger["some"]["rows_left_out"] == {"empty": 3, "dropped": 1}


def test_a_source_without_end_can_not_be_planned(loader: Loader) -> None:
    endless = SingleDatasetConfig(source=grain.MapDataset.source(rows_of(9)).repeat(), name="numbers")
    with pytest.raises(ConfigError, match="can't be planned: numbers has no end: it says that it has 9,223"):
        loader(endless)


def test_a_copy_of_a_plan_for_another_process_has_no_recipes(loader: Loader) -> None:
    planned = loader(single(9, name="a"))
    assert planned.why_not_planned is None
    assert isinstance(planned.rows, PlannedBatches)
    graph = planned.rows.graph
    assert graph.recipes["a"].described_source == "list"
    copied = pickle.loads(pickle.dumps(graph))
    assert copied.recipes == {}
    assert copied.num_rows(0) == graph.num_rows(0)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))
def test_rows_read_together_over_the_ends_of_epochs_are_those_read_one_by_one(graph: Any, loader: Loader) -> None:
    source = loader(graph(single(20))).rows
    assert isinstance(source, PlannedBatches)
    rows = source.dataset
    numbers = [epoch << ROW_BITS | row for epoch in range(3) for row in reversed(range(len(source.graph.rows(epoch))))]
    together = rows.__getitems__(numbers)
    assert len(together) == len(numbers)
    for one, number in zip(together, numbers, strict=True):
        alone = rows[number]
        for name in ("input_ids", "labels", "positions"):
            np.testing.assert_array_equal(getattr(one, name), getattr(alone, name))
        np.testing.assert_array_equal(one.padding_mask, alone.padding_mask)  # pyright: ignore  # None or an array


@pytest.mark.parametrize("num_prefetch_batches", [0, 2])
def test_batches_that_are_written_to_change_no_other_and_are_kept_in_their_own_size(
    num_prefetch_batches: int, loader: Loader
) -> None:
    graph = FirstFitPackingConfig(dataset=single(103))
    expected = list(loader(graph))
    found = []
    for batch, labels in loader(graph, num_prefetch_batches=num_prefetch_batches):
        found.append(({**batch, "input": batch["input"].clone()}, labels.clone()))
        assert batch["input"].untyped_storage().nbytes() == batch["input"].nbytes
        batch["input"].fill_(-1)
        labels.fill_(-1)
    assert equal(found, expected)


def test_long_rows_are_read_one_by_one(loader: Loader) -> None:
    counts = []
    for length in (64, 4096, 2**15, 2**17):
        source = loader(FirstFitPackingConfig(dataset=single(20)), length=length).rows
        assert isinstance(source, PlannedBatches)
        counts.append(source.dataset.num_read_at_once)
    assert counts == [16, 8, 1, 1]
