"""With how many threads rows are read."""

from collections.abc import Callable
from typing import Any

import grain
import pytest
from slow_rows import row_threads

from torchpipe.pipeline import SingleDatasetConfig
from torchpipe.pipeline.by_grain.pace import MOST_GIVEN, GivenPace, TunedPace, Window, useful_threads

Build = Callable[..., Any]


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
