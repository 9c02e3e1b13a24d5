import runpy
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def report(repository: Path) -> dict[str, Any]:
    return runpy.run_path(str(repository / "benchmarks" / "report.py"))


def result(report: dict[str, Any], **changes: Any) -> Any:
    fields = {"what": "rows/s", "ours": [30.0, 20.0, 90.0], "theirs": [10.0, 10.0, 10.0], "higher_is_better": True}
    return report["Result"](**{**fields, "goal": 3.0, "note": "ours over theirs.", **changes})


def test_the_ratio_is_the_median_of_the_pairs_ratios(report: dict[str, Any]):
    assert result(report).ratios == [3.0, 2.0, 9.0]
    assert result(report).ratio == 3.0


@pytest.mark.parametrize(
    ("goal", "higher_is_better", "verdict"),
    [(3.0, True, "met"), (3.1, True, "NOT MET"), (3.0, False, "met"), (2.9, False, "NOT MET"), (None, True, "")],
)
def test_a_goal_is_met_when_reached(report: dict[str, Any], goal: float | None, higher_is_better: bool, verdict: str):
    assert result(report, goal=goal, higher_is_better=higher_is_better).verdict == verdict


def test_a_ratio_within_half_of_its_goal_asks_for_more_pairs(report: dict[str, Any]):
    assert result(report, goal=2.1).is_close()
    assert not result(report, goal=1.0).is_close()
    assert not result(report, goal=None).is_close()


def test_the_table_shows_what_missed_its_goal_and_every_note(report: dict[str, Any]):
    text = report["table"]([result(report), result(report, goal=4.0, note="another comparison.")])
    first, second = (line for line in text.splitlines() if "rows/s" in line)
    assert "| >= 3 | met " in first
    assert "| >= 4 | NOT MET |" in second
    assert text.endswith("1. ours over theirs.\n2. another comparison.")
    widths = {len(line) for line in text.splitlines() if line.startswith("|")}
    assert len(widths) == 1
