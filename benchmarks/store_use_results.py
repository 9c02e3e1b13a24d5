"""The rows of the table that are about using a token store: starts, memory, plans, batches and balance."""

import json
from functools import cache, partial
from pathlib import Path

from bench import FEW, MANY, Bench
from report import Result
from store_inputs import write_start

MILLION_TOKENS_OF_ROWS = 1650
"""Chats that hold about a million tokens."""
LARGE = 100_000_000
_WRITTEN = "the tokenised chats, written over and over without tokenising them again"


@cache
def _starts(bench: Bench) -> dict[str, tuple[Path, Path]]:
    """Configs and their stores, of one million tokens as they were built, and of 100 million."""
    inputs, rows = bench.store_inputs, min(MILLION_TOKENS_OF_ROWS, bench.num_chats)
    return {
        "1M": write_start(inputs, num_rows=rows),
        "100M": write_start(inputs, num_rows=rows, num_tokens=min(LARGE, 5000 * bench.num_chats)),
    }


def store_start(bench: Bench) -> list[Result]:
    """The second start, up to the first packed batch."""
    results = []
    for size, (config, store) in _starts(bench).items():
        tokens = json.loads((store / "manifest.json").read_text(encoding="utf-8"))["num_tokens"]
        measures = [
            partial(bench.run, "torchpipe", "store_start.py", "start", config),
            partial(bench.run, "torchpipe", "store_start.py", "imports"),
        ]
        bench.taking_turns(measures, 1)  # the plan is kept from here on
        ours, theirs = bench.taking_turns(measures, MANY)
        if any(run["datasets"] for run in ours):
            raise RuntimeError("datasets was imported, although the store is there.")
        results.append(
            Result(
                what=f"second start to the first packed batch, {size} tokens, ms over import torch, omegaconf",
                ours=[1000 * run["seconds"] for run in ours],
                theirs=[1000 * run["seconds"] for run in theirs],
                higher_is_better=False,
                goal=1.3,
                note=f"A fresh process reads a config, opens the store of {tokens:,} tokens and its plan of "
                f"{ours[0]['packs']:,} packs, and reads a batch [4, 4096] in random order; datasets is not imported. "
                + (f"The store is {_WRITTEN}. " if size == "100M" else "")
                + "Wall time.",
            )
        )
    return results


def store_memory(bench: Bench) -> list[Result]:
    """Anonymous memory and disk of a store of 100 million tokens."""
    _, store = _starts(bench)["100M"]
    measures = [
        partial(bench.run, "torchpipe", "store_memory.py", "store", store),
        partial(bench.run, "torchpipe", "store_memory.py", "nothing"),
        partial(bench.run, "torchtune", "store_memory.py", "torchtune", bench.store_inputs),
    ]
    ours, nothing, torchtune = bench.taking_turns(measures, FEW)
    num_tokens = ours[0]["tokens"]
    limit = 8 + 0.1 * num_tokens / 2**20
    theirs = [run["rank"] / run["tokens"] for run in torchtune]
    results = [
        Result(
            what=f"anonymous memory that {num_tokens / 1e6:.0f}M tokens add, {process}, MiB over the limit",
            ours=[(own[process] - other[process]) / 2**20 for own, other in zip(ours, nothing, strict=True)],
            theirs=[limit] * len(ours),
            higher_is_better=False,
            goal=1,
            note="Anonymous of smaps_rollup after 500 batches [4, 4096] from all over the store, less that of the "
            f"same process with packs of padding alone; the limit: 8 MiB + 0.1 byte a token. The store is {_WRITTEN}. "
            f"torchtune's packs add {min(theirs):.1f} to {max(theirs):.1f} bytes a token to each rank "
            f"({torchtune[0]['tokens']:,} tokens).",
        )
        for process in ("rank", "worker")
    ]
    size = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    results.append(
        Result(
            what="disk bytes a token, the store with its plan",
            ours=[size / num_tokens],
            theirs=[4.3],
            higher_is_better=False,
            goal=1,
            note=f"All files of that store of {num_tokens:,} tokens, over 4.3 bytes a token; ids of 128,256 take four.",
        )
    )
    return results


def store_plan(bench: Bench) -> list[Result]:
    """Plans of many lengths."""
    lengths = bench.store_inputs / "samples" / "lengths.npy"

    def measure(way: str, number: int) -> partial[dict[str, float]]:
        return partial(bench.run, "torchpipe", "store_plan.py", way, lengths, str(number))

    def of_million(runs: list[list[dict[str, float]]]) -> list[Result]:
        return [
            Result(
                what="plan 1M lengths at 4096, CPU ms over a stable argsort",
                ours=[1000 * run["seconds"] for run in runs[0]],
                theirs=[1000 * run["argsort"] for run in runs[0]],
                higher_is_better=False,
                goal=6,
                note="best_fit_decreasing in a fresh process, over numpy's stable argsort of the same uint32 array. "
                "The lengths are drawn from those of the tokenised chats.",
            )
        ]

    results = bench.compare([measure("sorted", 1_000_000)], of_million)
    planned, streamed = measure("sorted", 1_000_000)(), measure("streamed", 1_000_000)()
    large = [measure("sorted", 100_000_000)() for _ in range(2)]
    bounds = (
        ("fill of that plan", [planned["fill"]], 0.9997, True, "best_fit_decreasing; tokens over places."),
        ("fill with 64 open packs, streamed", [streamed["fill"]], 0.995, True, "best_fit, packs closed as they fill."),
        ("plan 100M lengths, CPU seconds", [run["seconds"] for run in large], 20, False, "Drawn in the same way."),
        (
            "the same, GB that planning adds at its peak",
            [run["added"] / 1e9 for run in large],
            2,
            False,
            "Peak memory of the process less what it held before, the 0.4 GB of lengths. The plan itself is 1.7 GB.",
        ),
    )
    return results + [
        Result(
            what=f"{what}, over the bound {bound:g}",
            ours=measured,
            theirs=[bound] * len(measured),
            higher_is_better=higher_is_better,
            goal=1,
            note=f"{note} Numbers, no race: the ratio says how the bound is met.",
        )
        for what, measured, bound, higher_is_better, note in bounds
    ]


def store_batches(bench: Bench) -> list[Result]:
    """Packed batches out of a DataLoader."""
    measures = [partial(bench.run, package, "store_batches.py", package, bench.store_inputs) for package in _LOADERS]

    def results_of(runs: list[list[dict[str, float]]]) -> list[Result]:
        ours, torchtune, trl = runs

        def rate(some: list[dict[str, float]], name: str) -> list[float]:
            return [1e6 / run[name] for run in some]

        described = (
            ("a stack of ready packs", rate(torchtune, "ready"), 0.25, _READY),
            ("torchtune with its mask", rate(torchtune, "torchtune"), 100, _DENSE),
            ("TRL", rate(trl, "trl"), 25, "TRL's padding-free collater on its Arrow table of packs."),
        )
        return [
            Result(
                what=f"packed batches [4, 4096] a second, against {peer}",
                ours=rate(ours, "torchpipe"),
                theirs=theirs,
                higher_is_better=True,
                goal=goal,
                note=f"{note} DataLoader without workers, shuffled, CPU time.",
            )
            for peer, theirs, goal, note in described
        ]

    return bench.compare(measures, results_of)


def store_mix(bench: Bench) -> list[Result]:
    """Rows and packs of a mix of 8 sources, over those of one source that has the same rows."""
    described = (
        ("items", "stored rows", "__getitems__ of 8 shuffled rows at a time"),
        ("packs", "packs of 4,096", "assembled 4 at a time, out of the stores of all sources"),
    )
    results = []
    for way, what, how in described:
        num_rows = str(min(8000, bench.num_chats))
        runs = [bench.run("torchpipe", "mix.py", way, bench.store_inputs, num_rows) for _ in range(FEW)]
        for run in runs:
            if run["one"]["gave"] != run["mix"]["gave"]:
                raise RuntimeError(f"The mix gave {run['mix']} and one source {run['one']}: they are not compared.")
        results.append(
            Result(
                what=f"a mix of 8 sources, {what}, ms over one source's",
                ours=[1000 * run["mix"]["seconds"] for run in runs],
                theirs=[1000 * run["one"]["seconds"] for run in runs],
                higher_is_better=False,
                goal=1.1,
                note=f"The same chats in eight stores and in one: {how}; CPU time, the quickest of 5 passes that take "
                "turns in each process.",
            )
        )
    return results


_READY = (
    "torchtune's packs, int64 tensors in memory, stacked without a mask, which nothing can train on; torchpipe reads a "
    "store and makes offsets. Against such a loader at most about 1.6x is to be had by anyone."
)
_DENSE = (
    "torchtune's own collater: nearly all of its time is the dense mask [4, 4096, 4096], which torchpipe doesn't make."
)
_LOADERS = ("torchpipe", "torchtune", "trl")


def store_waiting(bench: Bench) -> list[Result]:
    """The time that a training loop waits for batches."""
    _, store = _starts(bench)["100M"]
    results = []
    for workers, goal, remark in (
        (0, 1, "A thread reads the next step's batch meanwhile."),
        (2, 1, "Batches come out of workers, and a thread takes them over."),
    ):
        shares = [bench.run("torchpipe", "store_waiting.py", store, "100", str(workers)) for _ in range(FEW)]
        results.append(
            Result(
                what=f"waiting for batches [4, 4096] at steps of 50 ms, {workers} workers, percent over 1 percent",
                ours=[100 * run["share"] for run in shares],
                theirs=[1.0] * len(shares),
                higher_is_better=False,
                goal=goal,
                note=f"100 steps that sleep, as a process does that waits for its accelerator. {remark} Wall time.",
            )
        )
    return results


def store_balance(bench: Bench) -> list[Result]:
    """How even the ranks are."""
    lengths = bench.store_inputs / "mixed_lengths.npy"
    found = bench.run("torchpipe", "store_balance.py", lengths, "200000")
    results = []
    for setting, spreads in found["spreads"].items():
        cost, packs_a_rank = setting.split(", ")
        said = "; ".join(
            f"{name}: {one['worst']:.3f} worst, {one['mean']:.3f} mean, {one['length_correlation']:+.2f} correlation"
            for name, one in spreads.items()
        )
        results.append(
            Result(
                what=f"balance at 32,768, {cost}, {packs_a_rank} packs a rank: worst step's max over mean",
                ours=[spreads["within_step"]["worst"]],
                theirs=[1.0],
                higher_is_better=False,
                goal=1.05 if cost == "8B" and packs_a_rank != "1" else None,
                note=f"within_step, {'cost of Llama 3 8B' if cost == '8B' else 'attention alone'}, 64 ranks, "
                f"{found['packs']:,} packs, fill {found['fill']:.4f}. {said} (of a step's cost with the mean length "
                "of its documents). "
                + ("One pack a rank leaves nothing to choose within a step. " if packs_a_rank == "1" else "")
                + "The goal asks for 1.10 or more of random.",
            )
        )
    return results
