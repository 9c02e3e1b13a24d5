"""The rows of a stream and their numbers: all of them, or one part's share."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchpipe.errors import DataError, located
from torchpipe.pipeline.by_grain.library import grain
from torchpipe.pipeline.types import DatasetIterationPolicy


@dataclass(frozen=True, kw_only=True)
class StreamShare:
    """Which rows of a stream are kept, and what becomes of its end.

    Attributes:
        part, num_parts: row i is kept where ``i % num_parts == part``. Rows are counted on over all passes, so that
            parts have equally many, and a stream may have fewer rows than there are parts.
        repeat: whether it begins again where it ends.
    """

    part: int = 0
    num_parts: int = 1
    repeat: bool = False

    @classmethod
    def of(cls, policy: DatasetIterationPolicy) -> "StreamShare":
        """The share of a rank."""
        return cls(part=policy.dp_rank, num_parts=policy.dp_world_size, repeat=policy.repeat)


class Numbered(NamedTuple):
    """A row of a stream.

    Attributes:
        place: how many rows the stream gave before it, in all passes.
        number: how many of these in the same pass.
        row: the row.
    """

    place: int
    number: int
    row: Any


class NumberedRows(grain.IterDataset[Numbered]):
    """The rows of a stream that a share has, each with its number.

    Rows of other shares are read too, and dropped: a stream of Grain doesn't say how to do without. One that can is
    given as a config, whose ``build`` is told the part.

    Args:
        parent: the stream.
        share: which rows.
        called: what errors call it.

    Raises (when a row is asked for):
        DataError: it is to begin again, and has no rows.
    """

    def __init__(self, parent: grain.IterDataset[Any], *, share: StreamShare, called: str) -> None:
        super().__init__(parent)
        self._share = share
        self._called = called

    def __iter__(self) -> grain.DatasetIterator[Numbered]:
        return _NumberedIterator(self._parent.__iter__(), self._share, self._called)

    def __str__(self) -> str:
        return f"NumberedRows({self._called}, {self._share.part} of {self._share.num_parts})"


class _NumberedIterator(grain.DatasetIterator[Numbered]):
    """Its state is that of the stream, how many rows it gave, and how many of these before its last pass."""

    def __init__(self, parent: grain.DatasetIterator[Any], share: StreamShare, called: str) -> None:
        super().__init__(parent)
        self._share = share
        self._called = called
        self._first_state = deepcopy(parent.get_state()) if share.repeat else None
        self._next = self._pass_begin = 0

    def __next__(self) -> Numbered:
        self._assert_not_closed()
        while True:
            row = self._read()
            place = self._next
            self._next += 1
            if place % self._share.num_parts == self._share.part:
                return Numbered(place, place - self._pass_begin, row)

    def _read(self) -> Any:
        """The next row of the stream, perhaps of another pass."""
        try:
            return self._of_this_pass()
        except StopIteration:
            if self._first_state is None:
                raise
        self._parent.set_state(deepcopy(self._first_state))
        self._pass_begin = self._next
        try:
            return self._of_this_pass()
        except StopIteration:
            raise DataError(
                f"{self._called} has no rows, and repeat is True: it would be begun again for ever. Give it rows, or "
                "set repeat=False."
            ) from None

    def _of_this_pass(self) -> Any:
        try:
            return next(self._parent)
        except StopIteration:
            raise
        except Exception as error:
            # Whether a stream goes on behind a row that it can't read is not known, so no policy leaves it out.
            raise located(error, f"Row {self._next - self._pass_begin} of {self._called}") from error.__cause__

    def get_state(self) -> dict[str, Any]:
        return {"parent": self._parent.get_state(), "next_row": self._next, "pass_begin": self._pass_begin}

    def set_state(self, state: dict[str, Any]) -> None:
        self._parent.set_state(state["parent"])
        self._next, self._pass_begin = state["next_row"], state["pass_begin"]
