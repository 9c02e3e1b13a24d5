"""Rows read ahead by threads: the same rows, states, counts and errors, whatever the number of threads."""

import gc
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import grain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.errors import DataError
from torchpipe.pipeline import (
    DatasetConcatConfig,
    DatasetMixConfig,
    SampleProcessor,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchpipe.pipeline.by_grain import row_threads as row_threads_module
from torchpipe.pipeline.by_grain.ledger import graph_ledger
from torchpipe.pipeline.by_grain.pace import MOST_GIVEN, GivenPace, TunedPace, Window, useful_threads
from torchpipe.pipeline.by_grain.reading import RowsIterator

Build = Callable[..., Any]
SOME = grain.ReadOptions(num_threads=5, prefetch_buffer_size=7)


@pytest.fixture(autouse=True)
def all_threads_end() -> Iterator[None]:
    yield
    gc.collect()
    assert row_threads() == []


def row_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "torchpipe rows"]


class Slow(Sequence[int]):
    """Numbers, each of which takes another time, so that threads overtake each other."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: Any) -> Any:
        self.asked.append(index)
        threading.Event().wait(random.Random(index).random() * 0.003)
        return index


class Checked(SampleProcessor):
    """Draws a number for each row, refuses every seventh row, and leaves out every fifth."""

    def __call__(self, sample: int, rng: Any) -> Any:
        if sample % 7 == 3:
            raise DataError("It ends badly.", reason="bad_columns")
        return None if sample % 5 == 0 else (sample, int(rng.integers(1000)))


class Changing:
    """Another number of threads after every third row."""

    settled = None

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = cycle(numbers)
        self.num_threads = next(self._numbers)

    @property
    def num_ahead(self) -> int:
        return 2 * self.num_threads

    def is_full(self, num_rows: int, seconds: float) -> bool:
        return num_rows == 3

    def tell(self, window: Window) -> None:
        self.num_threads = next(self._numbers)


def checked(rows: Sequence[int], **options: Any) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=rows, processor=Checked.Config(), name="rows", **options)


GRAPHS: dict[str, Callable[..., Any]] = {
    "rows": lambda **options: checked(Slow(40), **options),
    "a concat": lambda **options: DatasetConcatConfig(
        datasets=(checked(Slow(23), **options), checked(Slow(9), **options))
    ),
    "a mix": lambda **options: DatasetMixConfig(
        datasets=(
            WeightedDataset(dataset=checked(Slow(31), **options)),
            WeightedDataset(dataset=SingleDatasetConfig(source=Slow(40), pre_filters=[lambda row: row % 3])),
        )
    ),
}
GRAPHS["mixes by number, one after the other"] = lambda **options: DatasetConcatConfig(
    datasets=tuple(
        DatasetMixConfig(
            datasets=(
                WeightedDataset(dataset=checked(Slow(11), **options), name="rows"),
                WeightedDataset(dataset=SingleDatasetConfig(source=Slow(8), name="all"), weight=weight),
            ),
            name=f"mix {weight}",
        )
        for weight in (1, 2)
    )
)
graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))


def followed(rows: Any, dataset: Any) -> Iterator[tuple[Any, str, str]]:
    """Each row, the state behind it, and what is counted by then."""
    for row in rows:
        yield row, json.dumps(rows.get_state()), json.dumps(graph_ledger(dataset).to_dict())


@graphs
def test_rows_states_and_counts_are_those_without_threads(graph: Any, grain_of: Build) -> None:
    found = []
    for options in (grain.ReadOptions(num_threads=0, prefetch_buffer_size=0), None, SOME):
        dataset = grain_of(graph(on_error="skip"), shuffle=True, repeat=True, context={"read_options": options})
        rows = iter(dataset.to_iter_dataset(options))
        found.append(list(islice(followed(rows, dataset), 90)))
        rows.close()
    assert found[0] == found[1] == found[2]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=5))
def test_the_number_of_threads_may_change_at_any_moment(grain_of: Build, numbers: list[int]) -> None:
    plain, changing = (grain_of(checked(range(40), on_error="skip"), shuffle=True) for _ in range(2))
    ahead = RowsIterator(changing, Changing(numbers))
    assert list(followed(ahead, changing)) == list(followed(iter(plain.to_iter_dataset()), plain))
    graph_ledger(changing).check()
    ahead.close()


def test_a_state_goes_on_with_any_number_of_threads(grain_of: Build) -> None:
    def rows(pace: Any) -> RowsIterator:
        return RowsIterator(grain_of(checked(Slow(40), on_error="skip"), shuffle=True), pace)

    whole = list(rows(GivenPace(0, 0)))
    for before, after in ((0, 4), (4, 0), (3, 6)):
        first, second = rows(GivenPace(before, 8)), rows(GivenPace(after, 8))
        found = list(islice(first, 11))
        second.set_state(first.get_state())
        assert [*found, *second] == whole
        second.set_state({"next_index": 0})  # with rows of another place read ahead
        assert list(second) == whole
        first.close()
        second.close()


def test_a_row_that_is_read_ahead_and_not_given_is_not_counted(grain_of: Build, tmp_path: Path) -> None:
    file = tmp_path / "refused.jsonl"
    source = Slow(60)
    dataset = grain_of(checked(source, on_error="quarantine", quarantine_file=str(file)), repeat=True)
    rows = iter(dataset.to_iter_dataset(grain.ReadOptions(num_threads=4, prefetch_buffer_size=30)))
    assert next(rows)[0] == 1
    while len(source.asked) < 30:
        threading.Event().wait(0.001)
    counts = graph_ledger(dataset)["rows"].to_dict()
    assert (counts["rows_in"], counts["rows_out"], counts["rows_left_out"]) == (2, 1, {"dropped": 1})
    assert not file.exists()
    assert [next(rows)[0] for _ in range(3)] == [2, 4, 6]
    assert [json.loads(line)["row"] for line in file.read_text().splitlines()] == [3]
    rows.close()
    assert graph_ledger(dataset)["rows"].rows_in == 7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Row 3 of rows: It ends badly"),
        (
            {"on_error": "skip", "max_error_share": 0.05},
            "rows: 3 rows with an error, and max_error_share=0.05 of 40 rows",
        ),
    ],
)
def test_the_first_error_is_raised_behind_the_same_row(options: Any, message: str, grain_of: Build) -> None:
    found = []
    for pace in (GivenPace(0, 0), GivenPace(6, 12), Changing([0, 5, 2])):
        dataset = grain_of(checked(Slow(40), **options))
        rows, given_rows = RowsIterator(dataset, pace), []
        with pytest.raises(DataError, match=message):
            given_rows += followed(rows, dataset)
        # It stays the next one: who asks again gets what was to be had without threads.
        found.append((given_rows, rows.get_state(), graph_ledger(dataset).to_dict()))
        rows.close()
    assert found[0] == found[1] == found[2]


def test_rows_all_of_which_are_left_out_are_an_error_with_threads_too(grain_of: Build) -> None:
    config = SingleDatasetConfig(source=range(9), pre_filters=[lambda row: False], name="news")
    rows = iter(grain_of(config, repeat=True).to_iter_dataset(SOME))
    with pytest.raises(DataError, match="news: none of its 9 rows is left"):
        next(rows)
    rows.close()


class Together(Slow):
    """Rows that come only once three of them are being read."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.are_three = threading.Barrier(3)

    def __getitem__(self, index: Any) -> int:
        if index < 3:
            self.are_three.wait(timeout=60)
        return index


def test_rows_that_wait_are_read_at_once(grain_of: Build) -> None:
    rows = iter(grain_of(SingleDatasetConfig(source=Together(36))).to_iter_dataset(SOME))
    assert list(rows) == list(range(36))
    rows.close()


class Waiting(Slow):
    """Rows that take long and compute nothing; it is kept which threads read them."""

    can_be_read_ahead = True

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.threads: set[str] = set()

    def __getitem__(self, index: Any) -> int:
        self.threads.add(threading.current_thread().name)
        threading.Event().wait(0.01)
        return index


def test_rows_that_wait_are_read_by_threads_without_being_asked_to(grain_of: Build) -> None:
    source = Waiting(2_000)
    rows = iter(grain_of(SingleDatasetConfig(source=source)).to_iter_dataset())
    for number, row in enumerate(rows):
        assert row == number
        if "torchpipe rows" in source.threads:
            break
    assert source.threads == {threading.current_thread().name, "torchpipe rows"}
    rows.close()


class Seeking(Waiting):
    """The same; it doesn't say that several threads may read, and keeps where it stands."""

    def __getitem__(self, index: Any) -> int:
        self.place = index
        super().__getitem__(index)
        return self.place


class Unsafe(SampleProcessor):
    """Keeps something of a row, and doesn't say that several threads may call it."""

    def __call__(self, sample: int, rng: Any) -> int:
        return sample


class Cautious(Unsafe):
    can_be_read_ahead = True


@pytest.mark.parametrize(("source", "processor"), [(Seeking(40), None), (Seeking(40), Cautious), (Waiting(40), Unsafe)])
def test_what_does_not_say_that_threads_may_ask_it_is_asked_by_one_and_a_line_tells_how_to_say_it(
    source: Waiting, processor: Any, grain_of: Build, capsys: pytest.CaptureFixture[str]
) -> None:
    made = None if processor is None else processor.Config()
    name = f"{type(source).__name__} and {processor}"
    for _ in range(2):
        config = SingleDatasetConfig(source=source, processor=made, name=name)
        assert list(grain_of(config).to_iter_dataset()) == list(range(40))
    assert source.threads == {threading.current_thread().name}
    assert capsys.readouterr().err == (
        f"Rows of {name} wait, and are read one by one. Where several threads may read the source and call the "
        "processor at once, say can_be_read_ahead = True in their classes, and threads read ahead; or give "
        "read_options.\n"
    )


def test_a_source_and_a_processor_that_say_so_are_asked_by_threads(grain_of: Build) -> None:
    source = Waiting(2_000)
    rows = iter(grain_of(SingleDatasetConfig(source=source, processor=Cautious.Config())).to_iter_dataset())
    assert any("torchpipe rows" in source.threads for _ in rows)
    rows.close()


def test_rows_are_shared_by_processes_of_grain_as_its_own_are(grain_of: Build) -> None:
    dataset: Any = grain_of(SingleDatasetConfig(source=range(20)))
    rows: Any = dataset.to_iter_dataset()
    of_grain: Any = grain.MapDataset.to_iter_dataset(dataset)
    for one in (rows, of_grain):
        one.set_slice(slice(1, None, 3))
    assert list(rows) == list(of_grain) == list(range(1, 20, 3))


def test_rows_that_do_not_wait_are_read_by_the_thread_that_asks(grain_of: Build) -> None:
    names: set[str] = set()

    class Cheap(Slow):
        def __getitem__(self, index: Any) -> int:
            names.add(threading.current_thread().name)
            return index

    assert len(list(grain_of(SingleDatasetConfig(source=Cheap(3_000))).to_iter_dataset())) == 3_000
    assert names == {threading.current_thread().name}


def test_a_line_says_once_that_rows_wait(grain_of: Build, capsys: pytest.CaptureFixture[str]) -> None:
    class Settling(Changing):
        def tell(self, window: Window) -> None:
            self.settled = Window(
                num_threads=4, num_rows=9, num_waiting=9, seconds=2.0, stalled=0.5, reading=9.0, computing=0
            )

    for _ in range(2):
        rows = RowsIterator(grain_of(SingleDatasetConfig(source=range(9), name="remote")), Settling([0]))
        assert list(rows) == list(range(9))
    assert capsys.readouterr().err == (
        "Rows of remote wait; 4 threads read ahead, and what asks for rows still waits for 25% of the time.\n"
    )


# The decision


def waiting(num_threads: int, *, seconds: float, stalled: float | None = None, computing: float = 0.001) -> Window:
    """A window of 16 rows that wait for 10 ms each."""
    return Window(
        num_threads=num_threads,
        num_rows=16,
        num_waiting=16 if computing < 0.05 else 0,
        seconds=seconds,
        stalled=seconds if stalled is None else stalled,
        reading=0.16,
        computing=computing,
    )


def test_threads_are_added_while_the_consumer_waits_and_they_help() -> None:
    pace = TunedPace(room=lambda: 64)
    numbers = []
    for _ in range(6):
        pace.tell(waiting(pace.num_threads, seconds=0.16 / max(1, pace.num_threads)))
        numbers.append(pace.num_threads)
    assert numbers == [2, 4, 8, 16, 16, 16]
    assert pace.num_ahead == 32
    assert pace.settled is not None


def test_threads_that_do_not_help_are_taken_away() -> None:
    pace = TunedPace(room=lambda: 64)
    numbers = []
    for _ in range(6):
        pace.tell(waiting(pace.num_threads, seconds=0.16 / min(4, max(1, pace.num_threads))))
        numbers.append(pace.num_threads)
    assert numbers == [2, 4, 8, 4, 4, 4]


def test_where_no_number_helps_it_is_tried_less_and_less_often() -> None:
    pace = TunedPace(room=lambda: 64)
    numbers = []
    for _ in range(20):
        pace.tell(waiting(pace.num_threads, seconds=0.16))
        numbers.append(pace.num_threads)
    assert "".join(map(str, numbers)) == "20" + "020" + "0020" + "000020" + "00000"


@pytest.mark.parametrize(
    "window",
    [
        waiting(0, seconds=0.16, computing=0.12),
        waiting(0, seconds=20.0, stalled=0.16),
        Window(num_threads=0, num_rows=999, num_waiting=9, seconds=1.0, stalled=1.0, reading=1.0, computing=0.01),
    ],
    ids=[
        "rows that compute",
        "a consumer that has no need of them",
        "cheap rows, some of which waited for a processor",
    ],
)
def test_no_thread_reads(window: Window) -> None:
    pace = TunedPace(room=lambda: 64)
    for _ in range(9):
        pace.tell(window)
        assert pace.num_threads == 0
    assert useful_threads(window) == 0


def test_no_more_threads_read_than_rows_wait_for_or_the_process_may_have() -> None:
    half, few = TunedPace(room=lambda: 64), TunedPace(room=lambda: 3)
    for _ in range(5):
        half.tell(waiting(half.num_threads, seconds=0.16 / max(1, half.num_threads), computing=0.03))
        few.tell(waiting(few.num_threads, seconds=0.16 / max(1, few.num_threads)))
    assert (half.num_threads, few.num_threads) == (5, 3)


def test_rows_that_have_become_cheap_are_read_without_threads_again() -> None:
    pace = TunedPace(room=lambda: 64)
    looks = 0
    for _ in range(120):
        if not pace.num_threads:
            looks += 1
        pace.tell(waiting(pace.num_threads, seconds=0.16 / max(1, pace.num_threads)))
    assert looks == 3
    assert pace.num_threads == 16  # where they were, at once
    for _ in range(60):
        cheap = waiting(pace.num_threads, seconds=0.001, computing=0.15)
        pace.tell(cheap)
    assert pace.num_threads == 0


def test_threads_that_are_given_to_many_are_no_more_than_a_process_may_have(grain_of: Build) -> None:
    options = grain.ReadOptions(num_threads=16, prefetch_buffer_size=1)
    many = [iter(grain_of(SingleDatasetConfig(source=range(9))).to_iter_dataset(options)) for _ in range(20)]
    assert [next(rows) for rows in many] == [0] * 20
    assert len(row_threads()) == MOST_GIVEN + 20 - MOST_GIVEN // 16
    for rows in many:
        assert list(rows) == list(range(1, 9))
        rows.close()
    assert GivenPace(16, 500, most=lambda: 3).num_threads == 3
    assert GivenPace(0, 500, most=lambda: 3).num_threads == 0


# Threads end


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
