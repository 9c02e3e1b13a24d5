"""CPU seconds from chat rows in memory to token ids and labels: one process, one pass, on one thread.

    python row_tokens.py torchpipe|torchtune|tiktoken TOKENIZER_MODEL CHATS.jsonl

``tiktoken`` is the limit: the library's ``encode_ordinary`` of every message's text, and nothing else. torchpipe makes
rows into samples as a store does, with the labels of all rows in one array; torchtune makes each row into lists of
tokens and labels. Imports, reading the tokenizer and parsing the rows are not timed.
"""

import json
import sys
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


def torchpipe_tokens(tokenizer_model: str, rows: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """Seconds and tokens of :mod:`torchpipe`."""
    import numpy as np

    from torchpipe.constants import IGNORE_INDEX
    from torchpipe.data import OpenAIToMessages
    from torchpipe.data.sample_transforms import SFTTransform
    from torchpipe.models.llama3 import llama3_tokenizer
    from torchpipe.store.flat_samples import FlatSamples

    tokenizer = llama3_tokenizer(tokenizer_model)
    tokenizer.encode("")  # the encoder is built at the first text
    transform = SFTTransform(OpenAIToMessages(), tokenizer)
    start = time.process_time()
    flat = FlatSamples(name="chats", vocab_size=tokenizer.vocab_size)
    for row, fitted in enumerate(transform.fitted_rows(rows)):
        flat.add_row(row, fitted.samples)
    shard = flat.finished(first_row=0, num_rows=len(rows))
    assert shard.trained is not None
    labels = np.full(len(shard.tokens), IGNORE_INDEX, dtype=np.int32)
    np.copyto(labels[:-1], shard.tokens[1:].view(np.int32), where=shard.trained[:-1])
    return time.process_time() - start, len(labels)


def torchtune_tokens(tokenizer_model: str, rows: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """Seconds and tokens of torchtune's SFTDataset, whose transform is called here without the data set around it."""
    # By name: torchtune is installed in an environment of its own.
    data, sft, llama3 = map(import_module, ("torchtune.data", "torchtune.datasets._sft", "torchtune.models.llama3"))
    tokenizer = llama3.llama3_tokenizer(tokenizer_model)
    transform = sft.SFTTransform(message_transform=data.OpenAIToMessages(), model_transform=tokenizer)
    start = time.process_time()
    num_tokens = sum(len(transform(row)["labels"]) for row in rows)
    return time.process_time() - start, num_tokens


def tiktoken_tokens(tokenizer_model: str, rows: Sequence[dict[str, Any]]) -> tuple[float, int]:
    """Seconds and tokens of tiktoken alone, with the split expression as Llama 3 publishes it."""
    from store_rows import published_encoding

    encode = published_encoding(Path(tokenizer_model)).encode_ordinary
    start = time.process_time()
    num_tokens = sum(len(encode(message["content"])) for row in rows for message in row["messages"])
    return time.process_time() - start, num_tokens


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    package, model, chats = sys.argv[1:]
    with Path(chats).open(encoding="utf-8") as lines:
        given = [json.loads(line) for line in lines]
    measure = {"torchpipe": torchpipe_tokens, "torchtune": torchtune_tokens, "tiktoken": tiktoken_tokens}[package]
    seconds, count = measure(model, given)
    print(json.dumps({"seconds": seconds, "rows": len(given), "tokens": count}))
