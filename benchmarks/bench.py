"""What all measurements share."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from peers import REPOSITORY, REQUIREMENTS, peer_python
from tokenizer_inputs import oracle_file

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("TORCHPIPE_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
FEW, MANY = 5, 10
"""Pairs of runs, and pairs where a ratio may be within a factor of 1.5 of its goal."""
PACKAGES = ("torchpipe", "torchtune")
"""What most measurements compare."""


class Bench:
    """What the measurements share: the environments, the inputs, and a folder for what they write.

    Args:
        scratch: an empty folder.
    """

    def __init__(self, scratch: Path) -> None:
        self.pythons = {"torchpipe": Path(sys.executable), **{peer: peer_python(peer) for peer in REQUIREMENTS}}
        self.scratch = scratch
        self.gsm8k = DATA / "gsm8k" / "train.jsonl"
        self.tokenizer = oracle_file("llama3")

    def run(self, package: str, script: str, *arguments: str | Path) -> Any:
        """The JSON that a script of this folder prints last, run in a package's environment on one thread."""
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_CACHE": str(self.scratch / package),
        }
        command = [self.pythons[package], HERE / script, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if result.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))} failed:\n{result.stderr}")
        return json.loads(result.stdout.splitlines()[-1])

    def taking_turns(self, measures: Sequence[Callable[[], Any]], rounds: int) -> list[list[Any]]:
        """What each measure gave in every round; the order is turned round after each, so none is always first."""
        gave: list[list[Any]] = [[] for _ in measures]
        for number in range(rounds):
            for index in range(len(measures))[:: 1 if number % 2 == 0 else -1]:
                gave[index].append(measures[index]())
        return gave
