"""What all measurements share."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from peers import REPOSITORY, peer_python
from report import Result
from store_inputs import write_inputs
from tokenizer_inputs import oracle_file

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("TORCHPIPE_TEST_DATA", REPOSITORY.parent / "shared" / "data"))
FEW, MANY = 5, 10
"""Pairs of runs, and pairs where a ratio may be within a factor of 1.5 of its goal."""
PACKAGES = ("torchpipe", "torchtune")
"""What most measurements compare."""


class _Pythons(dict[str, Path]):
    def __missing__(self, peer: str) -> Path:
        self[peer] = peer_python(peer)
        return self[peer]


class Bench:
    """What the measurements share: the environments, the inputs, and a folder for what they write.

    Args:
        scratch: an empty folder.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.gsm8k = DATA / "gsm8k" / "train.jsonl"
        self.tokenizer = oracle_file("llama3")

    @cached_property
    def pythons(self) -> Mapping[str, Path]:
        """The Python of each package's environment; a peer's is made when it is first looked up."""
        return _Pythons({"torchpipe": Path(sys.executable)})

    @cached_property
    def num_chats(self) -> int:
        """Rows of the store's workload."""
        return int(os.environ.get("TORCHPIPE_BENCH_ROWS", "20000"))

    @cached_property
    def store_inputs(self) -> Path:
        """The folder of what the store's measurements are given. It takes some seconds to write."""
        folder = self.scratch / "store"
        write_inputs(folder, DATA, num_rows=self.num_chats)
        return folder

    def chats(self, num_rows: int) -> Path | None:
        """A file of so many rows of the common chat workload; None where the data comes without what writes it."""
        make_chats, file = DATA.parent / "bench" / "make_chats.py", self.scratch / f"{num_rows}_chats.jsonl"
        if not make_chats.exists():
            return None
        if not file.exists():
            command = [sys.executable, make_chats, file, "--rows", str(num_rows)]
            subprocess.run(command, check=True, capture_output=True)
        return file

    def run(self, package: str, script: str, *arguments: str | Path) -> Any:
        """The JSON that a script of this folder prints last, run in a package's environment on one thread."""
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_OFFLINE": "1",
            "HF_DATASETS_CACHE": str(self.scratch / package),
        }
        # A peer's bytecode was compiled when it was installed; torchpipe's may be kept too, as it is for users.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
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

    def compare(
        self, measures: Sequence[Callable[[], Any]], results_of: Callable[[list[list[Any]]], list[Result]]
    ) -> list[Result]:
        """The results of a few rounds, or, where one is close to its goal, of many.

        Args:
            measures: what takes turns.
            results_of: what they gave in every round to results.
        """
        gave: list[list[Any]] = [[] for _ in measures]
        results: list[Result] = []
        for rounds in (FEW, MANY - FEW):
            for all_rounds, more in zip(gave, self.taking_turns(measures, rounds), strict=True):
                all_rounds += more
            results = results_of(gave)
            if not any(result.is_close() for result in results):
                break
        return results
