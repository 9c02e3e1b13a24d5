"""Makes ``vision_goldens.json``: what torchtune makes of pictures, for torchpipe to be compared with.

Run by hand, with the Python of an environment that holds the packages of ``benchmarks/peers.txt`` and torchvision:

    python tests/parity/make_vision_goldens.py DATA_FOLDER TOKENIZER_MODEL [--out vision_goldens.json]

The file holds the cases, and of pictures only means, deviations and a few of the resized values. A torchvision whose
compiled part does not fit the torch beside it will do: resizing is torch's own.
"""

import argparse
import hashlib
import json
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

# A data file, or height and width of a picture made of arithmetic.
PICTURES: dict[str, str | tuple[int, int]] = {
    "dog on skateboard": "images/dog_on_skateboard.jpg",
    "logo": "torchtune/rgb_pytorch.png",
    "dog": "xtuner/resource/mscoco_dog_000000319154.jpg",
    "two cats": "xtuner/resource/mscoco_twocat_000000039769.jpg",
    "wide": (300, 800),
    "tall": (1231, 97),
    "small": (31, 57),
    "huge": (1999, 1501),
}

TRANSFORMS: dict[str, dict[str, Any]] = {
    "four tiles": {"tile_size": 224, "max_num_tiles": 4},
    "four tiles, enlarged": {"tile_size": 224, "max_num_tiles": 4, "resize_to_max_canvas": True},
    "Llama 3.2 Vision": {"tile_size": 560, "max_num_tiles": 4, "image_mean": MEAN, "image_std": STD},
    "Llama 4": {"tile_size": 336, "max_num_tiles": 16, "image_mean": (0.5,) * 3, "image_std": (0.5,) * 3},
    "CLIP, 224 pixels": {"tile_size": 224, "max_num_tiles": 1, "image_mean": MEAN, "image_std": STD,
                         "resize_to_max_canvas": True},
    "bicubic": {"tile_size": 224, "max_num_tiles": 6, "resample": "bicubic"},
    "nearest": {"tile_size": 224, "max_num_tiles": 2, "resample": "nearest"},
    "nearest_exact": {"tile_size": 224, "max_num_tiles": 2, "resample": "nearest_exact"},
    "canvases given": {"tile_size": 128, "possible_resolutions": [(128, 384), (256, 256), (384, 128)]},
}  # fmt: skip

# Of the exportable transform; "bicubic" of the table above is the same transform in one step.
EXPORTABLE: dict[str, dict[str, Any]] = {
    "bicubic": {"tile_size": 224, "max_num_tiles": 6, "resample": "bicubic"},
    "bilinear, not averaged": {"tile_size": 56, "image_mean": MEAN, "image_std": STD, "antialias": False},
    "bicubic, not averaged": {"tile_size": 56, "resample": "bicubic", "antialias": False, "resize_to_max_canvas": True},
}

# Parts of messages: a string is text, a picture's name in a list is that picture.
CONVERSATIONS: dict[str, list[tuple[str, list[Any]]]] = {
    "one picture": [("user", [["small"], "What is this?"]), ("assistant", ["A pattern."])],
    "text first": [("user", ["Look: ", ["wide"]]), ("assistant", ["Stripes."])],
    "two in a row": [("user", [["small"], ["wide"], "Which is wider?"]), ("assistant", ["The second."])],
    "between texts": [
        ("system", ["Answer briefly."]),
        ("user", ["First ", ["tall"], " then ", ["small"], "?"]),
        ("assistant", ["Yes."]),
        ("user", ["And ", ["huge"]]),
        ("assistant", ["No."]),
    ],
    "no picture": [("user", ["Hello."]), ("assistant", ["Hi."])],
}

# Token lists in which 9 stands for an image, and the tiles of each.
SEQUENCES: list[tuple[list[int], list[int]]] = [
    ([9, 9, 5, 5, 5, 9, 5], [1, 2, 4]),
    ([5, 9, 5, 9, 9], [1, 1, 1]),
    ([9], [3]),
    ([9, 9, 9], [1, 1, 2]),
    ([5, 5, 9, 5, 9, 9, 5, 5], [2, 1, 1]),
]

SIZES = [(1 + 37 * n * n % 1999, 1 + 101 * n % 1777) for n in range(150)]
CANVASES = [(4, 224), (16, 336), (4, 560)]


@cache
def picture(data_folder: Path, name: str) -> Image.Image:
    """A picture of the table."""
    source = PICTURES[name]
    if isinstance(source, str):
        return Image.open(data_folder / source)
    rows, columns, channels = torch.meshgrid(*map(torch.arange, (*source, 3)), indexing="ij")
    values = (rows * 3 + columns * 5 + channels * 60 + rows * columns // 32) % 256
    return Image.fromarray(values.to(torch.uint8).numpy())


def summary(tiles: torch.Tensor) -> dict[str, Any]:
    """Shape, mean and deviation of every tile, and 64 of the values."""
    values = tiles.float()
    places = torch.linspace(0, values.numel() - 1, 64, dtype=torch.float64).long()
    return {
        "shape": list(values.shape),
        "means": [round(float(tile.mean()), 6) for tile in values],
        "deviations": [round(float(tile.std()), 6) for tile in values],
        "values": [round(float(value), 5) for value in values.flatten()[places]],
    }


def mask_digest(mask: torch.Tensor) -> dict[str, Any]:
    """Shape of a mask, how many are True, and the start of a SHA-256 over all."""
    return {
        "shape": list(mask.shape),
        "num_true": int(mask.sum()),
        "digest": hashlib.sha256(mask.to(torch.uint8).numpy().tobytes()).hexdigest()[:16],
    }


def messages(data_folder: Path, name: str, message_class: Any) -> list[Any]:
    """A conversation of the table; only the assistant is trained."""
    return [
        message_class(
            role=role,
            content=[
                {"type": "text", "content": part}
                if isinstance(part, str)
                else {"type": "image", "content": picture(data_folder, part[0])}
                for part in parts
            ],
            masked=role != "assistant",
        )
        for role, parts in CONVERSATIONS[name]
    ]


def canvas_cases() -> Iterator[tuple[int, int, tuple[int, int], bool]]:
    """Tiles, their size, a picture's size and ``resize_to_max_canvas``, of every canvas that is chosen."""
    for max_num_tiles, tile_size in CANVASES:
        for size in SIZES:
            yield from ((max_num_tiles, tile_size, size, to_max) for to_max in (False, True))


def main() -> None:
    """Writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_folder", type=Path)
    parser.add_argument("tokenizer_model", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("vision_goldens.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")

    import importlib.metadata

    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):  # which torchvision looks for when it is imported
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

    from torchtune.data import Message  # pyright: ignore[reportMissingImports]
    from torchtune.models.clip import CLIPImageTransform  # pyright: ignore[reportMissingImports]
    from torchtune.models.clip.inference._transform import (  # pyright: ignore[reportMissingImports]
        CLIPImageTransform as ExportableTransform,
    )
    from torchtune.models.llama3_2_vision import llama3_2_vision_transform  # pyright: ignore[reportMissingImports]
    from torchtune.modules.transforms import VisionCrossAttentionMask  # pyright: ignore[reportMissingImports]
    from torchtune.modules.transforms.vision_utils.get_canvas_best_fit import (  # pyright: ignore[reportMissingImports]
        find_supported_resolutions,
        get_canvas_best_fit,
    )
    from torchtune.modules.transforms.vision_utils.get_inscribed_size import (  # pyright: ignore[reportMissingImports]
        get_inscribed_size,
    )

    folder = arguments.data_folder
    golden: dict[str, Any] = {"pictures": {}, "conversations": {}, "sequences": [], "canvases": [], "inscribed": []}
    for name, options in TRANSFORMS.items():
        transform = CLIPImageTransform(dtype=torch.float32, **options)
        golden["pictures"][name] = {}
        for shown in PICTURES:
            out = transform({"image": picture(folder, shown)})
            golden["pictures"][name][shown] = {"aspect_ratio": out["aspect_ratio"].tolist(), **summary(out["image"])}

    golden["exportable"] = {}
    for name, options in EXPORTABLE.items():
        transform = ExportableTransform(**options)
        golden["exportable"][name] = {}
        for shown in PICTURES:
            out = transform(image=picture(folder, shown))
            golden["exportable"][name][shown] = {"aspect_ratio": out["aspect_ratio"].tolist(), **summary(out["image"])}

    transform = llama3_2_vision_transform(str(arguments.tokenizer_model))
    for name in CONVERSATIONS:
        out = transform({"messages": messages(folder, name, Message)})
        golden["conversations"][name] = {
            "tokens": out["tokens"],
            "mask": [int(value) for value in out["mask"]],
            "aspect_ratio": [ratio.tolist() for ratio in out["encoder_input"]["aspect_ratio"]],
            "images": [summary(image) for image in out["encoder_input"]["images"]],
            "encoder_mask": [mask_digest(mask) for mask in out["encoder_mask"]],
        }

    make_mask = VisionCrossAttentionMask(tile_size=28, patch_size=14, image_token_id=9)
    for tokens, tiles in SEQUENCES:
        sample = {"tokens": tokens, "encoder_input": {"images": [torch.zeros(n, 3, 28, 28) for n in tiles]}}
        golden["sequences"].append([mask_digest(mask) for mask in make_mask(sample)["encoder_mask"]])

    for max_num_tiles, tile_size, size, to_max in canvas_cases():
        canvases = torch.tensor(find_supported_resolutions(max_num_tiles, tile_size))
        canvas = get_canvas_best_fit(torch.empty(1, *size), canvases, to_max)
        golden["canvases"].append(list(canvas))
        golden["inscribed"].append(list(get_inscribed_size(size, canvas, None if to_max else tile_size)))
    golden["resolutions"] = [find_supported_resolutions(*canvas) for canvas in CANVASES]

    packages = ("torchtune", "torchvision", "torch", "pillow", "tiktoken")
    made_with = {package: importlib.metadata.version(package) for package in packages}
    text = json.dumps({"made_with": made_with, **golden}, indent=None, separators=(",", ":"))
    arguments.out.write_text(text.replace('},"', '},\n"') + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
