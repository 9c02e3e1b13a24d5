"""What filters and a processor make of one row of a source, and what becomes of a row that can't be used."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from torchpipe._counted import counted
from torchpipe.data.protocols import can_be_read_ahead
from torchpipe.data.row_policy import Refused, RowPolicy
from torchpipe.errors import DataError, SourceError, located
from torchpipe.pipeline.by_grain.ledger import NodeLedger
from torchpipe.pipeline.by_grain.when_given import is_read_ahead, when_given
from torchpipe.pipeline.global_draws import GlobalDraws, makers_called
from torchpipe.pipeline.graph_words import with_graph_words
from torchpipe.pipeline.processors import without_draws
from torchpipe.pipeline.sequences import TextSequence, checked_arrays, sequence_of

_FEWEST_OF_A_STREAM = 1000
"""A stream does not say how many rows it has. Its share of errors is one of so many rows, until more were read."""


class RowMaker:
    """Makes what packing takes of a row: pre filters, processor, post filters.

    Args:
        pre_filters: functions of a row.
        processor: a :class:`~torchpipe.pipeline.SampleProcessor`, or None.
        post_filters: functions of what it gives.
        policy: what becomes of a row that raises a DataError.
        called: what errors call the source.
        num_rows: of the source; None: a stream.
        ledger: where rows are counted.
    """

    def __init__(
        self,
        *,
        pre_filters: Sequence[Callable[[Any], Any]],
        processor: Any,
        post_filters: Sequence[Callable[[Any], Any]],
        policy: RowPolicy,
        called: str,
        num_rows: int | None,
        ledger: NodeLedger,
    ) -> None:
        self._pre_filters = pre_filters
        self._processor = processor
        self._is_deterministic = getattr(processor, "deterministic", None) is True
        self._post_filters = post_filters
        self._called = called
        self._policy = policy
        self._draws = GlobalDraws(makers_called(processor, pre_filters, post_filters), called)
        self._errors = _Errors(policy, called, num_rows)
        self.ledger = ledger

    @property
    def can_be_read_ahead(self) -> bool:
        """Whether several threads may call the processor, as far as it says so."""
        return self._processor is None or can_be_read_ahead(self._processor)

    @property
    def draws(self) -> bool:
        """Whether a processor may draw random numbers."""
        return self._processor is not None and not self._is_deterministic

    @property
    def may_leave_out(self) -> bool:
        """Whether it may give nothing for a row."""
        return bool(self._pre_filters or self._processor or self._post_filters or self._policy.leaves_out)

    def __call__(self, number: int, read: Callable[[], Any], rng: np.random.Generator | None) -> Any:
        """What becomes of a row; None: it is left out, and counted under its reason once the row is given.

        Args:
            number: of the row in its source.
            read: gives the row.
            rng: for the processor, where it may draw.

        Raises:
            Exception: what reading it, a filter or the processor raised, with the row's number. A DataError only where
                the policy is "raise", or more rows have one than it allows.
        """
        content: Any = None
        try:
            content = read()
            made, reason = self._watched(content, rng)
            is_split = _is_split(made)
        except DataError as error:
            error = located(with_graph_words(error), f"Row {number} of {self._called}")
            if not self._policy.leaves_out or not isinstance(error, DataError):
                raise
            refused, bad_row = error, content
            when_given(lambda: self._count_error(number, refused, bad_row))
            return None
        except Exception as error:
            raise located(error, f"Row {number} of {self._called}") from error.__cause__
        when_given(lambda: self._count(reason, is_split))
        return made

    def _watched(self, content: Any, rng: np.random.Generator | None) -> tuple[Any, str | None]:
        """What becomes of a row, and a warning where that depends on the program's own random numbers."""
        if is_read_ahead():  # beside rows whose sources may draw, to wait before they ask a server again
            return self._made(content, rng)
        return self._draws.watched(lambda: self._made(content, rng))

    def _count(self, reason: str | None, is_split: bool) -> None:
        self.ledger.took()
        if is_split:
            self.ledger.split()
        if reason is None:
            self.ledger.gave()
        else:
            self.ledger.left_out(reason)

    def _count_error(self, number: int, error: DataError, content: Any) -> None:
        self.ledger.took()
        self.ledger.refused(error)
        self._errors.add(number, error, content, self.ledger.rows_in)

    def ended(self) -> None:
        """Says that a stream has ended, and all of its rows were read.

        Raises:
            DataError: more of them had errors than the policy allows.
        """
        self._errors.check(self.ledger.rows_in)

    def _made(self, content: Any, rng: np.random.Generator | None) -> tuple[Any, str | None]:
        """What becomes of a row, or the reason why nothing does."""
        if content is None:
            return None, "empty"
        if not all(keeps(content) for keeps in self._pre_filters):
            return None, "filtered"
        made: Any = sequence_of(content) if self._processor is None else content
        if self._processor is not None:
            made, reason = self._outcome(content, rng)
            if made is None:
                return None, reason or "dropped"
        if not all(keeps(made) for keeps in self._post_filters):
            return None, "filtered"
        if isinstance(made, TextSequence) and not len(checked_arrays(made).input_ids):
            return None, "empty"
        return made, None

    def _outcome(self, content: Any, rng: np.random.Generator | None) -> tuple[Any, str | None]:
        """What the processor gives, and why it gives nothing."""
        if self._is_deterministic:
            return without_draws(self._processor, content)
        # A SampleProcessor gives the reason with it; any other callable of its form does not.
        outcome = getattr(self._processor, "outcome", None)
        return (self._processor(content, rng), None) if outcome is None else outcome(content, rng)


def _is_split(made: Any) -> bool:
    """Whether a row became several documents."""
    positions = getattr(made, "positions", None)
    return positions is not None and int(np.count_nonzero(np.equal(positions, 0))) > 1


class _Errors:
    """The rows of a source that were left out for an error. Each counts once, however often it is read."""

    def __init__(self, policy: RowPolicy, called: str, num_rows: int | None) -> None:
        self._policy = policy
        self._called = called
        self._num_rows = num_rows
        self._rows: set[int] = set()
        self._lock = Lock()

    def add(self, number: int, error: DataError, content: Any, num_read: int) -> None:
        """Counts a row, and writes it to the policy's file."""
        refused = Refused.by(error, content if content is not None else getattr(error, "text", None))
        with self._lock:
            if number in self._rows:
                return
            self._rows.add(number)
            if self._policy.quarantine_file is not None:
                self._write(refused.line(number, self._called), self._policy.quarantine_file)
        self.check(max(num_read, _FEWEST_OF_A_STREAM), error)

    def check(self, num_read: int, error: DataError | None = None) -> None:
        """Refuses more rows than the policy allows of so many."""
        num_rows = num_read if self._num_rows is None else self._num_rows
        allowed = self._policy.num_allowed(num_rows)
        if len(self._rows) > allowed:
            first = "" if error is None else f" The last: {error}"
            raise DataError(
                f"{self._called}: {counted(len(self._rows), 'row')} with an error, and max_error_share="
                f"{self._policy.max_error_share} of {counted(num_rows, 'row')} allows {allowed:,}. Correct them, or "
                f"raise it.{first}"
            ) from error

    @staticmethod
    def _write(line: bytes, file: str) -> None:
        try:
            path = Path(file)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab", buffering=0) as opened:  # in one write, so that lines of several processes stay whole
                opened.write(line)
        except OSError as error:
            raise SourceError(
                f"{file}: a row that was left out can't be written there ({error.strerror or error}). Make room, or "
                "set quarantine_file to another place."
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = Lock()
