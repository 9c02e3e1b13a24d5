"""The scripts that measure the declarative pipeline still run on today's torchpipe. Their times are not looked at."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

NUM_DOCUMENTS = 300


class Documents(NamedTuple):
    """A folder of documents, the cache of their store, how many tokens they have, and the planned pass over them."""

    run: Callable[..., Any]
    folder: Path
    cache: Path
    tokens: int
    planned: Any


@pytest.fixture(scope="module")
def documents(run_script: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Documents:
    place = tmp_path_factory.mktemp("pipeline")
    folder, cache = place / "documents", place / "cache"
    tokens = run_script("pipeline_documents.py", folder, str(NUM_DOCUMENTS))["tokens"]
    planned = run_script("pipeline_rows.py", "planned", folder, cache, "0")
    return Documents(run_script, folder, cache, tokens, planned)


def test_planned_rows_hold_all_tokens_and_the_state_is_small(documents: Documents) -> None:
    planned = documents.planned
    assert planned["rows"] * 4096 * planned["fill"] == pytest.approx(documents.tokens)
    assert planned["build_cpu"] > 0
    assert planned["rows_cpu"] > 0
    assert planned["state"]["epoch"] == 1
    assert len(json.dumps(planned["state"])) < 1024


@pytest.mark.parametrize(("way", "num_threads"), [("stages", "0"), ("torchtitan", "2")])
def test_grain_alone_packs_the_same_tokens(documents: Documents, way: str, num_threads: str) -> None:
    measured = documents.run("pipeline_grain.py", way, documents.folder, num_threads)
    assert measured["rows"] * 4096 * measured["fill"] == pytest.approx(documents.tokens)
    assert measured["rows"] >= documents.planned["rows"]


def test_a_restore_is_timed(documents: Documents) -> None:
    state = json.dumps({**documents.planned["state"], "epoch": 3, "row": 5})
    measured = documents.run("pipeline_rows.py", "restore", documents.folder, documents.cache, state)
    assert 0 < measured["tokens"] <= 4096
    assert measured["restore_wall"] > 0


def test_memory_is_that_of_the_rank_and_of_a_worker(documents: Documents) -> None:
    measured = documents.run("pipeline_rows.py", "memory", documents.folder, documents.cache, "5", alone=True)
    assert min(measured.values()) > 2**20


def test_a_plan_is_made_and_then_found(run_script: Callable[..., Any], tmp_path: Path) -> None:
    folder = tmp_path / "many"
    assert run_script("pipeline_plan.py", "write", folder, "30000")["samples"] == 30_000
    made, found = (run_script("pipeline_plan.py", "plan", folder) for _ in range(2))
    assert made["spans"] == found["spans"] == 30_000
    assert (made["rows"], made["of_first"]) == (found["rows"], found["of_first"])
    assert run_script("pipeline_plan.py", "forget", folder) == {}
    assert list((folder / "store" / "plans").glob("*")) == []
