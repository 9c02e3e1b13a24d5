"""Milliseconds that a package's collaters need for one batch, the same for every package.

    python collate.py torchpipe|torchtune

The batches are made from a seed, in either package's environment. Each collater's time is the least of its runs.
"""

import argparse
import importlib
import json
import random
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

RUNS = 15
TILES = {"cross-attention": (224, 257), "large tiles": (560, 1601)}
"""Pixels of a tile's side, and tokens a tile."""


def text_batch(rng: random.Random, num_rows: int, lengths: tuple[int, int]) -> list[dict[str, Any]]:
    """Rows of tokens and labels, as lists of integers."""
    drawn = [rng.randint(*lengths) for _ in range(num_rows)]
    return [{key: [rng.randrange(128_000) for _ in range(n)] for key in ("tokens", "labels")} for n in drawn]


def preference_batch(rng: random.Random) -> list[dict[str, Any]]:
    """Eight pairs of conversations."""
    rows = iter(text_batch(rng, 16, (200, 800)))
    pairs = [{"chosen": next(rows), "rejected": next(rows)} for _ in range(8)]
    keys = {"input_ids": "tokens", "labels": "labels"}
    return [{f"{side}_{key}": row[old] for side, row in pair.items() for key, old in keys.items()} for pair in pairs]


def picture_batch(rng: random.Random, num_images: int, kind: str) -> list[dict[str, Any]]:
    """Four rows with ``num_images`` pictures each, of 1 to 4 tiles."""
    side, tokens_per_tile = TILES[kind]
    batch = text_batch(rng, 4, (100, 400))
    for row in batch:
        tiles = [rng.randint(1, 4) for _ in range(num_images)]
        row["encoder_input"] = {
            "images": [torch.rand(count, 3, side, side) for count in tiles],
            "aspect_ratio": [torch.tensor([count, 1]) for count in tiles],
        }
        row["encoder_mask"] = [torch.rand(len(row["tokens"]), count * tokens_per_tile) < 0.5 for count in tiles]
    return batch


def tasks(data: Any) -> dict[str, tuple[Callable[..., Any], list[dict[str, Any]], dict[str, Any]]]:
    """What is measured: a collater, its batch and its further arguments."""
    rng = random.Random(0)
    text = text_batch(rng, 32, (500, 2000))
    generic = {"pad_direction": "left", "keys_to_pad": ["tokens", "labels"], "padding_idx": 0}
    tiled = data.padded_collate_tiled_images_and_mask
    return {
        "padded_collate_sft": (data.padded_collate_sft, text, {}),
        "padded_collate_sft, 4 short rows": (data.padded_collate_sft, text_batch(rng, 4, (10, 100)), {}),
        "padded_collate, left": (data.padded_collate, text, generic),
        "padded_collate_dpo": (data.padded_collate_dpo, preference_batch(rng), {}),
        "tiled images, 1 a row": (tiled, picture_batch(rng, 1, "cross-attention"), {}),
        "tiled images, 2 large a row": (tiled, picture_batch(rng, 2, "large tiles"), {}),
    }


def least_milliseconds(call: Callable[[], Any], runs: int) -> float:
    """The time of the fastest of ``runs`` calls, after one that is not counted."""
    call()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def main() -> None:
    """Prints one JSON object: task to milliseconds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", choices=("torchpipe", "torchtune"))
    package = parser.parse_args().package
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    measured = tasks(importlib.import_module(f"{package}.data"))
    print(
        json.dumps(
            {
                task: least_milliseconds(lambda: collate(batch, **arguments), RUNS)  # noqa: B023  (called at once)
                for task, (collate, batch, arguments) in measured.items()
            }
        )
    )


if __name__ == "__main__":
    main()
