"""Graphs that Grain runs go on in a new process as if they had never stopped."""

import json
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grain
import pytest

SCRIPT = Path(__file__).with_name("restored_graphs.py")
STEPS = (1, 6, 23)


@pytest.fixture(scope="module")
def run() -> tuple[list[Any], list[Any]]:
    """States (graph, cap on documents, state, rows that follow), and what another process gives after each."""
    script = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
    states: list[Any] = []
    for name, graph in script.graphs().items():
        for cap in (None, 3):
            rows, done = script.rows_of(graph, cap), 0
            for step in STEPS:
                for _ in range(step):
                    next(rows)
                done += step
                states.append((name, cap, rows.get_state(), done))
    taken = []
    for name, cap, state, done in states:
        rows = script.rows_of(script.graphs()[name], cap)
        for _ in range(done):
            next(rows)
        taken.append((name, cap, json.loads(json.dumps(state)), [script.as_list(next(rows)) for _ in range(25)]))
    asked = json.dumps([(name, cap, state) for name, cap, state, _ in taken])
    process = subprocess.run(
        [sys.executable, str(SCRIPT)], input=asked, capture_output=True, text=True, check=False, timeout=300
    )
    assert process.returncode == 0, process.stderr
    return taken, json.loads(process.stdout)


def test_every_graph_goes_on_in_a_new_process_with_part_full_rows(run: tuple[list[Any], list[Any]]) -> None:
    taken, given = run
    assert len(taken) == len(given) == 5 * 2 * len(STEPS)
    wrong = [(name, cap) for (name, cap, _, expected), found in zip(taken, given, strict=True) if found != expected]
    assert wrong == []


@pytest.mark.parametrize("name", ["mixed", "first_fit", "concat", "nested", "web"])
def test_grains_own_check_of_checkpoints_passes(name: str) -> None:
    script = SimpleNamespace(**runpy.run_path(str(SCRIPT)))
    rows = script.dataset_of(script.graphs()[name])
    plain = rows.map(script.as_dict) if isinstance(rows, grain.IterDataset) else rows.to_iter_dataset()
    grain.experimental.assert_equal_output_after_checkpoint(grain.experimental.LimitIterDataset(plain, 12))


def test_a_state_holds_no_tokens(run: tuple[list[Any], list[Any]]) -> None:
    sizes = {name: len(json.dumps(state)) for name, _, state, _ in run[0]}
    assert max(sizes.values()) < 1024, sizes
