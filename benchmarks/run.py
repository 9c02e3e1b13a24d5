"""Measures torchpipe against torchtune, TRL, transformers, Grain and its own limits, and prints one table of ratios.

    make bench              all of them
    make bench ONLY=store   those whose names begin so: of MEASURES below

Every measurement is a fresh process on one thread; what is compared takes turns. It needs the shared data folder
(TORCHPIPE_TEST_DATA) and, once, some minutes to install the peers (see ``peers.py``). The table also goes to
``runs/bench.md``. TORCHPIPE_BENCH_ROWS (20,000) says how many chats the token store's measures are given; they write
about 1.5 GB to the folder for temporary files, and delete it. On a machine that does other work, ratios hold better
than figures, and neither holds well.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench import DATA, FEW, MANY, PACKAGES, Bench
from door_results import doors
from jsonl_results import jsonl_index
from machine import machine
from peers import REPOSITORY
from pipeline_results import pipeline_memory, pipeline_plan, pipeline_restore, pipeline_rows
from report import Result, table
from store_build_results import store_build, store_pack, store_rows
from store_use_results import (
    store_balance,
    store_batches,
    store_memory,
    store_mix,
    store_plan,
    store_start,
    store_waiting,
)
from template_results import chat_templates
from tokenizer_inputs import write_inputs
from transformers_results import transformers_steps


def training_steps(bench: Bench) -> list[Result]:
    """Packed steps of the tiny model: offsets of documents against the dense mask, and against torchtune's modules."""
    results = []
    for shape, with_peer in (("config", False), ("long", True), ("longest", False)):
        batch = bench.scratch / f"{shape}.pt"
        data = [] if shape == "config" else ["--data-file", bench.gsm8k]
        made = bench.run("torchpipe", "training_step.py", "prepare", shape, batch, *data)
        measures = [lambda batch=batch: bench.run("torchpipe", "training_step.py", "torchpipe", "varlen,dense", batch)]
        if with_peer:
            measures.append(lambda batch=batch: bench.run("torchtune", "training_step.py", "torchtune", "dense", batch))
        runs = bench.taking_turns(measures, FEW)

        def speeds(runs: list[Any], mask: str, num_tokens: int = made["tokens"]) -> list[float]:
            return [num_tokens / milliseconds for run in runs for milliseconds in run[mask]]

        what = f"packed training step, {made['shape']}, thousand tokens/s"
        documents = (
            f"forward, backward and AdamW on {made['documents']} documents of {made['of']}, float32; masks made before"
        )
        varlen = speeds(runs[0], "varlen")
        results.append(
            Result(
                what=what,
                ours=varlen,
                theirs=speeds(runs[0], "dense"),
                higher_is_better=True,
                goal=3,
                note=f"The tiny model with the documents' offsets, over the same model with a dense mask; {documents}.",
            )
        )
        if with_peer:
            results.append(
                Result(
                    what=f"{what}, against torchtune",
                    ours=varlen,
                    theirs=speeds(runs[1], "dense"),
                    higher_is_better=True,
                    goal=None,
                    note="The same step, over torchtune's own modules of these sizes, its dense mask and chunked loss.",
                )
            )
    return results


def reading_rows(bench: Bench) -> list[Result]:
    """Rows to samples and to batches, each package with its own data set and tokenizer on the same files."""
    tasks = {"rows": bench.gsm8k, "batches": bench.gsm8k}
    if chats := bench.chats(3000):
        tasks["chats"] = chats
    arguments = [bench.tokenizer, *(f"{task}={file}" for task, file in tasks.items())]
    same = "same rows, tokenizer file and tokens; CPU time of one pass, without imports and opening the file"
    described = {
        "rows": ("gsm8k rows/s, instruct_dataset", f"torchpipe's samples over torchtune 0.6.1's: {same}."),
        "batches": (
            "gsm8k rows/s, in batches of 8",
            "The same through a DataLoader without workers and padded_collate_sft.",
        ),
        "chats": ("chat rows/s, chat_dataset", f"3,000 rows of the common chat workload: {same}."),
    }
    measures = [lambda package=package: bench.run(package, "read_rows.py", package, *arguments) for package in PACKAGES]
    results: list[Result] = []
    ours: list[Any] = []
    theirs: list[Any] = []
    for rounds in (FEW, MANY - FEW):
        more = bench.taking_turns(measures, rounds)
        ours, theirs = ours + more[0], theirs + more[1]
        results = [
            Result(
                what=described[task][0],
                ours=[run[task]["rows"] / run[task]["seconds"] for run in ours],
                theirs=[run[task]["rows"] / run[task]["seconds"] for run in theirs],
                higher_is_better=True,
                goal=1,
                note=described[task][1],
            )
            for task in tasks
        ]
        if not any(result.is_close() for result in results):
            break
    for own, other in zip(ours, theirs, strict=True):
        for task in tasks:
            if (own[task]["rows"], own[task]["tokens"]) != (other[task]["rows"], other[task]["tokens"]):
                raise RuntimeError(
                    f"{task}: torchpipe gave {own[task]} and torchtune {other[task]}, which can't be compared."
                )
    return results


def row_tokens(bench: Bench) -> list[Result]:
    """Chat rows in memory to ids and labels, over tiktoken alone and over torchtune."""
    chats = bench.chats(5000)
    if chats is None:
        return []
    whose = {"torchpipe": "torchpipe", "tiktoken": "torchpipe", "torchtune": "torchtune"}
    ours, limit, theirs = bench.taking_turns(
        [partial(bench.run, package, "row_tokens.py", name, bench.tokenizer, chats) for name, package in whose.items()],
        MANY,
    )
    counts = {run["tokens"] for run in [*ours, *theirs]}
    if len(counts) > 1:
        raise RuntimeError(f"torchpipe and torchtune gave {counts} tokens of the same rows, which can't be compared.")
    same = "5,000 rows of the common chat workload, Llama 3's ranks; CPU time of the first pass of a fresh process"
    return [
        Result(
            what="chat rows to ids and labels, CPU s over tiktoken's",
            ours=[run["seconds"] for run in ours],
            theirs=[run["seconds"] for run in limit],
            higher_is_better=False,
            goal=1.15,
            note=f"Over encode_ordinary of every message's text and nothing else: {same}.",
        ),
        Result(
            what="chat rows to ids and labels, rows/s",
            ours=[run["rows"] / run["seconds"] for run in ours],
            theirs=[run["rows"] / run["seconds"] for run in theirs],
            higher_is_better=True,
            goal=2.6,
            note=f"Over torchtune 0.6.1's SFTTransform: {same}.",
        ),
    ]


def tokenizing(bench: Bench) -> list[Result]:
    """Every tokenizer class that torchtune has too, each package with its own on the same files and inputs."""
    folder = bench.scratch / "tokenizers"
    folder.mkdir()
    inputs = write_inputs(DATA, folder)
    runs: dict[str, tuple[list[Any], list[Any]]] = {}
    results: dict[str, Result] = {}
    names: list[str] = []
    for rounds in (FEW, MANY - FEW):
        measures = [
            partial(bench.run, package, "run_tokenizers.py", package, inputs, "--only", *names) for package in PACKAGES
        ]
        more = bench.taking_turns(measures, rounds)
        for name in more[0][0]:
            ours, theirs = runs.setdefault(name, ([], []))
            ours += [run[name] for run in more[0]]
            theirs += [run[name] for run in more[1]]
            results[name] = _tokenizer_result(name, ours, theirs)
        names = [name for name, result in results.items() if result.is_close()]
        if not names:
            break
    return list(results.values())


# torchtune splits their text with an expression of its own, so that some ids differ.
OTHER_SPLIT = ("Phi4Tokenizer", "GPT2BaseTokenizer")


def _tokenizer_result(name: str, ours: list[Any], theirs: list[Any]) -> Result:
    counts = {(run["inputs"], run["tokens"]) for run in [*ours, *theirs]}
    if len(counts) > 1 and name not in OTHER_SPLIT:
        raise RuntimeError(f"{name}: the packages gave {counts} inputs and tokens, which can't be compared.")
    inputs = f"{ours[0]['inputs']:,}"
    what = (
        f"{inputs} real texts"
        if name.endswith(("BaseTokenizer", "T5Tokenizer", "CLIPTokenizer"))
        else (f"tokenize_messages on {inputs} real conversations")
    )
    same = "torchtune splits text by another expression" if name in OTHER_SPLIT else "same file and tokens"
    return Result(
        what=f"{name}, thousand tokens/s",
        ours=[run["tokens"] / run["seconds"] / 1000 for run in ours],
        theirs=[ours[0]["tokens"] / run["seconds"] / 1000 for run in theirs],
        higher_is_better=True,
        goal=1,
        note=f"{what}; {same}; CPU time of the first pass of a fresh tokenizer.",
    )


def collating(bench: Bench) -> list[Result]:
    """The collaters on batches made from a seed, each package in its own environment."""
    measures = [lambda package=package: bench.run(package, "collate.py", package) for package in PACKAGES]
    ours, theirs = bench.taking_turns(measures, FEW)
    return [
        Result(
            what=f"{task}, batches/s",
            ours=[1000 / run[task] for run in ours],
            theirs=[1000 / run[task] for run in theirs],
            higher_is_better=True,
            goal=1,
            note="The same batch, by torchtune 0.6.1's function; the fastest of 15 calls in each process.",
        )
        for task in ours[0]
    ]


def loss_memory(bench: Bench) -> list[Result]:
    """Peak memory of the losses over the bytes of the logits."""
    described = {
        "linear": ("linear cross-entropy, peak MiB over the logits'", "linear_cross_entropy", FEW, 0.25),
        "full": ("full-logits cross-entropy, the same", "F.cross_entropy of all logits, for comparison", 1, None),
    }
    results = []
    for loss, (what, name, rounds, goal) in described.items():
        runs = [bench.run("torchpipe", "loss_memory.py", loss) for _ in range(rounds)]
        results.append(
            Result(
                what=what,
                ours=[run["bytes"] / 2**20 for run in runs],
                theirs=[run["logits_bytes"] / 2**20 for run in runs],
                higher_is_better=False,
                goal=goal,
                note=f"{name}: memory that forward and backward add, over the bytes of float32 logits [4096, 128256]. "
                "The gradients of hidden states and weight count too; at the 64 features used here they are small.",
            )
        )
    return results


def imports(bench: Bench) -> list[Result]:
    """Imports in fresh processes over the import of torch."""
    modules = {
        "torchpipe": ("torchpipe", 1.2, "It does not load torch."),
        "torchpipe.datasets": ("torchpipe", None, "It loads torch."),
        "torchtune.datasets": ("torchtune", None, "torchtune's, in its own environment, for comparison."),
    }
    measures = [lambda: bench.run("torchpipe", "import_time.py", "torch")]
    measures += [
        lambda module=module, package=package: bench.run(package, "import_time.py", module)
        for module, (package, *_) in modules.items()
    ]
    bench.taking_turns(measures, 1)  # reads the files once, so that no measured run waits for the disk
    torch, *others = ([1000 * run["seconds"] for run in runs] for runs in bench.taking_turns(measures, MANY))
    return [
        Result(
            what=f"import {module}, ms over import torch",
            ours=milliseconds,
            theirs=torch,
            higher_is_better=False,
            goal=goal,
            note=f"Wall time of the import in a fresh process. {remark}",
        )
        for (module, (_, goal, remark)), milliseconds in zip(modules.items(), others, strict=True)
    ]


def first_look(bench: Bench) -> list[Result]:
    """``torchpipe explain`` over the imports that reading a data set takes anyway."""
    measures = [lambda what=what: bench.run("torchpipe", "explain_time.py", what) for what in ("explain", "imports")]
    bench.taking_turns(measures, 1)
    ours, theirs = ([1000 * run["seconds"] for run in runs] for runs in bench.taking_turns(measures, MANY))
    return [
        Result(
            what="explain -n 1 of configs/tiny/sft.yaml, ms over import torch, omegaconf, datasets",
            ours=ours,
            theirs=theirs,
            higher_is_better=False,
            goal=1.3,
            note="Wall time of a process: the first pack of the embedded chats, printed token by token.",
        )
    ]


MEASURES: tuple[Callable[[Bench], list[Result]], ...] = (
    *(training_steps, reading_rows, tokenizing, chat_templates, collating, loss_memory, imports, first_look),
    *(store_rows, store_build, store_pack, store_start, store_memory, store_plan),
    *(store_batches, store_mix, store_waiting, store_balance),
    *(pipeline_rows, pipeline_restore, pipeline_memory, pipeline_plan),
    *(doors, jsonl_index, transformers_steps),
)


def chosen(only: str) -> list[Callable[[Bench], list[Result]]]:
    """The measures whose names begin with ``only``; all, where it is empty.

    Raises:
        SystemExit: none does.
    """
    measures = [measure for measure in MEASURES if measure.__name__.startswith(only)]
    if not measures:
        raise SystemExit(f"No measure begins with {only!r}. There are {', '.join(one.__name__ for one in MEASURES)}.")
    return measures


def main() -> None:
    """Prints the table and writes it to runs/bench.md."""
    measures = chosen(sys.argv[1] if len(sys.argv) > 1 else "")
    if not (DATA / "README.md").is_file():
        raise SystemExit(f"No data at {DATA}: set TORCHPIPE_TEST_DATA to the folder that holds gsm8k/.")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(Path(scratch))
        where = machine()
        results: list[Result] = []
        for measure in measures:
            began = time.monotonic()
            print(f"measuring {measure.__name__.replace('_', ' ')} ...", file=sys.stderr, flush=True)
            measured = measure(bench)
            print(f"{table(measured)}\n({time.monotonic() - began:.0f} s)\n", file=sys.stderr, flush=True)
            results += measured
    minutes = (time.monotonic() - start) / 60
    text = f"{table(results)}\n\nMachine: {where}; {minutes:.1f} minutes."
    print(text)
    out = REPOSITORY / "runs" / "bench.md"
    out.parent.mkdir(exist_ok=True)
    out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
