"""The table of ratios."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Result:
    """One row of the table.

    Attributes:
        what: what is measured, and in which unit.
        ours, theirs: one measurement a pair, in that unit.
        higher_is_better: whether the ratio ours / theirs should be large.
        goal: the ratio to reach; None for a row that only gives context.
        note: what is compared with what.
    """

    what: str
    ours: Sequence[float]
    theirs: Sequence[float]
    higher_is_better: bool
    goal: float | None
    note: str

    @property
    def ratios(self) -> list[float]:
        """Ours over theirs, pair by pair."""
        return [own / other for own, other in zip(self.ours, self.theirs, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios."""
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> Literal["met", "NOT MET", ""]:
        """Whether the goal is reached."""
        if self.goal is None:
            return ""
        met = self.ratio >= self.goal if self.higher_is_better else self.ratio <= self.goal
        return "met" if met else "NOT MET"

    def is_close(self) -> bool:
        """Whether the ratio is within a factor of 1.5 of the goal, so that more pairs are needed."""
        return self.goal is not None and 1 / 1.5 < self.ratio / self.goal < 1.5


def table(results: Sequence[Result]) -> str:
    """The results as an aligned Markdown table, ours over theirs, and their notes as a list."""
    header = ["", "what", "ours", "theirs", "ratio", "lowest-highest", "pairs", "goal", "result"]
    rows = [header]
    for number, result in enumerate(results, start=1):
        goal = "-" if result.goal is None else f"{'>=' if result.higher_is_better else '<='} {result.goal:g}"
        rows.append(
            [
                str(number),
                result.what,
                f"{statistics.median(result.ours):,.4g}",
                f"{statistics.median(result.theirs):,.4g}",
                f"{result.ratio:.2f}",
                f"{min(result.ratios):.2f}-{max(result.ratios):.2f}",
                str(len(result.ratios)),
                goal,
                result.verdict,
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    notes = [f"{number}. {result.note}" for number, result in enumerate(results, start=1)]
    return "\n".join([*lines, "", *notes])
