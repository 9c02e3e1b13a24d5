"""The measurements of JSONL files as sources."""

from functools import partial
from typing import Any

from bench import DATA, MANY, Bench
from report import Result

_BYTES = 2**30
_SOURCES = {
    "pre-training text (c4)": DATA / "llamafactory" / "c4_demo.jsonl",
    "questions (gsm8k)": DATA / "gsm8k" / "train.jsonl",
}


def jsonl_index(bench: Bench) -> list[Result]:
    """Finding the lines of a file that is in the page cache, opening the index again, and the memory it takes."""
    results: list[Result] = []
    for number, (what, source) in enumerate(_SOURCES.items()):
        file = bench.scratch / f"{number}.jsonl"
        size = bench.run("torchpipe", "jsonl_index.py", "write", file, str(_BYTES), source)["bytes"]
        measures = [
            partial(bench.run, "torchpipe", "jsonl_index.py", "index", file, bench.scratch),
            partial(bench.run, "torchpipe", "jsonl_index.py", "read", file),
        ]
        ours, theirs = bench.taking_turns(measures, MANY)
        rows = f"{ours[0]['rows'] / 1e6:.2f}M rows of {what}, {size / 1e9:.2f} GB"
        results += _of_file(rows, size, ours, theirs)
        file.unlink()
    return results


def _of_file(rows: str, size: int, ours: list[Any], theirs: list[Any]) -> list[Result]:
    bounds = (
        ("opening it again and reading a row, ms", [1000 * run["again"] for run in ours], 50, "With the index kept."),
        (
            "anonymous memory that 20,000 rows of it add, MiB",
            [run["added"] / 2**20 for run in ours],
            4,
            "The index is mapped. In memory it would take 8 bytes a row.",
        ),
    )
    return [
        Result(
            what=f"index of {rows}, GB/s",
            ours=[size / run["seconds"] / 1e9 for run in ours],
            theirs=[size / run["seconds"] / 1e9 for run in theirs],
            higher_is_better=True,
            goal=0.5,
            note="IndexedJsonlSource's first opening, which writes the index, over one thread's readinto of the same "
            "file into a buffer of a MiB; both from the page cache.",
        ),
        *(
            Result(
                what=f"{what}: {rows}",
                ours=measured,
                theirs=[bound] * len(measured),
                higher_is_better=False,
                goal=1,
                note=f"{note} Over the bound, {bound}.",
            )
            for what, measured, bound, note in bounds
        ),
    ]
