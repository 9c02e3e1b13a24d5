"""Loaders of real rows, and what they give, for the tests that write graphs as users do."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from torchpipe.config import instantiate
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.pipeline import GrainDataLoader

TOKENIZER = tiny_tokenizer(max_seq_len=512)
TOKENS = 512


def loader_of(dataset: Any, *, tokenizer: Any = TOKENIZER, rank: int = 0, ranks: int = 1, **config: Any) -> Any:
    return GrainDataLoader.Config(dataset=dataset, num_proc=1, **config).build(
        dp_world_size=ranks,
        dp_rank=rank,
        tokenizer=tokenizer,
        max_context_length=TOKENS,
        num_tokens_per_batch=TOKENS,
    )


def inputs(loader: Any, number: int | None = None) -> list[list[int]]:
    batches = list(islice(loader, number))
    loader.close()
    return [batch["input"].tolist() for batch, _ in batches]


def from_yaml(text: str, **paths: Any) -> Any:
    return instantiate(yaml.safe_load(text.format(**paths)))


def pages(shared_data: Path, tokenizer: Any = TOKENIZER) -> list[list[int]]:
    lines = (shared_data / "llamafactory" / "c4_demo.jsonl").read_text(encoding="utf-8").splitlines()
    return [tokenizer.encode(json.loads(line)["text"], add_bos=True, add_eos=True) for line in lines]
