"""What a stream that is shuffled in windows costs where it is resumed: the rows of one window are read again."""

import json
from collections.abc import Callable
from itertools import islice
from typing import Any

import grain
import numpy as np
import pytest

from torchpipe.pipeline import SampleProcessor, SingleDatasetConfig, TextSequence

WINDOW = 16
NUM_ROWS = 40


class Counted(grain.IterDataset[int]):
    """A stream of numbers, epoch after epoch, that counts how many are read."""

    def __init__(self) -> None:
        super().__init__()
        self.num_read = 0

    def build(self, *, dataset_iteration_policy: Any) -> "Counted":
        return self

    def __iter__(self) -> grain.DatasetIterator[int]:
        return _CountedIterator(self)


class _CountedIterator(grain.DatasetIterator[int]):
    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self._counted = counted
        self._next = 0

    def __next__(self) -> int:
        self._counted.num_read += 1
        self._next += 1
        return (self._next - 1) % NUM_ROWS

    def get_state(self) -> dict[str, Any]:
        return {"next": self._next}

    def set_state(self, state: dict[str, Any]) -> None:
        self._next = state["next"]


class Numbered(SampleProcessor):
    """A number to itself, a random number, and how many were made."""

    num_made = 0

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence:
        type(self).num_made += 1
        return TextSequence(input_ids=np.array([sample]), labels=np.array([int(rng.integers(1000))]))


def rows(iterator: Any, most: int) -> list[tuple[int, int]]:
    return [(int(row.input_ids[0]), int(row.labels[0])) for row in islice(iterator, most)]


@pytest.mark.parametrize("num_before", [0, 1, WINDOW - 1, WINDOW, WINDOW + 1, 3 * WINDOW, 3 * WINDOW + 7])
def test_resuming_reads_no_more_than_one_window_again_and_makes_no_row_again(
    num_before: int, grain_of: Callable[..., Any]
) -> None:
    def graph() -> tuple[Counted, Any]:
        source = Counted()
        config = SingleDatasetConfig(source=source, processor=Numbered.Config(), name="numbers")
        policy = {"shuffle": True, "repeat": True, "streaming_shuffle_buffer_size": WINDOW}
        return source, iter(grain_of(config, **policy))

    source, whole = graph()
    rows(whole, num_before)
    state = json.loads(json.dumps(whole.get_state()))
    num_read = source.num_read
    expected = rows(whole, 50)
    num_read_on = source.num_read - num_read

    source, resumed = graph()
    resumed.set_state(state)
    num_made = Numbered.num_made
    assert rows(resumed, 50) == expected
    assert Numbered.num_made - num_made == 50
    assert 0 <= source.num_read - num_read_on <= WINDOW
