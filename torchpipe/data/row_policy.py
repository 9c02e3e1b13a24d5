"""What becomes of a row that can't be used: it is raised, or left out and counted, up to a share of all rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.ledger import REASONS, Reason
from torchpipe.data.ledger_summary import shown_name
from torchpipe.errors import ConfigError, DataError

OnError = Literal["raise", "skip", "quarantine"]
"""What becomes of a row that raises a :class:`~torchpipe.errors.DataError`: the error is raised, and names the row; the
row is left out and counted by its reason; that, and the row is written to ``quarantine_file``. Every other exception is
raised in any case: it is a mistake in a transform or on the machine, not in a row."""

OnUntrained = Literal["leave_out", "keep", "raise"]
"""What becomes of a row none of whose tokens is trained: left out and counted, a sample like others, or an error."""


@dataclass(frozen=True, kw_only=True)
class RowPolicy:
    """What becomes of rows that can't be used, or that train nothing.

    Attributes:
        on_error: see :data:`OnError`.
        max_error_share: the largest share of all rows of the source that may be left out for an error, 0 to 1. Once
            more of them are, building fails.
        quarantine_file: where "quarantine" writes those rows, a JSON object a line.
        on_untrained: see :data:`OnUntrained`.

    Raises:
        ConfigError: a value is not possible, or has no effect.

    >>> RowPolicy(on_error="skip", max_error_share=0.01).num_allowed(250)
    2
    """

    on_error: OnError = "raise"
    max_error_share: float = 1.0
    quarantine_file: str | None = None
    on_untrained: OnUntrained = "leave_out"

    def __post_init__(self) -> None:
        for name, value, allowed in (
            ("on_error", self.on_error, get_args(OnError)),
            ("on_untrained", self.on_untrained, get_args(OnUntrained)),
        ):
            if value not in allowed:
                raise ConfigError(
                    f"{name} is {value!r}. It is one of {listed(allowed)}.{did_you_mean(str(value), allowed)}"
                )
        share = self.max_error_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ConfigError(f"max_error_share is {share!r}. Give a share of all rows, from 0 to 1, such as 0.01.")
        if share != 1 and self.on_error == "raise":
            raise ConfigError(
                f"max_error_share={share!r} has no effect with on_error='raise'. Set it to 'skip' or 'quarantine'."
            )
        if (self.quarantine_file is not None) != (self.on_error == "quarantine"):
            raise ConfigError(
                f"quarantine_file is {self.quarantine_file!r} and on_error {self.on_error!r}. on_error='quarantine' "
                "needs the path of a file to write, and no other takes one."
            )

    @property
    def leaves_out(self) -> bool:
        """Whether a row with an error is left out rather than raised."""
        return self.on_error != "raise"

    def without_file(self) -> "RowPolicy":
        """The policy by which the same rows are left out, and written nowhere."""
        return self if self.quarantine_file is None else replace(self, on_error="skip", quarantine_file=None)

    def num_allowed(self, num_rows: int) -> int:
        """How many of so many rows may be left out for an error."""
        return int(self.max_error_share * num_rows + 1e-9)  # 0.29 * 100 is a little below 29


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A row that is left out for an error.

    Attributes:
        reason: of the error.
        sentence: of the error, which names the row.
        content: the row; the text of one that is not valid JSON; None where neither can be had.
    """

    reason: Reason
    sentence: str
    content: Any = None

    @classmethod
    def by(cls, error: DataError, content: Mapping[str, Any] | str | None) -> "Refused":
        """The row that an error refuses.

        Raises:
            ConfigError: the error gives a reason that there is none of.
        """
        if error.reason not in REASONS:
            near = did_you_mean(error.reason, REASONS)
            raise ConfigError(
                f"{error} A {type(error).__name__} gave the reason {error.reason!r}, and a ledger counts by "
                f"{listed(REASONS)}.{near}"
            )
        return cls(reason=error.reason, sentence=str(error), content=content)

    def line(self, row: int, source: str) -> bytes:
        """The row as a line of JSON: ``source``, ``row``, ``reason``, ``error``, and the row itself as ``content``,
        which is null where JSON has no form for it.
        """
        told = {"source": source, "row": row, "reason": shown_name(self.reason), "error": self.sentence}
        try:
            text = json.dumps({**told, "content": self.content}, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            text = json.dumps({**told, "content": None, "unwritten": str(error)}, ensure_ascii=False)
        try:
            return text.encode() + b"\n"
        except UnicodeEncodeError:  # half of a surrogate pair, which has a form in JSON, and none in UTF-8
            return json.dumps(json.loads(text)).encode() + b"\n"
