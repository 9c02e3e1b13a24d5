"""What a user has in a file of their own, as it is written for torchtitan: nothing here knows how torchpipe works."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from torchpipe.pipeline import (
    Collator,
    Configurable,
    DatasetBuildContext,
    DatasetIterationPolicy,
    SampleProcessor,
    TextCollator,
    TextSequence,
)


class PretokenizedMemmapSource(Configurable):
    """Documents in one file of tokens, and one of the offsets between them."""

    @dataclass(kw_only=True, slots=True)
    class Config(Configurable.Config):
        tokens_path: str
        offsets_path: str
        dtype: str = "uint16"

    def __init__(self, config: Config, *, dataset_iteration_policy: DatasetIterationPolicy) -> None:
        del dataset_iteration_policy
        self._tokens = np.memmap(config.tokens_path, dtype=np.dtype(config.dtype), mode="r")
        self._offsets = np.load(config.offsets_path, mmap_mode="r")

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        start, end = int(self._offsets[index]), int(self._offsets[index + 1])
        return self._tokens[start:end].astype(np.int64)


class TokensToTextSequence(SampleProcessor):
    """Tokens to a sequence, cut at the longest document that the model takes."""

    @dataclass(kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        min_tokens: int = 2

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        super().__init__(config, context=context)
        self._min_tokens = config.min_tokens

    def __call__(self, sample: np.ndarray, rng: np.random.Generator) -> TextSequence | None:
        del rng
        tokens = np.asarray(sample, dtype=np.int64)
        if tokens.size < self._min_tokens:
            return None
        return TextSequence(
            input_ids=tokens[:-1],
            labels=tokens[1:],
            positions=np.arange(tokens.size - 1, dtype=np.int64) % self.context.max_context_length,
        )


class RandomCrop(SampleProcessor):
    """A part of the text's tokens, from a random place."""

    @dataclass(kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        num_tokens: int

    def __call__(self, sample: dict[str, Any], rng: np.random.Generator) -> TextSequence | None:
        tokens = np.array(self.context.tokenizer.encode(sample["text"], add_bos=True, add_eos=True))
        if len(tokens) <= self.config.num_tokens:
            return None
        start = rng.integers(len(tokens) - self.config.num_tokens)
        tokens = tokens[start : start + self.config.num_tokens + 1]
        return TextSequence(input_ids=tokens[:-1], labels=tokens[1:])


class BatchedCollator(TextCollator):
    """The batch of ``TextCollator`` for a trainer that has a batch dimension."""

    @dataclass(kw_only=True, slots=True)
    class Config(TextCollator.Config):
        batch_dim: bool = True

    def __call__(self, rows: Any) -> tuple[dict[str, Any], torch.Tensor]:
        batch, labels = super().__call__(rows)
        if not self.config.batch_dim:
            return batch, labels
        return {"input": batch["input"][None], "positions": batch["positions"][None]}, labels[None]


class PairCollator(Collator):
    """Two rows, each in a line of its own."""

    @dataclass(kw_only=True, slots=True)
    class Config(Collator.Config):
        pass

    def num_rows_per_batch(self) -> int:
        return 2

    def __call__(self, rows: Any) -> tuple[dict[str, Any], torch.Tensor]:
        length = self.context.num_tokens_per_batch
        tokens, labels = torch.zeros(2, length, dtype=torch.int64), torch.full((2, length), -100)
        for line, row in enumerate(rows):
            tokens[line, : len(row.input_ids)] = torch.from_numpy(np.asarray(row.input_ids))
            labels[line, : len(row.labels)] = torch.from_numpy(np.asarray(row.labels))
        return {"input": tokens}, labels


class StackingCollator(Collator):
    """Rows of one length, one above the other."""

    @dataclass(kw_only=True, slots=True)
    class Config(Collator.Config):
        longest: int = 1_000_000

    def __call__(self, rows: Any) -> tuple[dict[str, Any], torch.Tensor]:
        tokens = torch.stack([torch.as_tensor(row.input_ids) for row in rows])
        if tokens.shape[1] > self.config.longest:
            raise ValueError(f"longer than {self.config.longest}")
        return {"input": tokens}, torch.stack([torch.as_tensor(row.labels) for row in rows])


def question_and_answer(sample: dict[str, Any]) -> list[dict[str, str]]:
    """A row of gsm8k as a conversation."""
    return [
        {"role": "user", "content": sample["question"]},
        {"role": "assistant", "content": sample["answer"]},
    ]


def messages_of(sample: dict[str, Any]) -> Any:
    """The messages of a row that has them."""
    return sample["messages"]


def plain_turns(sample: dict[str, Any]) -> list[dict[str, str]]:
    """A row of glaive, whose calls and their results are text."""
    roles = {"human": "user", "observation": "user", "gpt": "assistant", "function_call": "assistant"}
    return [{"role": roles[turn["from"]], "content": turn["value"]} for turn in sample["conversations"]]


def write_tokens(folder: Path, documents: Any) -> dict[str, str]:
    """Documents as the two files of :class:`PretokenizedMemmapSource`, and its settings."""
    np.concatenate([np.asarray(one, np.uint32) for one in documents]).tofile(folder / "tokens.bin")
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, documents)]))
    return {
        "tokens_path": str(folder / "tokens.bin"),
        "offsets_path": str(folder / "offsets.npy"),
        "dtype": "uint32",
    }
