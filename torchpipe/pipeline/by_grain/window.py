"""A stream in another order: so many rows at a time, each window shuffled by a seed of its own."""

from typing import Any

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe.pipeline.by_grain.library import grain


class ShuffledWindows(grain.IterDataset[Any]):
    """The rows of a stream, shuffled within windows.

    Only what stands within a window is mixed: raise its size, or let the source give its files in another order, where
    neighbours are alike. What is restored reads the window again.

    Args:
        parent: the stream.
        window_size: rows of a window, which are held.
        seed: of the orders.
    """

    def __init__(self, parent: grain.IterDataset[Any], *, window_size: int, seed: int) -> None:
        super().__init__(parent)
        self.window_size = window_size
        self._seed = seed

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return _WindowIterator(self._parent.__iter__(), self.window_size, self._seed)

    def __str__(self) -> str:
        return f"ShuffledWindows({self.window_size})"


class _WindowIterator(grain.DatasetIterator[Any]):
    """Its state is that in front of the window, and how many of its rows were given."""

    def __init__(self, parent: grain.DatasetIterator[Any], window_size: int, seed: int) -> None:
        super().__init__(parent)
        self._window_size = window_size
        self._seed = seed
        self._number = 0
        self._before = self._parent.get_state()
        self._rows: list[Any] | None = None
        self._order = np.zeros(0, np.int64)
        self._num_given = 0

    def __next__(self) -> Any:
        self._assert_not_closed()
        rows = self._window()
        if self._num_given == len(rows) == self._window_size:
            self._number += 1
            self._before = self._parent.get_state()
            self._rows, self._num_given = None, 0
            rows = self._window()
        if self._num_given == len(rows):
            raise StopIteration
        row = rows[self._order[self._num_given]]
        self._num_given += 1
        return row

    def _window(self) -> list[Any]:
        """The rows of the window, read if they are not held."""
        if self._rows is None:
            self._rows = self._read()
            self._order = hashed_permutation(len(self._rows), derive(self._seed, "window", self._number))
        return self._rows

    def _read(self) -> list[Any]:
        rows: list[Any] = []
        while len(rows) < self._window_size:
            try:
                rows.append(next(self._parent))
            except StopIteration:
                break
        return rows

    def get_state(self) -> dict[str, Any]:
        return {"parent": self._before, "window": self._number, "num_given": self._num_given}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["parent"])
        self._before, self._number, self._num_given = state["parent"], state["window"], state["num_given"]
        self._rows = None
