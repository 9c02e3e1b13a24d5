"""The rows of the table that are about building the doors of data sets."""

from typing import Any

from bench import FEW, Bench
from door_rows import DOORS
from report import Result

ROWS = 2000
"""Chats, and questions, that the doors' rows are made of."""


def doors(bench: Bench) -> list[Result]:
    """Rows to tokens and labels by each door, and finding the layout of each row, over encoding the texts alone."""
    chats = bench.chats(ROWS)
    if chats is None:
        return []
    given = [chats, bench.gsm8k, bench.tokenizer, str(ROWS)]
    [runs] = bench.taking_turns([lambda: bench.run("torchpipe", "doors.py", *given)], FEW)
    return [*(_door(name, [run[name] for run in runs]) for name in DOORS), *_detection(runs)]


def _door(name: str, runs: list[dict[str, Any]]) -> Result:
    door = DOORS[name]
    within = Result(
        what=name,
        ours=[run["door"] for run in runs],
        theirs=[run["contained"] for run in runs],
        higher_is_better=False,
        goal=None,
        note="",
    )
    of = "the common chat workload" if door.of_chats else "gsm8k"
    return Result(
        what=f"door {name}, µs a row over tiktoken's",
        ours=[1e6 * run["door"] / run["rows"] for run in runs],
        theirs=[1e6 * run["alone"] / run["rows"] for run in runs],
        higher_is_better=False,
        goal=1.2,
        note=f"{door.builder}: {runs[0]['rows']:,} rows of {of}, in memory, to a shard's arrays, over tiktoken's "
        "encode_ordinary on each text of the same messages and nothing else; CPU time; the two take turns at each 256 "
        f"rows. The door takes {within.ratio:.2f} times the time that it is in tiktoken itself.",
    )


def _detection(runs: list[Any]) -> list[Result]:
    return [
        Result(
            what=f"finding the shape of each row, {name}, µs over tiktoken's",
            ours=[1e6 * run[name]["detection"] / run[name]["rows"] for run in runs],
            theirs=[1e6 * run[name]["alone"] / run[name]["rows"] for run in runs],
            higher_is_better=False,
            goal=0.05,
            note=f"DetectedToMessages.shape_of, once a row, over tiktoken's encode_ordinary on {what}.",
        )
        for name, what in (("messages", "chats in four layouts"), ("messages, short rows", "questions and answers"))
    ]
