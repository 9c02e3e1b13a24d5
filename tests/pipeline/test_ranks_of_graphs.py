"""Loaders in real ranks: one pass ends everywhere at once, errors hang nobody, checkpoints go on on other ranks."""

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from numbered_graphs import SHORT, in_run_order, labels_of, rows_of

SCRIPT = Path(__file__).with_name("ranks_of_graphs.py")
Ranks = Callable[..., dict[str, list[Any]]]
Batches = Sequence[list[int]]


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    """Function (world size, *checks) -> what each check gave, for each rank; see ranks_of_graphs.py."""

    def run(world_size: int, *checks: str) -> dict[str, list[Any]]:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(world_size)]
        command = [sys.executable, *(launcher if world_size > 1 else []), str(SCRIPT), str(tmp_path), *checks]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        return {
            check: [
                json.loads((tmp_path / f"{check}.{world_size}.{rank}.json").read_text()) for rank in range(world_size)
            ]
            for check in checks
        }

    return run


def in_turns(by_rank: Sequence[Batches]) -> Batches:
    assert len({len(batches) for batches in by_rank}) == 1, "all ranks have the same number of batches"
    return in_run_order(by_rank)


def tokens(batches: Batches) -> Counter[int]:
    return Counter(token for batch in batches for token in batch)


@pytest.mark.sized("world_size", "ranks_of_a_pass")
def test_a_pass_of_several_ranks_gives_each_row_once_and_ends_everywhere_at_once(
    world_size: int, ranks: Ranks, tmp_path: Path
) -> None:
    found = ranks(world_size, "finite", "one_store", "failing")
    passes = {name: [of_rank[name] for of_rank in found["finite"]] for name in found["finite"][0]}
    assert len(passes) == 11
    for name, by_rank in passes.items():
        batches = [batch for batch in in_turns(by_rank) if batch]
        number = 1 if name.startswith("fewer") else 33
        if name.startswith("random"):  # a row to a batch, cropped at its begin
            assert sorted(batch[-1] for batch in batches) == [
                first + length - 1 for first, length in rows_of(number, **SHORT)
            ]
        else:
            assert tokens(batches) == labels_of(number), name
    lengths = [sum(bool(batch) for batch in batches) for batches in passes["uneven stream, thread"]]
    assert lengths == [33 - world_size + 1] + [1] * (world_size - 1), "one row each but for the first rank"
    for name in passes:
        if name.endswith("thread"):
            assert passes[name] == passes[name.replace("thread", "none")]
    assert passes["stream, worker"] == passes["stream, none"]

    assert tokens(in_turns(found["one_store"])) == labels_of(103)
    assert (tmp_path / f"calls.{world_size}").stat().st_size == 103, "each row was processed by one rank alone"

    failed = 17 % world_size  # the rank of the part that row 17 is in
    for rank, (of_build, *said, num_batches) in enumerate(found["failing"]):
        assert of_build.startswith("ValueError: "), "the builder's error, and that of those who waited for it"
        assert "the row of 1700 is bad" in of_build
        assert len(said) == 3
        for sentence in said:
            if rank == failed:
                assert sentence.startswith("ValueError: ")
                assert "the row of 1700 is bad" in sentence
            else:
                assert sentence == "DistributedError: Another rank ended with an error. Its output says why."
        assert int(num_batches) == -(-33 // world_size), "the ranks still agree afterwards"


def test_a_checkpoint_of_two_ranks_goes_on_on_three_and_on_one(ranks: Ranks) -> None:
    saved = ranks(2, "saving")["saving"]
    three = ranks(3, "resuming")["resuming"]
    alone = ranks(1, "whole", "resuming")
    for way in ("planned", "grain", "stream"):
        whole = alone["whole"][0][way]
        begin = in_turns([of_rank[way] for of_rank in saved])
        for by_rank in (three, alone["resuming"]):
            rest = in_turns([of_rank[way] for of_rank in by_rank])
            assert len(rest) >= 27
            run = [*begin, *rest]
            assert run == whole[: len(run)], way


def test_replicas_and_shards_split_the_rows_and_all_other_dimensions_share_them(ranks: Ranks) -> None:
    found = ranks(4, "meshed")["meshed"]
    coordinates = [[of_rank[mesh][0] for of_rank in found] for mesh in range(3)]
    assert coordinates[0] == coordinates[1] == [[0, 2], [0, 2], [1, 2], [1, 2]]
    assert coordinates[2] == [[0, 4], [1, 4], [2, 4], [3, 4]]
    for mesh, of_each in enumerate(coordinates):
        by_coordinate = {tuple(place): of_rank[mesh] for place, of_rank in zip(of_each, found, strict=True)}
        assert all(of_rank[mesh] == by_coordinate[tuple(of_rank[mesh][0])] for of_rank in found), "peers have the same"
        for graph in range(2):
            batches = in_turns([by_coordinate[place][1][graph] for place in sorted(by_coordinate)])
            assert tokens(batches) == labels_of(33)
        states = [of_rank[mesh][2] for of_rank in found]
        assert all(state == states[0] for state in states)
        assert sorted(json.loads(states[0]["parts"])) == [str(part) for part in range(of_each[0][1])]


def test_a_rank_that_is_gone_ends_the_others_with_an_error(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(tmp_path), "dying"],
            env={**os.environ, **meet, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=120) for process in processes]
    assert processes[1].returncode == 9, outputs[1]
    *batches, sentence = json.loads((tmp_path / "dying.2.0.json").read_text())
    assert len(batches) in (3, 4)
    assert sentence.startswith("Another rank has ended or does not answer (")
    assert sentence.endswith("). Its output says why.")
