"""Graphs of numbered rows, and what their loaders give: for tests, and for scripts that run as ranks or are killed."""

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grain
import numpy as np
import torch

from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetBuildContext,
    DatasetMixConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    SampleProcessor,
    SingleDatasetConfig,
    TextSequence,
    TrainerBatch,
    WeightedDataset,
)

LENGTH = 64
SHORT = {"shortest": 2, "longest": 21}
"""Lengths of rows, of which each becomes a document."""
Item = TypeVar("Item")
Loader = Callable[..., GrainDataLoader]


def rows_of(number: int, *, first: int = 0, shortest: int = 1, longest: int = 30) -> list[list[int]]:
    """Rows ``[first token, tokens]``, of all lengths between the two."""
    return [[first + 100 * row, shortest + row * 7 % (longest - shortest + 1)] for row in range(number)]


class Consecutive(SampleProcessor):
    """A row ``[first, tokens]`` to that many consecutive ids; of one token, nothing."""

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        """calls_file: gets a byte a call. seconds: that a call takes. bad: first token of a row that can't be read."""

        calls_file: str | None = None
        seconds: float = 0.0
        bad: int | None = None

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        self.config = config

    def fingerprint(self) -> str:
        return "consecutive ids"

    def __call__(self, sample: Sequence[int], rng: np.random.Generator) -> TextSequence | None:
        first, number = sample
        if self.config.calls_file:
            with Path(self.config.calls_file).open("ab", buffering=0) as file:
                file.write(b".")
        time.sleep(self.config.seconds)
        if first == self.config.bad:
            raise ValueError(f"the row of {first} is bad")
        if number < 2:
            return None
        ids = np.arange(first, first + number)
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])


class Cropped(SampleProcessor):
    """The same from a random token on."""

    def __call__(self, sample: Sequence[int], rng: np.random.Generator) -> TextSequence:
        first, number = sample
        ids = np.arange(first + int(rng.integers(number - 1)), first + number)
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])


class Numbers(grain.IterDataset[list[int]]):
    """A stream of rows."""

    def __init__(self, rows: list[list[int]], *, repeat: bool) -> None:
        super().__init__()
        own = grain.MapDataset.source(rows)
        self._rows = own.repeat() if repeat else own

    def __iter__(self) -> grain.DatasetIterator[list[int]]:
        return iter(self._rows.to_iter_dataset(grain.ReadOptions(num_threads=0)))


@dataclass(frozen=True)
class Stream:
    """A stream of so many rows, of which each part takes every n-th; or the first part all but one each."""

    number: int
    is_uneven: bool = False

    def build(self, *, dataset_iteration_policy: Any) -> Numbers:
        part, parts = dataset_iteration_policy.dp_rank, dataset_iteration_policy.dp_world_size
        rows = rows_of(self.number, **SHORT)
        own = rows[part::parts]
        if self.is_uneven:
            own = rows[parts - 1 :] if part == 0 else rows[part - 1 : part]
        return Numbers(own, repeat=dataset_iteration_policy.repeat)


def stream(number: int = 33, *, is_uneven: bool = False, **options: Any) -> SingleDatasetConfig:
    source = Stream(number, is_uneven)
    return SingleDatasetConfig(source=source, processor=Consecutive.Config(**options), name="stream")


def single(number: int, *, name: str | None = None, **options: Any) -> SingleDatasetConfig:
    """A graph of such rows; options: of ``rows_of``."""
    return SingleDatasetConfig(source=rows_of(number, **options), processor=Consecutive.Config(), name=name)


def planned(number: int = 33, first: int = 0, **options: Any) -> SingleDatasetConfig:
    rows = rows_of(number, first=first, **SHORT)
    return SingleDatasetConfig(source=rows, processor=Consecutive.Config(**options), name=f"planned {first}")


def cropped(number: int = 33) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=rows_of(number, **SHORT), processor=Cropped.Config(), name="cropped")


def part_full(**options: Any) -> dict[str, Any]:
    """Endless graphs that hold part-full rows, windows or rows of mixes at nearly every step."""
    mixed = DatasetMixConfig(
        datasets=(
            WeightedDataset(dataset=planned(60, **options), weight=2),
            WeightedDataset(dataset=planned(40, 10**6, **options)),
        ),
        by="tokens",
        name="mix",
    )
    streams = DatasetMixConfig(
        datasets=(WeightedDataset(dataset=stream(70), weight=2), WeightedDataset(dataset=cropped(50))),
        by="tokens",
        name="mix",
    )
    return {
        "planned": FirstFitPackingConfig(dataset=mixed),
        "grain": FirstFitPackingConfig(dataset=streams, num_packing_bins=3),
        "stream": ConcatThenSplitPackingConfig(dataset=stream(70)),
    }


FINITE: dict[str, Callable[[], Any]] = {
    "stream": stream,
    "packed stream": lambda: FirstFitPackingConfig(dataset=stream()),
    "uneven stream": lambda: stream(is_uneven=True),
    "random": cropped,
    "fewer rows than ranks": lambda: stream(1),
}


def loader_of(
    dataset: Any,
    cache_dir: str,
    *,
    rank: int = 0,
    world_size: int = 1,
    length: int = LENGTH,
    tokenizer: Any = None,
    **options: Any,
) -> GrainDataLoader:
    config = GrainDataLoader.Config(dataset=dataset, cache_dir=cache_dir, **{"num_proc": 1, **options})
    return config.build(
        tokenizer=tokenizer,
        max_context_length=length,
        num_tokens_per_batch=length,
        dp_rank=rank,
        dp_world_size=world_size,
    )


def in_run_order(by_rank: Sequence[Sequence[Item]]) -> list[Item]:
    """The batches of all ranks, of which each has as many, in the order of the run."""
    return [batch for turn in zip(*by_rank, strict=True) for batch in turn]


def pairs(batches: Sequence[TrainerBatch]) -> Counter[tuple[int, int]]:
    """How often each token is trained on to follow another."""
    found: Counter[tuple[int, int]] = Counter()
    for batch, labels in batches:
        trained = labels != -100
        found.update(zip(batch["input"][trained].tolist(), labels[trained].tolist(), strict=True))
    return found


def pairs_of_rows(rows: Sequence[Sequence[int]]) -> Counter[tuple[int, int]]:
    """The same of rows, each once."""
    return Counter((token, token + 1) for first, number in rows for token in range(first, first + number - 1))


def labels_of(number: int) -> Counter[int]:
    """How often each label is trained on in one pass over ``stream`` or ``planned`` of so many rows."""
    return Counter(label for _, label in pairs_of_rows(rows_of(number, **SHORT)).elements())


def equal(one: Sequence[TrainerBatch], two: Sequence[TrainerBatch]) -> bool:
    """Whether the batches are the same, and in the same order."""
    return len(one) == len(two) and all(
        torch.equal(a[1], b[1]) and a[0].keys() == b[0].keys() and torch.equal(a[0]["input"], b[0]["input"])
        for a, b in zip(one, two, strict=True)
    )


def trained(batch: TrainerBatch) -> list[int]:
    """The trained labels of a batch."""
    return batch[1][batch[1] != -100].tolist()


def digest(batch: TrainerBatch) -> str:
    """Of all that a model takes of a batch."""
    inputs, labels = batch
    found = hashlib.blake2b(digest_size=8)
    for tensor in (inputs["input"], inputs["positions"], inputs["padding_mask"], labels):
        found.update(tensor.numpy().tobytes())
    return found.hexdigest()


def write_whole(path: Path, text: str) -> None:
    """Puts a text in place of a file at once, also where the process is killed meanwhile."""
    new = path.with_suffix(".new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
