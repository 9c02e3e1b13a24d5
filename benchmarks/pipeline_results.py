"""The measurements of the declarative pipeline: planned graphs over the same graph in Grain alone."""

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

from bench import FEW, Bench
from report import Result

NUM_DOCUMENTS = 200_000
FEW_DOCUMENTS = 20_000
"""Where Grain reads in 16 threads, and where memory is compared with that of ten times as many."""
NUM_SAMPLES = 5_000_000
_ROWS = "source, shuffle, map, first-fit packing to rows of 4,096 tokens"
_GRAIN = {
    "stages": "in as few stages as give the same batches; neither has a thread. The same documents, memory-mapped; CPU "
    "time of an epoch.",
    "torchtitan": "by the stages of torchtitan's configs, as far as we know them. Both prefetch two batches.",
}


@cache
def _documents(bench: Bench, number: int) -> tuple[Path, Path]:
    """The folder of so many documents, and the cache of a store of them; the store is not built yet."""
    folder = bench.scratch / f"{number}_documents"
    bench.run("torchpipe", "pipeline_documents.py", folder, str(number))
    return folder, bench.scratch / f"{number}_documents.cache"


@cache
def _first_pass(bench: Bench, number: int) -> Any:
    """What the first pass over so many documents told, which builds their store."""
    return bench.run("torchpipe", "pipeline_rows.py", "planned", *_documents(bench, number), "0")


def pipeline_rows(bench: Bench) -> list[Result]:
    """Batches a second, fill and state of the planned graph over Grain's."""
    (folder, store), first = _documents(bench, NUM_DOCUMENTS), _first_pass(bench, NUM_DOCUMENTS)
    planned = partial(bench.run, "torchpipe", "pipeline_rows.py", "planned", folder, store)
    measures = [partial(planned, number) for number in ("0", "2")]
    measures += [partial(bench.run, "torchpipe", "pipeline_grain.py", way, folder, "0") for way in _GRAIN]
    inline, ahead, *others = bench.taking_turns(measures, FEW)
    what = f"{_ROWS}, {NUM_DOCUMENTS // 1000}k documents: batches/s"
    both = first["build_cpu"] + first["rows_cpu"]
    results = []
    for (way, how), ours, theirs in zip(_GRAIN.items(), (inline, ahead), others, strict=True):
        results += [
            Result(
                what=f"{what}, over Grain {way}",
                ours=_rate(ours),
                theirs=_rate(theirs),
                higher_is_better=True,
                goal=10,
                note="Of a store that was built before, opened and planned anew, over Grain alone " + how,
            ),
            Result(
                what="the same, the first epoch with the build of the store",
                ours=[first["rows"] / both] * FEW,
                theirs=_rate(theirs),
                higher_is_better=True,
                goal=None,
                note=f"The build takes {first['build_cpu']:.1f} CPU seconds in all its processes, once; the first "
                f"epoch {first['rows_cpu']:.1f}, and Grain's, every epoch, {theirs[0]['rows_cpu']:.1f}.",
            ),
        ]
    return [
        *results,
        *_threads(bench),
        Result(
            what="fill of these rows, over the bound 0.999",
            ours=[run["fill"] for run in inline],
            theirs=[0.999] * FEW,
            higher_is_better=True,
            goal=1,
            note=f"Tokens over places; Grain's rows have {others[0][0]['fill']:.4f}.",
        ),
        Result(
            what="state of a rank, bytes over the bound 1024",
            ours=[len(json.dumps(run["state"])) for run in inline],
            theirs=[1024] * FEW,
            higher_is_better=False,
            goal=1,
            note="state_dict() as JSON.",
        ),
    ]


def _threads(bench: Bench) -> list[Result]:
    """The same over Grain as torchtitan sets it, with 16 threads that read."""
    (folder, store), _ = _documents(bench, FEW_DOCUMENTS), _first_pass(bench, FEW_DOCUMENTS)
    measures = [
        partial(bench.run, "torchpipe", "pipeline_rows.py", "planned", folder, store, "2"),
        partial(bench.run, "torchpipe", "pipeline_grain.py", "torchtitan", folder, "16"),
    ]
    ours, theirs = bench.taking_turns(measures, FEW)
    return [
        Result(
            what=f"the same of {FEW_DOCUMENTS // 1000}k documents, over Grain torchtitan with its 16 threads",
            ours=_rate(ours),
            theirs=_rate(theirs),
            higher_is_better=True,
            goal=10,
            note="As before, with Grain's and torchtitan's default read options: 16 threads, 500 documents ahead.",
        )
    ]


def _rate(runs: list[Any]) -> list[float]:
    return [run["rows"] / run["rows_cpu"] for run in runs]


def pipeline_restore(bench: Bench) -> list[Result]:
    """Going on in a fresh process at several places of an epoch."""
    (folder, store), first = _documents(bench, NUM_DOCUMENTS), _first_pass(bench, NUM_DOCUMENTS)
    results = []
    for share, epoch in ((0.0, 0), (0.5, 0), (1.0, 0), (0.5, 7)):
        state = {**first["state"], "epoch": epoch, "row": round(share * (first["rows"] - 1))}
        restore = partial(bench.run, "torchpipe", "pipeline_rows.py", "restore", folder, store, json.dumps(state))
        runs = [restore() for _ in range(FEW)]
        results.append(
            Result(
                what=f"restore at {share:.0%} of epoch {epoch}, seconds over the bound 1",
                ours=[run["restore_wall"] for run in runs],
                theirs=[1.0] * FEW,
                higher_is_better=False,
                goal=1,
                note="Wall time in a fresh process, behind its imports, until the first batch; the store is there."
                + (" The first of these processes plans that epoch, the others find its plan." if epoch else ""),
            )
        )
    return results


def pipeline_memory(bench: Bench) -> list[Result]:
    """What a corpus of ten times the size adds to a rank and to a worker."""
    measures = []
    for number in (NUM_DOCUMENTS, FEW_DOCUMENTS):
        _first_pass(bench, number)
        place = _documents(bench, number)
        measures.append(partial(bench.run, "torchpipe", "pipeline_rows.py", "memory", *place, "300"))
    large, small = bench.taking_turns(measures, FEW)
    return [
        Result(
            what=f"anonymous memory that 10x the documents add, {process}, MiB over the bound 4",
            ours=[(more[process] - less[process]) / 2**20 for more, less in zip(large, small, strict=True)],
            theirs=[4.0] * FEW,
            higher_is_better=False,
            goal=1,
            note=f"Anonymous of smaps_rollup after 300 batches, of {NUM_DOCUMENTS:,} documents less that of "
            f"{FEW_DOCUMENTS:,}.",
        )
        for process in ("rank", "worker")
    ]


def pipeline_plan(bench: Bench) -> list[Result]:
    """An epoch's plan of five million samples, made and found."""
    folder = bench.scratch / "many_samples"
    bench.run("torchpipe", "pipeline_plan.py", "write", folder, str(NUM_SAMPLES))
    made, found = [], []
    for _ in range(FEW):
        made.append(bench.run("torchpipe", "pipeline_plan.py", "plan", folder))
        found.append(bench.run("torchpipe", "pipeline_plan.py", "plan", folder))
        bench.run("torchpipe", "pipeline_plan.py", "forget", folder)
    described = (
        ("made: CPU seconds", [run["cpu"] for run in made], 10, "Shuffled, fitted, packed, and written to a file."),
        (
            "made: GB that it adds at its peak",
            [run["peak"] / 1e9 for run in made],
            1,
            "Peak resident memory, mapped files included.",
        ),
        ("made: anonymous MiB after it", [run["steady"] / 2**20 for run in made], 64, "Of the process that made it."),
        ("found: CPU seconds", [run["cpu"] for run in found], 1, "In every later process; its checksum is compared."),
        ("found: anonymous MiB after it", [run["steady"] / 2**20 for run in found], 4, "Every rank and worker."),
    )
    return [
        Result(
            what=f"plan of {NUM_SAMPLES / 1e6:.0f}M samples, {what}, over the bound {bound}",
            ours=measured,
            theirs=[float(bound)] * FEW,
            higher_is_better=False,
            goal=1,
            note=f"{note} Numbers, no race: the ratio says how the bound is met.",
        )
        for what, measured, bound, note in described
    ]
