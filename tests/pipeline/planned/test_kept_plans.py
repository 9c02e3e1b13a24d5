"""The rows of large graphs lie in files beside a store: the same rows, one copy for all processes, none left behind."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from numbered_graphs import Loader, planned

from torchpipe.pipeline import FirstFitPackingConfig, GrainDataLoader
from torchpipe.pipeline.planned.graph import PlannedGraph

NUM_ROWS = 50


@pytest.fixture
def loader(loader: Loader) -> Loader:
    """Function (the config's fields) -> a loader of documents that are packed."""
    return partial(loader, FirstFitPackingConfig(dataset=planned(NUM_ROWS)), repeat=True)


@pytest.fixture
def is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treats graphs of so few samples as large ones."""
    monkeypatch.setattr("torchpipe.pipeline.planned.graph.FEWEST_SAMPLES", NUM_ROWS)


def graph_of(loader: GrainDataLoader) -> PlannedGraph:
    source: Any = loader.rows
    return source.graph


def plans_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("**/plans/*") if not path.name.startswith("."))


@pytest.fixture
def in_memory(loader: Loader) -> list[str]:
    """The fingerprints of the first epochs' rows, planned in memory."""
    graph = graph_of(loader())
    return [graph.rows(epoch).fingerprint for epoch in range(4)]


def test_rows_in_a_file_are_those_in_memory(
    loader: Loader, in_memory: list[str], is_large: None, tmp_path: Path
) -> None:
    assert plans_in(tmp_path) == []  # a graph of few samples keeps none
    for _ in range(2):
        rows = [graph_of(loader()).rows(epoch) for epoch in range(4)]
        assert [of_epoch.fingerprint for of_epoch in rows] == in_memory
        assert all("folder" in vars(of_epoch) for of_epoch in rows)


def test_plans_of_epochs_that_are_over_are_removed(loader: Loader, is_large: None, tmp_path: Path) -> None:
    assert sum(1 for _ in loader(num_epochs=4)) > 4
    assert len(plans_in(tmp_path)) == 2


def test_other_orders_have_other_plans(loader: Loader, is_large: None, tmp_path: Path) -> None:
    for options in ({}, {"seed": 7}, {"shuffle": False}, {"max_num_documents": 3}, {}):
        graph_of(loader(**options)).rows(0)
    assert len(plans_in(tmp_path)) == 4


def test_a_process_that_is_given_the_graph_maps_the_same_plan(loader: Loader, is_large: None, tmp_path: Path) -> None:
    graph = graph_of(loader())
    rows = graph.rows(0)
    there = pickle.loads(pickle.dumps(graph)).rows(0)
    assert there.fingerprint == rows.fingerprint
    assert vars(there)["folder"] == vars(rows)["folder"]
    assert len(pickle.dumps(rows)) < 1000


def test_workers_make_the_batches_of_rows_in_files(loader: Loader, is_large: None) -> None:
    def batches(**options: Any) -> list[list[int]]:
        made = loader(num_epochs=2, **options)
        try:
            return [batch["input"].tolist() for batch, _ in made]
        finally:
            made.close()

    assert batches(num_workers=2) == batches()
