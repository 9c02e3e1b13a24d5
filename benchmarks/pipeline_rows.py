"""Batches of one epoch of a graph: source, shuffle, map and first-fit packing to rows of 4,096 tokens.

    python pipeline_rows.py planned FOLDER CACHE
    python pipeline_rows.py grain FOLDER NUM_THREADS
    python pipeline_rows.py restore FOLDER CACHE SHARE
    python pipeline_rows.py memory FOLDER CACHE NUM_WORKERS

FOLDER is that of ``pipeline_documents.py``. ``planned`` builds the store in CACHE where there is none, which counts
apart, and gives GrainDataLoader's batches. ``grain`` is Grain alone, as torchtitan puts it together: source, shuffle,
map, a reader of so many threads and FirstFitPackIterDataset with 8 bins; its rows become tensors without a copy, and
nothing is collated. ``restore`` goes on at a share of the epoch. ``memory`` is what batches of the epoch's first part
add to the process that asks for them and to a worker. Prints one JSON object.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import grain as grain_library  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import torch
from grain.experimental import FirstFitPackIterDataset, ThreadPrefetchIterDataset
from pipeline_documents import CAPACITY, MemmapSource, TokensToTextSequence

from torchpipe.pipeline import TextSequence

Batch = tuple[dict[str, Any], torch.Tensor]
NUM_BINS = 8
NUM_BATCHES = 300


def loader_of(folder: str, cache: str, **settings: Any) -> Any:
    """The loader of the planned graph."""
    from torchpipe.pipeline import FirstFitPackingConfig, GrainDataLoader, SingleDatasetConfig

    documents = SingleDatasetConfig(
        source=MemmapSource.Config(folder=folder), processor=TokensToTextSequence.Config(), name="documents"
    )
    config = GrainDataLoader.Config(
        dataset=FirstFitPackingConfig(dataset=documents), planned=True, repeat=False, cache_dir=cache, **settings
    )
    return config.build(tokenizer=None, max_context_length=CAPACITY, num_tokens_per_batch=CAPACITY)


def planned(folder: str, cache: str) -> dict[str, float]:
    """CPU and wall seconds of the build, of the plan, and of all batches."""
    start = _now()
    loader = loader_of(folder, cache)
    built = _now()
    timed = _timed(loader)
    return {**_seconds("build", start, built), **timed, "state_bytes": len(json.dumps(loader.state_dict()))}


def grain(folder: str, num_threads: str) -> dict[str, float]:
    """CPU and wall seconds of all batches, in as few stages as give them."""
    documents = grain_library.MapDataset.source(_source(folder)).shuffle(seed=0).map(_document)
    return _timed(_packed(documents, int(num_threads)).map(_batch))


def torchtitan(folder: str, num_threads: str) -> dict[str, float]:
    """The same by the stages of torchtitan's configs: processor, shuffle, filter, packing, labels and collation."""
    processor = TokensToTextSequence.Config().build(context=None)
    documents = (
        grain_library.MapDataset.source(_source(folder))
        .random_map(processor, seed=0)
        .shuffle(seed=0)
        .filter(lambda sequence: len(sequence.input_ids) <= CAPACITY)
        .map(_fields)
    )
    rows = _packed(documents, int(num_threads)).map(_sequence)
    batches = rows.batch(1, drop_remainder=False, batch_fn=_collated)
    return _timed(ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2))


def _source(folder: str) -> Any:
    return MemmapSource.Config(folder=folder).build()


def _packed(documents: Any, num_threads: int) -> Any:
    names = ("input_ids", "labels", "positions")
    return FirstFitPackIterDataset(
        documents.to_iter_dataset(grain_library.ReadOptions(num_threads=num_threads, prefetch_buffer_size=500)),
        length_struct=dict.fromkeys(names, CAPACITY),
        padding_struct={"input_ids": 0, "labels": -100, "positions": 0},
        num_packing_bins=NUM_BINS,
        meta_features=("labels", "positions"),
        seed=0,
        shuffle_bins=True,
    )


def _document(tokens: np.ndarray) -> dict[str, np.ndarray]:
    return {"input_ids": tokens[:-1], "labels": tokens[1:], "positions": np.arange(len(tokens) - 1)}


def _batch(row: dict[str, np.ndarray]) -> Batch:
    labels = torch.from_numpy(row["labels"])
    batch = {
        "input": torch.from_numpy(row["input_ids"]),
        "positions": torch.from_numpy(row["positions"]),
        "padding_mask": torch.from_numpy(row["input_ids_segment_ids"] == 0),
        "num_valid_tokens": int(np.count_nonzero(row["labels"] != -100)),
    }
    return batch, labels


def _fields(sequence: TextSequence) -> dict[str, np.ndarray]:
    tokens = len(sequence.input_ids)
    return {"input_ids": sequence.input_ids, "labels": sequence.labels, "positions": np.arange(tokens) % CAPACITY}


def _sequence(row: dict[str, np.ndarray]) -> TextSequence:
    places = np.arange(CAPACITY)
    begins = np.maximum.accumulate(np.where(row["positions"] == 0, places, 0))
    is_padding = row["input_ids_segment_ids"] == 0
    labels = np.where(is_padding, -100, row["labels"])
    return TextSequence(input_ids=row["input_ids"], labels=labels, positions=places - begins, padding_mask=is_padding)


def _collated(rows: Sequence[TextSequence]) -> Batch:
    tensors = {
        name: torch.cat([torch.from_numpy(getattr(row, name)) for row in rows])
        for name in ("input_ids", "positions", "padding_mask", "labels")
    }
    labels = tensors.pop("labels")
    return {**tensors, "num_valid_tokens": int((labels != -100).sum())}, labels


def _timed(batches: Iterable[Batch]) -> dict[str, float]:
    start, rows, tokens = _now(), 0, 0
    for batch, _ in batches:
        rows += 1
        tokens += batch["num_valid_tokens"]  # every token is trained
    return {**_seconds("rows", start, _now()), "rows": rows, "fill": tokens / (rows * CAPACITY)}


def _now() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _seconds(of: str, start: tuple[float, float], stop: tuple[float, float]) -> dict[str, float]:
    return {f"{of}_{clock}": after - before for clock, before, after in zip(("cpu", "wall"), start, stop, strict=True)}


WAYS: dict[str, Callable[..., Any]] = {"planned": planned, "grain": grain, "torchtitan": torchtitan}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    way, *others = arguments
    print(json.dumps(WAYS[way](*others)))


if __name__ == "__main__":
    main(sys.argv[1:])
