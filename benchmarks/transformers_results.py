"""The rows of the table that are about training steps against transformers and PEFT."""

from functools import partial
from typing import Any

from bench import FEW, MANY, Bench
from report import Result

SAME = "the same 100M Llama, scaled dot-product attention, AdamW, float32 and one thread"
JOBS = {
    "full": "full training step",
    "lora": "LoRA training step",
}
MODEL = "forward, backward and AdamW; CPU time"


def transformers_steps(bench: Bench) -> list[Result]:
    """Full and LoRA steps on rows without padding, and packed steps against padded ones at equal content."""
    results = []
    for job, what in JOBS.items():
        ours, theirs = bench.taking_turns([_step(bench, "torchpipe", job), _step(bench, "transformers", job)], MANY)
        _check(ours, theirs)
        shape = f"{ours[0]['tokens']} tokens without padding"
        note = f"Over transformers 5.24.0{' and PEFT 0.21.2' if job == 'lora' else ''}: {SAME}; {MODEL}, {shape}."
        results += [
            Result(
                what=f"{what}, ms",
                ours=_milliseconds(ours),
                theirs=_milliseconds(theirs),
                higher_is_better=False,
                goal=1.15,
                note=note,
            ),
            Result(
                what=f"{what}, peak MiB",
                ours=[run["peak_bytes"] / 2**20 for run in ours],
                theirs=[run["peak_bytes"] / 2**20 for run in theirs],
                higher_is_better=False,
                goal=1,
                note="The same processes: what the model's steps add to resident memory.",
            ),
        ]
    packed, padded, other = bench.taking_turns(
        [
            _step(bench, "torchpipe", "full", "packed"),
            _step(bench, "torchpipe", "full", "padded"),
            _step(bench, "transformers", "full", "padded"),
        ],
        FEW,
    )
    _check(packed, other)
    content = f"{packed[0]['tokens']} tokens of 6 documents, the longest of 201; {SAME}"
    for theirs, whose in ((padded, "torchpipe's padded step"), (other, "transformers' padded step")):
        results.append(
            Result(
                what=f"packed full training step over {whose}, ms",
                ours=_milliseconds(packed),
                theirs=_milliseconds(theirs),
                higher_is_better=False,
                goal=None,
                note=f"One pack against one row a document, {content}.",
            )
        )
    return results


def _step(bench: Bench, package: str, job: str, form: str = "whole") -> Any:
    return partial(bench.run, package, "train_step_transformers.py", package, job, form)


def _milliseconds(runs: list[Any]) -> list[float]:
    return [min(run["milliseconds"]) for run in runs]


def _check(ours: list[Any], theirs: list[Any]) -> None:
    """Raises where the models or the inputs differ."""
    counted = ("parameters", "trained_parameters", "tokens")
    counts = [tuple(run[name] for name in counted) for run in (*ours, *theirs)]
    if len(set(counts)) > 1:
        raise RuntimeError(f"The models have {set(counts)} {', '.join(counted)}, which can't be compared.")
