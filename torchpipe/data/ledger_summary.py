"""What became of a data set's rows, for people: counts by reason, and the first rows of each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from torchpipe.data.ledger import REASONS, Reason

NUM_EXAMPLES = 5
"""Rows that are named for each reason."""

_NAMES: Mapping[Reason, str] = {"nothing_trained": "no_trainable_tokens"}
"""Reasons that people know by another name than the one on the disk."""


@dataclass(frozen=True, kw_only=True)
class LedgerSummary:
    """How many rows were read and used, and why the others were not. ``read`` is the sum of all the other counts.

    Attributes:
        read: rows of the source.
        used: rows of which there is a sample.
        left_out: rows of which there is none, by reason; only reasons that occur.
        examples: the numbers of the first rows of each reason, where they are known.

    >>> pairs = np.array([[4, REASONS.index("empty")], [9, REASONS.index("empty")]])
    >>> summary = LedgerSummary.of_pairs(read=10, left_out=pairs)
    >>> summary.as_dict(), summary.examples
    ({'read': 10, 'used': 8, 'empty': 2}, {'empty': (4, 9)})
    """

    read: int
    used: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    examples: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def of_pairs(cls, *, read: int, left_out: np.ndarray) -> "LedgerSummary":
        """The summary of rows and the codes of the reasons why they were left out: int64 [rows left out, 2]."""
        counts: dict[str, int] = {}
        examples: dict[str, Sequence[int]] = {}
        for code in np.unique(left_out[:, 1]).tolist():
            rows = left_out[left_out[:, 1] == code, 0]
            name = shown_name(REASONS[code])
            counts[name] = len(rows)
            examples[name] = tuple(np.sort(rows)[:NUM_EXAMPLES].tolist())
        return cls(read=read, used=read - len(left_out), left_out=counts, examples=examples)

    @classmethod
    def joined(cls, parts: Sequence["LedgerSummary"]) -> "LedgerSummary":
        """The summary of several data sets together, without examples: a row's number says nothing without its data
        set.
        """
        reasons = list(dict.fromkeys(reason for part in parts for reason in part.left_out))
        counts = {reason: sum(part.left_out.get(reason, 0) for part in parts) for reason in reasons}
        return cls(read=sum(part.read for part in parts), used=sum(part.used for part in parts), left_out=counts)

    def after(self, left_out: Mapping[str, int]) -> "LedgerSummary":
        """The summary where more rows were left out, by reason, before these were read."""
        together = dict(Counter(self.left_out) + Counter(left_out))
        return replace(self, read=self.read + sum(left_out.values()), left_out=together)

    def as_dict(self) -> dict[str, int]:
        """``{"read": n, "used": n, <reason>: n, ...}``; only reasons that occur."""
        return {"read": self.read, "used": self.used, **self.left_out}

    def describe(self) -> str:
        """One line: rows read and used, and for each reason how many, and which first.

        >>> LedgerSummary(read=10, used=8, left_out={"empty": 2}, examples={"empty": (4, 9)}).describe()
        '10 rows read, 8 used; empty 2 (rows 4, 9)'
        """
        parts = [f"{self.read:,} rows read, {self.used:,} used"]
        return "; ".join([*parts, *described_reasons(self.left_out, self.examples)])


def described_reasons(counts: Mapping[str, int], examples: Mapping[str, Sequence[int]]) -> list[str]:
    """For each reason its count and first rows, as ``empty 2 (rows 4, 9)``."""
    return [f"{reason} {count:,}{_shown(count, examples.get(reason, ()))}" for reason, count in counts.items()]


def shown_name(reason: Reason) -> str:
    """The name by which people know a reason."""
    return _NAMES.get(reason, reason)


def _shown(count: int, rows: Sequence[int]) -> str:
    if not rows:
        return ""
    more = ", ..." if count > len(rows) else ""
    return f" ({'row' if count == 1 else 'rows'} {', '.join(map(str, rows))}{more})"
