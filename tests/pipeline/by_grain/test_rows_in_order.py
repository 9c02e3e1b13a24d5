"""Rows read ahead by threads: the same rows, states, counts and errors, whatever the number of threads."""

import gc
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import grain
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_rows import SOME, Slow, checked, row_threads

from torchpipe.errors import DataError
from torchpipe.pipeline import (
    DatasetConcatConfig,
    DatasetMixConfig,
    SampleProcessor,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchpipe.pipeline.by_grain.ledger import graph_ledger
from torchpipe.pipeline.by_grain.pace import GivenPace, Window
from torchpipe.pipeline.by_grain.reading import RowsIterator

Build = Callable[..., Any]


@pytest.fixture(autouse=True)
def all_threads_end() -> Iterator[None]:
    yield
    gc.collect()
    assert row_threads() == []


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
