"""Writes ``collate_goldens.json``: what torchtune's collaters and prompt templates make of the same input.

Run by hand, with the Python of an environment that holds the packages of ``benchmarks/peers.txt``:

    python tests/parity/make_collate_goldens.py DATA_FOLDER [--out collate_goldens.json]

The input is made here from a seed; the file holds shapes, dtypes and digests of the output.
"""

import argparse
import hashlib
import json
import random
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

SEED = 7


def text_batch(rng: random.Random, num_rows: int) -> list[dict[str, Any]]:
    """Rows of 1 to 12 tokens with as many labels."""
    lengths = [rng.randint(1, 12) for _ in range(num_rows)]
    return [
        {key: [rng.randint(-100, 900) for _ in range(length)] for key in ("tokens", "labels")} for length in lengths
    ]


def preference_batch(rng: random.Random, num_rows: int) -> list[dict[str, Any]]:
    """Pairs of rows, each of a length of its own."""
    pairs = list(zip(text_batch(rng, num_rows), text_batch(rng, num_rows), strict=True))
    keys = (("input_ids", "tokens"), ("labels", "labels"))
    return [
        {
            f"{side}_{key}": row[old]
            for side, row in (("chosen", good), ("rejected", bad))
            for key, old in keys
        }
        for good, bad in pairs
    ]  # fmt: skip


def picture_batch(rng: random.Random, num_rows: int, most_images: int) -> list[dict[str, Any]]:
    """Rows of text with 1 to ``most_images`` pictures of 1 to 4 tiles, 5 tokens a tile."""
    import torch

    batch = text_batch(rng, num_rows)
    for row in batch:
        tiles = [rng.randint(1, 4) for _ in range(rng.randint(1, most_images))]
        row["encoder_input"] = {
            "images": [
                torch.tensor([rng.randint(0, 255) for _ in range(count * 12)]).float().view(count, 3, 2, 2)
                for count in tiles
            ],
            "aspect_ratio": [torch.tensor([count, 1]) for count in tiles],
        }
        row["encoder_mask"] = [
            torch.tensor([rng.random() < 0.5 for _ in range(len(row["tokens"]) * count * 5)]).view(-1, count * 5)
            for count in tiles
        ]
    return batch


# Name of the function and its arguments; the batch's maker and its arguments; keys left out, where torchtune is wrong.
CASES: dict[str, tuple[str, dict[str, Any], Callable[..., list[dict[str, Any]]], dict[str, Any], set[str]]] = {
    "sft": ("padded_collate_sft", {"padding_idx": 9}, text_batch, {"num_rows": 5}, set()),
    "any, left": (
        "padded_collate",
        {"pad_direction": "left", "keys_to_pad": ["tokens", "labels"], "padding_idx": {"tokens": 1, "labels": 2}},
        text_batch, {"num_rows": 4}, set(),
    ),
    "dpo": ("padded_collate_dpo", {"padding_idx": 9, "ignore_idx": -7}, preference_batch, {"num_rows": 4}, set()),
    "a picture a row": (
        "padded_collate_tiled_images_and_mask", {}, picture_batch, {"num_rows": 4, "most_images": 1}, set(),
    ),
    "a picture a row, left": (
        "padded_collate_tiled_images_and_mask", {"pad_direction": "left", "pad_max_tiles": 6},
        picture_batch, {"num_rows": 3, "most_images": 1}, set(),
    ),
    # torchtune mixes up the rows of the mask where a row has several pictures.
    "several pictures a row": (
        "padded_collate_tiled_images_and_mask", {}, picture_batch, {"num_rows": 4, "most_images": 3}, {"encoder_mask"},
    ),
}  # fmt: skip
TEMPLATES = ("ChatMLTemplate", "GrammarErrorCorrectionTemplate", "SummarizeTemplate", "QuestionAnswerTemplate")


def described(value: Any) -> Any:
    """Shape, dtype and digest of every tensor in a batch."""
    if isinstance(value, dict):
        return {key: described(held) for key, held in sorted(value.items())}
    if isinstance(value, tuple):
        return [described(held) for held in value]
    digest = hashlib.sha256(json.dumps(value.tolist()).encode()).hexdigest()[:16]
    return {"shape": list(value.shape), "dtype": str(value.dtype), "digest": digest}


def outcomes(package: Any, data_folder: Path) -> dict[str, Any]:
    """What ``package`` (torchtune.data, torchpipe.data) makes of every case."""
    found: dict[str, Any] = {}
    for name, (function, arguments, make, sizes, left_out) in CASES.items():
        out = getattr(package, function)(make(random.Random(SEED), **sizes), **arguments)
        found[name] = described({key: out[key] for key in out if key not in left_out} if left_out else out)
    for name in TEMPLATES:
        roles = ("system", "user", "assistant", "user", "assistant")
        chat = [
            package.Message(role, text) for role, text in zip(roles, ("Be kind.", "Hi", "Hello", "", ""), strict=True)
        ]
        found[name] = [[part["content"] for part in message.content] for message in getattr(package, name)()(chat)]
    (row,) = json.loads((data_folder / "torchtune" / "hh_rlhf_tiny.json").read_text(encoding="utf-8"))
    for prompt in (None, "Be kind."):
        sides = package.ChosenRejectedToMessages(new_system_prompt=prompt)(row)
        text = [[side, m.role, m.text_content, m.masked, m.eot] for side in sides for m in sides[side]]
        found[f"chosen and rejected, {prompt}"] = hashlib.sha256(json.dumps(text).encode()).hexdigest()[:16]
    return found


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("collate_goldens.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")

    import importlib.metadata

    import torchtune.data  # pyright: ignore[reportMissingImports]

    made_with = {package: importlib.metadata.version(package) for package in ("torchtune", "torch")}
    golden = {"made_with": made_with, "cases": outcomes(torchtune.data, arguments.data_folder)}
    arguments.out.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
