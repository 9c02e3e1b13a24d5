"""Threads that read rows end with what they read for, and forks wait for them."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
from slow_rows import SOME, Slow, checked, row_threads

from torchpipe.pipeline import SingleDatasetConfig
from torchpipe.pipeline.by_grain import row_threads as row_threads_module

Build = Callable[..., Any]


@pytest.fixture(autouse=True)
def all_threads_end() -> Iterator[None]:
    yield
    gc.collect()
    assert row_threads() == []


def test_threads_end_with_the_iterator_and_with_what_holds_it(grain_of: Build) -> None:
    rows = iter(grain_of(checked(Slow(40), on_error="skip")).to_iter_dataset(SOME))
    next(rows)
    assert len(row_threads()) == 5
    rows.close()
    assert row_threads() == []
    with pytest.raises(ValueError, match="closed iterator"):
        next(rows)
    rows = iter(grain_of(checked(Slow(40), on_error="skip")).to_iter_dataset(SOME))
    next(rows)
    del rows  # collected by the fixture's look, at the latest


def test_a_fork_goes_on_with_threads_of_its_own(grain_of: Build) -> None:
    rows = iter(grain_of(SingleDatasetConfig(source=Slow(40))).to_iter_dataset(SOME))
    assert list(islice(rows, 5)) == list(range(5))
    process = os.fork()
    if process == 0:
        os._exit(0 if list(rows) == list(range(5, 40)) else 1)
    assert os.waitpid(process, 0)[1] == 0
    assert list(rows) == list(range(5, 40))
    rows.close()


class Stuck(Slow):
    """Rows behind the first that come when a server answers."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.answers = threading.Event()

    def __getitem__(self, index: Any) -> int:
        if index:
            self.answers.wait()
        return index


def test_who_closes_many_waits_once_for_rows_that_do_not_come(grain_of: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_threads_module, "_PATIENCE", 0.4)
    source = Stuck(9)
    many = [iter(grain_of(SingleDatasetConfig(source=source)).to_iter_dataset(SOME)) for _ in range(40)]
    for rows in many:
        next(rows)
    threading.Timer(8, source.answers.set).start()
    for rows in many:
        rows.close()
    assert not source.answers.is_set()  # it would be, had each been waited for
    threads = row_threads()
    source.answers.set()
    for thread in threads:
        thread.join()


class Locked(Slow):
    """Rows that are read one at a time."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.lock, self.is_held = threading.Lock(), threading.Event()

    def __getitem__(self, index: Any) -> int:
        with self.lock:
            self.is_held.set()
            threading.Event().wait(0.01)
        return index


def test_a_fork_waits_for_the_rows_that_are_being_read(grain_of: Build) -> None:
    source = Locked(400)
    rows = iter(grain_of(SingleDatasetConfig(source=source)).to_iter_dataset(SOME))
    next(rows)
    for _ in range(5):
        source.is_held.clear()
        next(rows)
        source.is_held.wait()
        process = os.fork()
        if process == 0:  # the lock would be held by a thread that is not here
            os._exit(0 if source.lock.acquire(blocking=False) else 1)
        assert os.waitpid(process, 0)[1] == 0
    rows.close()


PROGRAM = """
import time
from torchpipe.pipeline import DatasetBuildContext, DatasetIterationPolicy, SingleDatasetConfig

class Rows:
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        time.sleep(0.01)
        return index

context = DatasetBuildContext(tokenizer=None, max_context_length=8, num_tokens_per_batch=8)
policy = DatasetIterationPolicy(
    seed=0, shuffle=True, repeat=True, dp_rank=0, dp_world_size=1, streaming_shuffle_buffer_size=9
)
from torchpipe.pipeline.by_grain.library import grain
dataset = SingleDatasetConfig(source=Rows()).build(context=context, dataset_iteration_policy=policy)
held = iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=4, prefetch_buffer_size=16)))
next(held)
raise SystemExit(3)
"""


def test_a_program_that_leaves_its_loop_ends() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (3, "")
