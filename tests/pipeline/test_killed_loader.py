"""Loaders that are killed at any moment go on with the batches of one that was not."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("killed_loader.py")
NUM_BATCHES = 120


def batches_of(folder: Path) -> list[tuple[int, str]]:
    """Number and digest of each batch that was read, in the order of reading."""
    lines = (folder / "log").read_text().splitlines()
    return [(int(number), digest) for number, _, digest in (line.partition(" ") for line in lines)]


@pytest.mark.sized("num_kills", "killed_loaders")
@pytest.mark.parametrize("way", ["planned", "grain"])
def test_a_loader_that_was_killed_goes_on_with_the_batches_of_one_that_was_not(
    way: str, num_kills: int, tmp_path: Path
) -> None:
    command = [sys.executable, str(SCRIPT), str(tmp_path), way, str(num_kills), str(NUM_BATCHES)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kills = json.loads(done.stdout)
    assert kills["kills"] == num_kills
    assert kills["of store builds"] >= (num_kills // 40 if way == "planned" else 0)
    expected = dict(batches_of(tmp_path / "undisturbed"))
    runs = sorted(tmp_path.glob("run*"))
    assert len(runs) == -(-num_kills // 4)
    for run in runs:
        read = batches_of(run)
        wrong = [(number, digest) for number, digest in read if expected.setdefault(number, digest) != digest]
        assert wrong == [], f"{run.name}: batches that were read twice have to be the same too"
        assert {number for number, _ in read} >= set(range(NUM_BATCHES))
        # A new process begins where a state was saved: not behind the last batch that was logged.
        assert all(after <= before + 1 for (before, _), (after, _) in itertools.pairwise(read))
