"""A part's share of a stream that knows neither of parts nor of repetition."""

from typing import Any

import grain

from torchpipe.errors import DataError
from torchpipe.pipeline.types import DatasetIterationPolicy


class StreamShare(grain.IterDataset[Any]):
    """Every n-th row of a stream, from the rank's number on, and again from the begin where rows repeat.

    Each part reads all rows. A stream that can read its own alone is described by a source config, whose ``build`` is
    handed the policy.

    Args:
        parent: the stream, which ends after one pass.
        policy: its rank, number of ranks and repetition hold.
        called: what errors call the stream.

    Raises (when a row is asked for):
        DataError: an epoch that is to be repeated has fewer rows than there are parts.
    """

    def __init__(self, parent: grain.IterDataset[Any], policy: DatasetIterationPolicy, *, called: str) -> None:
        super().__init__(parent)
        self._policy = policy
        self._called = called

    def __iter__(self) -> grain.DatasetIterator[Any]:
        return _ShareIterator(self._parent.__iter__(), self._policy, self._called)

    def __str__(self) -> str:
        return f"StreamShare({self._called}, {self._policy.dp_rank} of {self._policy.dp_world_size})"


class _ShareIterator(grain.DatasetIterator[Any]):
    def __init__(self, parent: grain.DatasetIterator[Any], policy: DatasetIterationPolicy, called: str) -> None:
        super().__init__(parent)
        self._policy = policy
        self._called = called
        self._begin = parent.get_state()
        self._next = 0  # the number of the next row in its epoch

    def __next__(self) -> Any:
        part, num_parts = self._policy.dp_rank, self._policy.dp_world_size
        while True:
            try:
                row = next(self._parent)
            except StopIteration:
                self._end_epoch(num_parts)
                continue
            self._next += 1
            if (self._next - 1) % num_parts == part:
                return row

    def _end_epoch(self, num_parts: int) -> None:
        if not self._policy.repeat or not self._next:
            raise StopIteration
        if self._next < num_parts:
            raise DataError(
                f"{self._called} has {self._next} rows, fewer than the {num_parts} ranks (or logical shards) that "
                "share it. Use fewer, or more rows."
            )
        self._parent.set_state(self._begin)
        self._next = 0

    def get_state(self) -> dict[str, Any]:
        return {"parent": self._parent.get_state(), "next_row": self._next}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["parent"])
        self._next = state["next_row"]
