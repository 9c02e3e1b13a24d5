"""CPU and wall seconds of the batches of one epoch of the graph of ``pipeline_rows.py``, by Grain alone.

    python pipeline_grain.py stages|torchtitan FOLDER NUM_THREADS

FOLDER is that of ``pipeline_documents.py``; so many threads read. ``stages`` is in as few stages as give the same
batches: source, shuffle, map, packing into 8 bins, batch. ``torchtitan`` is by the stages that torchtitan's configs
give, as far as we know them: processor, shuffle, filter, packing, labels, collation, and a thread that prefetches two
batches. Prints one JSON object.
"""

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import grain
import numpy as np
import torch
from grain.experimental import FirstFitPackIterDataset, ThreadPrefetchIterDataset
from pipeline_documents import CAPACITY, MemmapSource, TokensToTextSequence
from pipeline_rows import Batch, timed

from torchpipe.pipeline import TextSequence

NUM_BINS = 8


def stages(folder: str, num_threads: str) -> dict[str, float]:
    """CPU and wall seconds of all batches, in as few stages as give them."""
    documents = grain.MapDataset.source(_source(folder)).shuffle(seed=0).map(_document)
    return timed(_packed(documents, int(num_threads)).map(_batch))


def torchtitan(folder: str, num_threads: str) -> dict[str, float]:
    """The same by the stages of torchtitan's configs: processor, shuffle, filter, packing, labels and collation."""
    processor = TokensToTextSequence.Config().build(context=None)
    documents = (
        grain.MapDataset.source(_source(folder))
        .random_map(processor, seed=0)
        .shuffle(seed=0)
        .filter(lambda sequence: len(sequence.input_ids) <= CAPACITY)
        .map(_fields)
    )
    rows = _packed(documents, int(num_threads)).map(_sequence)
    batches = rows.batch(1, drop_remainder=False, batch_fn=_collated)
    return timed(ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2))


def _source(folder: str) -> Any:
    return MemmapSource.Config(folder=folder).build()


def _packed(documents: Any, num_threads: int) -> Any:
    names = ("input_ids", "labels", "positions")
    return FirstFitPackIterDataset(
        documents.to_iter_dataset(grain.ReadOptions(num_threads=num_threads, prefetch_buffer_size=500)),
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


WAYS: dict[str, Callable[[str, str], dict[str, float]]] = {"stages": stages, "torchtitan": torchtitan}


def main(arguments: Sequence[str]) -> None:
    """Prints one JSON object."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    way, folder, num_threads = arguments
    print(json.dumps(WAYS[way](folder, num_threads)))


if __name__ == "__main__":
    main(sys.argv[1:])
