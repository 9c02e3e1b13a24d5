"""The rows of the table that are about chat templates."""

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench import DATA, FEW, Bench
from report import Result
from template_rows import write_folder
from tokenizer_inputs import PARITY, oracle_file

TEMPLATE = DATA / "templates" / "trl" / "qwen2_5_training.jinja"
"""A causal template that marks what TRL shall train."""


def chat_templates(bench: Bench) -> list[Result]:
    """Renders, proofs, long conversations, pieces, and rows to labels."""
    folder = _folder(bench)
    return [*_renders(bench), *_long_rows(bench, folder), *_labels(bench, folder)]


def _renders(bench: Bench) -> list[Result]:
    arguments = (DATA / "templates", DATA / "golden" / "qwen3.jsonl")
    runs = [bench.run("torchpipe", "chat_templates.py", *arguments) for _ in range(FEW)]
    spread = ", single templates from {lowest:.2f} to {highest:.2f}"
    return [
        Result(
            what=f"{what}, over a plain render: median of {runs[0][part]['templates']} templates",
            ours=[run[part]["median"] for run in runs],
            theirs=[1.0] * len(runs),
            higher_is_better=False,
            goal=goal,
            note=f"{note}{spread.format(**runs[0][part])}. Plain is jinja2 with transformers' settings; both take "
            "turns on each row.",
        )
        for part, goal, what, note in (
            ("traced", 2, "traced render", "All golden conversations that a template renders, tools too"),
            ("proof", 3, "traced render, byte check and turns", "Short rows whose turns are proved by one render"),
        )
    ]


def _long_rows(bench: Bench, folder: Path) -> list[Result]:
    runs = [bench.run("torchpipe", "template_turns.py", folder) for _ in range(FEW)]
    return [
        Result(
            what="a message of a row of 2,000 messages over one of 200, microseconds",
            ours=[run["microseconds"]["2000"] for run in runs],
            theirs=[run["microseconds"]["200"] for run in runs],
            higher_is_better=False,
            goal=1.5,
            note="ChatTemplateTokenizer.tokenize_messages on a causal template: 1 is linear in the turns.",
        ),
        Result(
            what="text to pieces over the raw back end, CPU seconds",
            ours=[run["pieces"] for run in runs],
            theirs=[run["encode"] for run in runs],
            higher_is_better=False,
            goal=None,
            note="PieceEncoder on rendered chats, its search for control tokens too, over encoding the ordinary texts.",
        ),
    ]


def _labels(bench: Bench, folder: Path) -> list[Result]:
    measures = [lambda package=package: bench.run(package, "template_rows.py", package, folder) for package in _BOTH]
    ours, theirs = bench.taking_turns(measures, FEW)
    tokens = {run["tokens"] for run in [*ours, *theirs]}
    if max(tokens) - min(tokens) > max(tokens) / 1000:
        raise RuntimeError(f"torchpipe and TRL gave {sorted(tokens)} tokens, which can't be compared.")
    return [
        Result(
            what="chats to labels by a chat template, rows/s, against TRL",
            ours=[run["rows"] / run["seconds"] for run in ours],
            theirs=[run["rows"] / run["seconds"] for run in theirs],
            higher_is_better=True,
            goal=8,
            note="chat_dataset with ChatTemplateTokenizer on tiktoken ranks, over TRL's preparation with assistant "
            "masks on the tokenizer.json of the same vocabulary; one process each, the same template and rows. A "
            "reply that begins with a newline has a token more here: text is cut where the prompt ends.",
        )
    ]


_BOTH = ("torchpipe", "trl")


def _folder(bench: Bench) -> Path:
    """The inputs: Qwen 2.5's tokenizer in both forms, the template, and 1,000 rows of the common chat workload."""
    folder = bench.scratch / "chat_templates"
    (folder / "files").mkdir(parents=True)
    chats = folder / "files" / "chats.jsonl"
    make_chats = DATA.parent / "bench" / "make_chats.py"
    subprocess.run([sys.executable, make_chats, chats, "--rows", "1000"], check=True, capture_output=True)
    derive: Any = runpy.run_path(str(PARITY / "byte_level_files.py"))["write_byte_level_files"]
    vocab, merges = derive(oracle_file("qwen"), folder / "files")
    write_folder(folder, oracle_file("qwen"), vocab, merges, TEMPLATE, chats)
    return folder
