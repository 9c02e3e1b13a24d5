"""Rows of a planned graph go to ranks where they even out what these cost, and steps keep their rows."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numbered_graphs import LENGTH, Consecutive, Loader

from torchpipe.data.packing import CostModel
from torchpipe.loading.balance import PADDING
from torchpipe.pipeline import (
    FirstFitPackingConfig,
    GrainDataLoader,
    GraphSteps,
    SingleDatasetConfig,
)
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.planned.row_steps import ROW_BITS, Cursor, RowSteps

Numbers = Counter[int]

ATTENTION = CostModel(per_token=0, per_pair=1)
"""What rows of as many tokens differ in."""


def documents(number: int) -> SingleDatasetConfig:
    """Documents of a few tokens and of many, so that rows of as many tokens hold from one document to ten."""
    rows = [[100 * row, 8 if row % 7 else 40 + row % 20] for row in range(number)]
    return SingleDatasetConfig(source=rows, processor=Consecutive.Config(), name="documents")


def planned(loader: GrainDataLoader) -> PlannedBatches:
    assert isinstance(loader.rows, PlannedBatches)
    return loader.rows


def layouts(loader: GrainDataLoader, rows_a_step: int) -> Iterator[np.ndarray]:
    """The numbers of the rows of each step, int64 [ranks, accumulation, rows a batch]."""
    return (numbers for numbers, _ in planned(loader).steps(global_batch_size=rows_a_step))


def spread_of(loader: GrainDataLoader, rows_a_step: int) -> float:
    """The costliest rank over the mean of all, on average over whole steps."""
    costs = np.append(planned(loader).graph.costs(0, rows_a_batch=1, cost=ATTENTION), 0)
    whole = [numbers for numbers in layouts(loader, rows_a_step) if (numbers != PADDING).all()]
    ranks = np.array([costs[numbers].sum(axis=(1, 2)) for numbers in whole])
    return float((ranks.max(axis=1) / ranks.mean(axis=1)).mean())


@pytest.mark.parametrize(("world_size", "rows_a_rank"), [(4, 4), (8, 4), (4, 8)])
def test_ranks_of_a_step_cost_alike(world_size: int, rows_a_rank: int, loader: Loader) -> None:
    graph = FirstFitPackingConfig(dataset=documents(2000))
    found = {
        balance: spread_of(loader(graph, world_size=world_size, balance=balance), world_size * rows_a_rank)
        for balance in ("none", "within_step")
    }
    assert found["within_step"] - 1 < (found["none"] - 1) / 4


def trained_of_steps(by_rank: list[GraphSteps], *, most: int | None = None) -> list[Numbers]:
    """The trained labels of each step, of all ranks."""
    steps = [[labels_of(step.micro_batches) for step in islice(rank.until(), most)] for rank in by_rank]
    return [sum(ranks, Counter()) for ranks in zip(*steps, strict=True)]


def labels_of(micro_batches: tuple[Any, ...]) -> Numbers:
    labels = (item["labels"] for items in micro_batches for item in items)
    return Counter(label for row in labels for label in row[row != -100].tolist())


def steps_of(loader: Loader, graph: Any, world_size: int, **options: Any) -> list[GraphSteps]:
    loaders = [loader(graph, rank=rank, world_size=world_size, num_epochs=3, **options) for rank in range(world_size)]
    return [GraphSteps(one, global_batch_size=10, collate_fn=list) for one in loaders]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(("before", "after"), [(1, 4), (2, 3), (4, 1), (3, 2)])
def test_a_run_goes_on_with_the_same_rows_a_step_on_another_number_of_ranks(
    before: int, after: int, loader: Loader
) -> None:
    graph = FirstFitPackingConfig(dataset=documents(150))
    whole = trained_of_steps(steps_of(loader, graph, 1, balance="none"))
    for done in (1, len(whole) // 2):
        first = steps_of(loader, graph, before)
        given = trained_of_steps(first, most=done)
        states = [json.loads(json.dumps(one.state_dict())) for one in first]
        assert all(state == states[0] for state in states)
        rest = steps_of(loader, graph, after, num_workers=1 if done == 1 else 0)
        for one in rest:
            one.load_state_dict(states[0])
        assert [*given, *trained_of_steps(rest)] == whole


def test_rows_that_are_told_are_those_of_the_batches(loader: Loader) -> None:
    rows = planned(loader(FirstFitPackingConfig(dataset=documents(200)), rank=1, world_size=2))
    moved = 0
    for numbers, batches in rows.steps(global_batch_size=6):
        for number, (inputs, _) in zip(numbers[1].ravel().tolist(), batches, strict=True):
            if number != PADDING:
                assert inputs["input"].tolist() == rows.dataset[number].input_ids.tolist()
        real = numbers.transpose(1, 0, 2).ravel()
        moved += (np.diff(real[real != PADDING]) < 0).any()
    assert moved


@pytest.mark.parametrize("world_size", [1, 3])
def test_batches_of_a_loop_with_one_row_a_rank_stay_in_order(world_size: int, loader: Loader) -> None:
    graph = FirstFitPackingConfig(dataset=documents(120))
    for rows_a_step in (world_size, 4 if world_size == 1 else world_size):
        for numbers in layouts(loader(graph, world_size=world_size), rows_a_step):
            row = numbers.transpose(1, 0, 2).ravel()
            assert (np.diff(row[row != PADDING]) == 1).all()


def test_a_state_of_rows_in_order_goes_on_with_ranks_that_are_evened_out(loader: Loader) -> None:
    graph = FirstFitPackingConfig(dataset=documents(60))
    one, other = loader(graph, balance="none"), loader(graph)
    next(iter(one))
    other.load_state_dict(one.state_dict())
    assert other.state_dict() == one.state_dict()


def test_some_rows_cost_what_they_do_among_all(loader: Loader) -> None:
    graph = planned(loader(FirstFitPackingConfig(dataset=documents(300)))).graph
    some = np.array([7, 2, 11])
    assert graph.costs(1, some, rows_a_batch=1).tolist() == graph.costs(1, rows_a_batch=1)[some].tolist()


def test_the_padding_that_fills_a_batch_costs_too(loader: Loader) -> None:
    graph = planned(loader(documents(9))).graph
    documents_of = graph.rows(0).num_tokens
    pairs = [int(n * (n + 1) + (LENGTH - n) * (LENGTH - n + 1)) // 2 for n in documents_of]
    assert graph.costs(0, rows_a_batch=1, cost=ATTENTION).tolist() == pairs
    alone = [int(n * (n + 1)) // 2 for n in documents_of]
    assert graph.costs(0, rows_a_batch=2, cost=ATTENTION).tolist() == alone


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=3),
    rows_a_step=st.integers(1, 20),
    world_size=st.integers(1, 5),
    batch_size=st.integers(1, 3),
)
def test_a_layout_has_the_rows_of_its_step_each_once(
    sizes: list[int], rows_a_step: int, world_size: int, batch_size: int
) -> None:
    def costs(epoch: int, rows: np.ndarray) -> np.ndarray:
        assert len(rows) <= rows_a_step  # those of the step that is asked for, and no others
        return (rows * 7 + epoch) % 11

    steps = RowSteps(
        lambda epoch: sizes[epoch],
        start=Cursor(0, 0),
        num_epochs=len(sizes),
        global_batch_size=rows_a_step,
        costs=costs,
    )
    step, given = 0, []
    while steps.has(0, step):
        layout = steps.layout(0, step, world_size=world_size, batch_size=batch_size)
        rows = np.sort(layout[layout != PADDING])
        assert rows.tolist() == steps.packs(0, step).tolist()
        given += rows.tolist()
        step += 1
    assert given == [epoch << ROW_BITS | row for epoch, size in enumerate(sizes) for row in range(size)]
