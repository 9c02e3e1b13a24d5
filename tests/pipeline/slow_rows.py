"""Rows that take their time, and the threads that read them."""

import random
import threading
from collections.abc import Sequence
from typing import Any

import grain

from torchpipe.errors import DataError
from torchpipe.pipeline import SampleProcessor, SingleDatasetConfig

SOME = grain.ReadOptions(num_threads=5, prefetch_buffer_size=7)


def row_threads() -> list[threading.Thread]:
    """Those of this process that read rows."""
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


def checked(rows: Sequence[int], **options: Any) -> SingleDatasetConfig:
    """Rows of which :class:`Checked` refuses some and leaves out some."""
    return SingleDatasetConfig(source=rows, processor=Checked.Config(), name="rows", **options)
