"""Seconds that a package needs to read every row of its own data set: one process, one pass, on one thread.

    python read_rows.py torchpipe|torchtune TOKENIZER_MODEL TASK=FILE ...

It runs in either package's environment, with the same lines for both: builders and arguments have the same names. Every
task gets a fresh tokenizer and data set. Imports, the tokenizer and opening the file are not timed.
"""

import argparse
import importlib
import json
import time
import warnings
from typing import Any

import torch

INSTRUCT = {"column_map": {"input": "question", "output": "answer"}}
CHAT = {"conversation_column": "messages", "conversation_style": "openai"}
TASKS = {
    "rows": ("instruct_dataset", INSTRUCT, False),
    "batches": ("instruct_dataset", INSTRUCT, True),
    "chats": ("chat_dataset", CHAT, False),
}


def measure(package: str, tokenizer_model: str, task: str, file: str) -> dict[str, float]:
    """The seconds of one pass (CPU time of this process), with the rows and tokens that it gave."""
    builder, arguments, in_batches = TASKS[task]
    tokenizer = importlib.import_module(f"{package}.models.llama3").llama3_tokenizer(tokenizer_model)
    build = getattr(importlib.import_module(f"{package}.datasets"), builder)
    dataset = build(tokenizer, source="json", data_files=file, **arguments)
    samples: Any = dataset
    if in_batches:
        collate = importlib.import_module(f"{package}.data").padded_collate_sft
        samples = torch.utils.data.DataLoader(dataset, batch_size=8, collate_fn=collate)
    num_tokens = 0
    start = time.process_time()
    for sample in samples:
        num_tokens += sample["tokens"].numel() if in_batches else len(sample["tokens"])
    return {"seconds": time.process_time() - start, "rows": len(dataset), "tokens": num_tokens}


def main() -> None:
    """Prints one JSON object: task to result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=("torchpipe", "torchtune"))
    parser.add_argument("tokenizer_model")
    parser.add_argument("tasks", nargs="+")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    pairs = [task.split("=", 1) for task in arguments.tasks]
    print(json.dumps({task: measure(arguments.package, arguments.tokenizer_model, task, file) for task, file in pairs}))


if __name__ == "__main__":
    main()
