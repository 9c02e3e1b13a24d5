"""Processes that end in the middle of an iteration: at once, without a word, and without a worker left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import multiprocessing.util  # before torch, as other libraries do
import os
import numpy as np
from torchpipe.pipeline import GrainDataLoader, SampleProcessor, SingleDatasetConfig, TextSequence

class Consecutive(SampleProcessor):
    def __call__(self, sample, rng):
        ids = np.arange(sample[0], sum(sample)) + {draw}
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])

    def fingerprint(self):
        return "consecutive"

if __name__ == "__main__":
    rows = SingleDatasetConfig(source=[[100 * row, 5] for row in range(20)], processor=Consecutive.Config())
    config = GrainDataLoader.Config(
        dataset=rows, cache_dir={cache!r}, num_proc=1, num_workers={workers}, num_prefetch_batches={ahead}
    )
    loader = config.build(tokenizer=None, max_context_length=8, num_tokens_per_batch=8)
    for batch in loader:
        break
    {last}
"""


@pytest.mark.parametrize("draw", ["0", "rng.integers(1)"], ids=["planned", "by Grain"])
@pytest.mark.parametrize(("workers", "ahead"), [(0, 0), (0, 2), (1, 0), (1, 2)])
def test_a_script_that_leaves_its_loop_ends(workers: int, ahead: int, draw: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(draw=draw, cache=str(tmp_path), workers=workers, ahead=ahead, last="pass"))
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "Exception ignored" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_script_that_fails_in_its_loop_ends_with_its_own_error(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(draw="0", cache=str(tmp_path), workers=2, ahead=2, last="raise KeyError(3)"))
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1
    assert ended.stderr.count("Traceback") == 1
    assert ended.stderr.rstrip().endswith("KeyError: 3")
