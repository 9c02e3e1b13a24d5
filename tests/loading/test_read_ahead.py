"""Reading ahead: the same batches, errors where they belong, and a thread that always ends."""

import gc
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from torchpipe.data import padded_collate_packed
from torchpipe.datasets import ConcatDataset, PackedDataset
from torchpipe.errors import DistributedError
from torchpipe.loading import GlobalSteps, StepLoader
from torchpipe.loading.read_ahead import ReadAhead

Make = Callable[[int], Any]


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "torchpipe read-ahead"]


@pytest.fixture(autouse=True)
def all_threads_end() -> Iterator[None]:
    yield
    assert readers() == []


def packed(num_samples: int = 60, **options: Any) -> PackedDataset:
    samples = [{"tokens": [k] * (k % 7 + 1), "labels": [k] * (k % 7) + [-100]} for k in range(num_samples)]
    return PackedDataset(samples, max_seq_len=8, **options)


def loader_of(dataset: Any, collate_fn: Any = padded_collate_packed, **options: Any) -> StepLoader:
    steps = GlobalSteps.of(dataset, global_batch_size=6)
    return StepLoader(dataset, steps, **{"batch_size": 2, "collate_fn": collate_fn, **options})


def as_lists(batch: Any) -> Any:
    return {key: value.tolist() for key, value in batch.items()}


# What is given out


@pytest.mark.parametrize("num_workers", [0, 1])
@pytest.mark.parametrize("read_ahead", [None, 1, 3])
def test_batches_and_states_are_those_without(read_ahead: int | None, num_workers: int) -> None:
    dataset = packed()
    ahead, plain = (loader_of(dataset, read_ahead=depth, num_workers=num_workers) for depth in (read_ahead, 0))
    for _ in range(2):
        for one, other in zip(ahead, plain, strict=True):
            assert ahead.state_dict() == plain.state_dict()
            assert (one.epoch, one.number, one.trained_tokens) == (other.epoch, other.number, other.trained_tokens)
            assert list(map(as_lists, one.micro_batches)) == list(map(as_lists, other.micro_batches))


def test_a_run_that_is_stopped_goes_on_with_the_next_step_whatever_was_read() -> None:
    dataset = packed()
    expected = [as_lists(batch) for step in loader_of(dataset, read_ahead=0) for batch in step.micro_batches]
    first = loader_of(dataset, read_ahead=2)
    found = [as_lists(batch) for step in first.until(2) for batch in step.micro_batches]
    again = loader_of(dataset)
    again.load_state_dict(first.state_dict())
    found += [as_lists(batch) for step in again for batch in step.micro_batches]
    assert found == expected


def test_no_more_than_its_depth_is_read_ahead() -> None:
    taken: list[int] = []
    may_read = threading.Semaphore(0)

    def items() -> Iterator[int]:
        for number in range(9):
            may_read.acquire()
            taken.append(number)
            yield number

    ahead = ReadAhead(items(), depth=3)
    may_read.release(9)
    assert next(ahead) == 0
    while len(taken) < 4:  # the three behind it
        threading.Event().wait(0.001)
    assert [next(ahead), next(ahead)] == [1, 2]
    assert len(taken) <= 6
    assert list(ahead) == [3, 4, 5, 6, 7, 8]
    assert next(ahead, "end") == "end"


# Where it is used


class Drawing:
    """Packs whose reading draws from the global random stream."""

    def __init__(self, packs: Any) -> None:
        self.packs, self.threads = packs, set[threading.Thread]()

    def __len__(self) -> int:
        return len(self.packs)

    def __getitem__(self, index: int) -> Any:
        self.threads.add(threading.current_thread())
        return {**self.packs[index], "labels": torch.randint(0, 9, (8,))}


class Renamed(PackedDataset):
    """A class of the user's own, which may read in its own way."""


def threads_of_reading(dataset: Any, collate_fn: Any = padded_collate_packed, **options: Any) -> set[str]:
    names: set[str] = set()

    class Collate:
        __module__ = collate_fn.__module__

        def __call__(self, items: Any) -> Any:
            names.add(threading.current_thread().name)
            return collate_fn(items)

    list(loader_of(dataset, Collate(), **options))
    return names


def own_collate(items: Any) -> Any:
    return padded_collate_packed(items)


def test_a_thread_reads_where_nothing_but_torchpipes_code_runs_in_it() -> None:
    in_thread, here = {"torchpipe read-ahead"}, {threading.current_thread().name}
    assert threads_of_reading(packed()) == in_thread
    assert threads_of_reading(ConcatDataset([packed(), packed()])) == in_thread
    assert threads_of_reading(packed(), read_ahead=0) == here
    assert threads_of_reading(packed(), own_collate) == here
    assert threads_of_reading(packed(), own_collate, read_ahead=1) == in_thread, "asked for by name"
    renamed = Renamed([{"tokens": [1], "labels": [1]}], max_seq_len=8)
    assert threads_of_reading(renamed) == here
    assert threads_of_reading(ConcatDataset([packed(), renamed])) == here
    assert threads_of_reading(Drawing(packed())) == here


def test_a_partial_of_torchpipes_function_is_torchpipes() -> None:
    steps = loader_of(packed(), partial(padded_collate_packed, mask="varlen")).until()
    next(steps)
    assert len(readers()) == 1
    steps.close()  # pyright: ignore[reportAttributeAccessIssue]


def test_random_numbers_of_a_data_set_and_of_training_come_in_turns() -> None:
    def drawn(**options: Any) -> list[Any]:
        torch.manual_seed(0)
        found = []
        for step in loader_of(Drawing(packed()), **options):
            found += [torch.rand(1).item(), *(batch["labels"].tolist() for batch in step.micro_batches)]
        return found

    assert drawn() == drawn(read_ahead=0)


# Ends


class Failing:
    """Packs of which one can't be read."""

    can_be_read_ahead = True

    def __init__(self, packs: Any) -> None:
        self.packs = packs

    def __len__(self) -> int:
        return len(self.packs)

    def __getitem__(self, index: int) -> Any:
        if index == 13:
            raise ValueError("pack 13 can't be read")
        return self.packs[index]


def test_an_error_comes_at_its_step_with_its_traceback() -> None:
    dataset = Failing(packed())
    steps = GlobalSteps.of(dataset, global_batch_size=2, shuffle=False)
    loader = StepLoader(dataset, steps, batch_size=2, collate_fn=padded_collate_packed, read_ahead=4)
    with pytest.raises(ValueError, match="pack 13 can't be read") as raised:
        list(loader)
    assert loader.state_dict()["step"] == 6
    assert "__getitem__" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


def test_breaking_out_dropping_and_errors_of_the_loop_end_the_thread() -> None:
    loader = loader_of(packed())
    for _ in loader:
        assert len(readers()) == 1
        break
    gc.collect()
    assert readers() == []
    steps = loader.until()
    next(steps)
    del steps
    gc.collect()
    assert readers() == []
    with pytest.raises(KeyboardInterrupt):
        interrupted_loop(loader)
    gc.collect()


def interrupted_loop(loader: StepLoader) -> None:
    for _ in loader:
        raise KeyboardInterrupt


def test_a_dropped_reader_ends_also_within_a_cycle() -> None:
    ahead: Any = ReadAhead(iter(range(9)), depth=1)
    ahead.own = ahead
    assert next(ahead) == 0
    del ahead
    gc.collect()
    assert readers() == []


def test_workers_end_with_the_thread() -> None:
    before = set(torch.multiprocessing.active_children())
    steps = loader_of(packed(), num_workers=2).until()
    next(steps)
    assert len(set(torch.multiprocessing.active_children()) - before) == 2
    steps.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert set(torch.multiprocessing.active_children()) <= before


def test_a_fork_while_an_item_is_read_waits_for_it() -> None:
    lock, is_reading = threading.Lock(), threading.Event()

    def items() -> Iterator[int]:
        while True:
            with lock:
                is_reading.set()
                threading.Event().wait(0.02)
            yield 0

    ahead = ReadAhead(items(), depth=99)
    is_reading.wait()
    process = os.fork()
    if process == 0:  # the lock would be held by a thread that is not here
        os._exit(0 if lock.acquire(blocking=False) else 1)
    assert os.waitpid(process, 0)[1] == 0
    ahead.close()


PROGRAM = """
import sys, torch
from torchpipe.data import padded_collate_packed
from torchpipe.datasets import PackedDataset
from torchpipe.loading import GlobalSteps, StepLoader
data = PackedDataset([{"tokens": [1, 2], "labels": [2, -100]}] * 400, max_seq_len=4)
steps = GlobalSteps.of(data, global_batch_size=2)
def collate(items):
    assert sys.argv[1] != "worker's error"
    return padded_collate_packed(items)
options = {"num_workers": int(sys.argv[2]), "read_ahead": int(sys.argv[3])}
loader = StepLoader(data, steps, batch_size=2, collate_fn=collate, **options)
held = loader.until()
next(held)
if sys.argv[1] == "term":
    import os, signal
    os.kill(os.getpid(), signal.SIGTERM)
if sys.argv[1] == "error":
    raise SystemExit(3)
"""


@pytest.mark.parametrize(
    ("way", "num_workers", "read_ahead", "code"),
    [
        ("end", 0, 1, 0),
        ("end", 1, 0, 0),
        ("error", 1, 1, 3),
        ("term", 1, 1, -15),
        ("worker's error", 1, 1, 1),
        ("worker's error", 1, 0, 1),
    ],
)
def test_a_process_ends_whatever_is_left_of_its_loader(way: str, num_workers: int, read_ahead: int, code: int) -> None:
    command = [sys.executable, "-c", PROGRAM, way, str(num_workers), str(read_ahead)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == code
    assert "AssertionError" in ended.stderr if code == 1 else ended.stderr == ""


# What is read in two threads at once


def test_two_threads_read_one_store(tmp_path: Any) -> None:
    dataset = packed(300, cache_dir=tmp_path)
    expected = [as_lists(dataset[index]) for index in range(len(dataset))]
    ahead = ReadAhead((dataset[index] for index in range(len(dataset))), depth=4)
    for index, item in enumerate(ahead):
        other = int(np.int64(index * 31 % len(dataset)))
        assert as_lists(dataset[other]) == expected[other]
        assert as_lists(item) == expected[index]


@pytest.mark.parametrize("error", [None, KeyError("item 1")])
def test_an_error_of_closing_is_raised_behind_the_items_unless_there_was_one_before(error: Exception | None) -> None:
    class Items(Iterator[int]):
        given = 0

        def __next__(self) -> int:
            self.given += 1
            if self.given > 1:
                raise error or StopIteration
            return self.given

        def close(self) -> None:
            raise OSError("the file is gone")

    ahead = ReadAhead(Items(), depth=2)
    assert next(ahead) == 1
    with pytest.raises(type(error or OSError()), match="item 1" if error else "the file is gone"):
        next(ahead)
    assert list(ahead) == []


def test_a_forked_process_is_told_that_the_thread_is_not_there() -> None:
    ahead = ReadAhead(iter(range(9)), depth=2)
    assert next(ahead) == 0
    process = os.fork()
    if process == 0:
        try:
            next(ahead)
        except DistributedError as raised:
            os._exit(0 if "Make the loader in the process that uses it" in str(raised) else 2)
        finally:
            os._exit(3)
    assert os.waitpid(process, 0)[1] == 0
    assert list(ahead) == list(range(1, 9))
