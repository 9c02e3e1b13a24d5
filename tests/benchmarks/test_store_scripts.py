"""The scripts that measure the token store still run on today's torchpipe. Their times are not looked at."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

NUM_ROWS, NUM_TOKENS = 60, 200_000


class Inputs(NamedTuple):
    """A folder of inputs, and a config whose store is in it."""

    run: Callable[..., Any]
    folder: Path
    config: Path
    store: Path


@pytest.fixture(scope="module")
def inputs(
    run_script: Callable[..., Any],
    shared_data: Path,
    llama3_tokenizer_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Inputs:
    folder = tmp_path_factory.mktemp("store") / "inputs"
    made = run_script("store_inputs.py", folder, shared_data, str(NUM_ROWS), str(NUM_TOKENS))
    return Inputs(run_script, folder, *map(Path, made))


def test_a_large_store_is_written_of_samples_that_were_tokenised(inputs: Inputs):
    manifest = json.loads((inputs.store / "manifest.json").read_text(encoding="utf-8"))
    lengths = np.load(inputs.folder / "samples" / "lengths.npy")
    assert manifest["num_tokens"] >= NUM_TOKENS
    assert manifest["num_tokens"] % int(lengths.sum()) == 0
    assert len(lengths) == NUM_ROWS


def test_rows_in_memory_and_in_arrow_give_the_same_tokens_and_tiktoken_those_without_control_tokens(inputs: Inputs):
    ways = ("torchpipe", "torchpipe-arrow", "tiktoken")
    tokens = [inputs.run("store_rows.py", way, inputs.folder, "20")["tokens"] for way in ways]
    assert tokens[0] == tokens[1] > tokens[2] > 1000


def test_a_first_build_packs_all_tokens(inputs: Inputs):
    measured = inputs.run("store_build.py", "torchpipe", inputs.folder, str(NUM_ROWS))
    assert measured["tokens"] == np.load(inputs.folder / "samples" / "lengths.npy").sum()
    assert measured["wall"] > 0
    assert measured["cpu"] > 0


@pytest.mark.parametrize("way", ["torchpipe", "plan", "grain"])
def test_packing_says_how_full_packs_are(inputs: Inputs, way: str):
    measured = inputs.run("store_pack.py", way, inputs.folder)
    assert measured["tokens"] == np.load(inputs.folder / "samples" / "lengths.npy").sum()
    assert 0.5 < measured["fill"] <= 1


def test_a_second_start_imports_no_datasets(inputs: Inputs):
    measured = inputs.run("store_start.py", "start", inputs.config, alone=True)
    assert measured["shape"] == [4, 4096]
    assert measured["packs"] >= NUM_TOKENS / 4096
    assert not measured["datasets"]
    assert inputs.run("store_start.py", "imports", alone=True)["seconds"] > 0


def test_memory_is_that_of_the_rank_and_of_a_worker(inputs: Inputs):
    for arguments in (("store", inputs.store), ("nothing",)):
        measured = inputs.run("store_memory.py", *arguments, alone=True)
        assert min(measured["rank"], measured["worker"]) > 2**20


@pytest.mark.parametrize("way", ["sorted", "streamed"])
def test_plans_are_timed_with_their_fill(inputs: Inputs, way: str):
    measured = inputs.run("store_plan.py", way, inputs.folder / "samples" / "lengths.npy", "2000")
    assert 0.9 < measured["fill"] <= 1
    assert measured["added"] >= 0


def test_batches_are_timed(inputs: Inputs):
    assert inputs.run("store_batches.py", "torchpipe", inputs.folder)["torchpipe"] > 0


@pytest.mark.parametrize("num_workers", ["0", "2"])
def test_waiting_is_a_share_of_the_steps(inputs: Inputs, num_workers: str):
    measured = inputs.run("store_waiting.py", inputs.store, "3", num_workers)
    assert 0 < measured["share"] < 1
    assert measured["steps"] == 3


def test_balance_is_compared_for_both_costs(inputs: Inputs):
    measured = inputs.run("store_balance.py", inputs.folder / "mixed_lengths.npy", "3000")
    assert {"8B, 1", "attention, 1"} <= measured["spreads"].keys()
    for spreads in measured["spreads"].values():
        assert spreads.keys() == {"within_step", "steps", "none", "random"}
        assert spreads["within_step"]["worst"] <= spreads["random"]["worst"]


def test_measures_are_chosen_by_how_their_names_begin(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    chosen = runpy.run_path(str(repository / "benchmarks" / "run.py"))["chosen"]
    assert [measure.__name__ for measure in chosen("store_p")] == ["store_pack", "store_plan"]
    assert len(chosen("")) > 10
    with pytest.raises(SystemExit, match=r"No measure begins with 'stoer'\. There are training_steps, .*store_rows"):
        chosen("stoer")


@pytest.mark.parametrize("way", ["items", "packs"])
def test_a_mix_gives_what_one_source_of_its_rows_gives(inputs: Inputs, way: str):
    measured = inputs.run("mix.py", way, inputs.folder, str(NUM_ROWS))
    assert measured["mix"]["gave"] == measured["one"]["gave"] > 10_000
    assert measured["mix"]["seconds"] > 0
