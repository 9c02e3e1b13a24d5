"""Pictures through torchpipe, without torchvision, and through torchtune 0.6.1 with it."""

import json
import runpy
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe.data import Message
from torchpipe.models.clip.inference import CLIPImageTransform as ExportableTransform
from torchpipe.models.llama3_2_vision import llama3_2_vision_transform
from torchpipe.vision import (
    CLIPImageTransform,
    VisionCrossAttentionMask,
    find_supported_resolutions,
    get_canvas_best_fit,
    get_inscribed_size,
)

HERE = Path(__file__).parent
MAKER = runpy.run_path(str(HERE / "make_vision_goldens.py"))
GOLDENS: dict[str, Any] = json.loads((HERE / "vision_goldens.json").read_text(encoding="utf-8"))


def close(ours: list[float], theirs: list[float], tolerance: float) -> bool:
    return len(ours) == len(theirs) and all(abs(a - b) <= tolerance for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", GOLDENS["pictures"])
def test_tiles_equal_those_of_torchtune_with_torchvision(name: str, shared_data: Path) -> None:
    """Means and deviations within 1e-4, as torchtune's own tests ask; values too."""
    transform = CLIPImageTransform(dtype=torch.float32, **MAKER["TRANSFORMS"][name])
    for shown, golden in GOLDENS["pictures"][name].items():
        out = transform({"image": MAKER["picture"](shared_data, shown)})
        ours = MAKER["summary"](out["image"])
        assert out["aspect_ratio"].tolist() == golden["aspect_ratio"], shown
        assert ours["shape"] == golden["shape"], shown
        for key in ("means", "deviations", "values"):
            assert close(ours[key], golden[key], 1e-4), (shown, key)


@pytest.mark.parametrize("name", GOLDENS["exportable"])
def test_tiles_of_the_exportable_transform_equal_torchtunes(name: str, shared_data: Path) -> None:
    transform = ExportableTransform(**MAKER["EXPORTABLE"][name])
    for shown, golden in GOLDENS["exportable"][name].items():
        out = transform(image=MAKER["picture"](shared_data, shown))
        ours = MAKER["summary"](out["image"])
        assert out["aspect_ratio"].tolist() == golden["aspect_ratio"], shown
        assert ours["shape"] == golden["shape"], shown
        for key in ("means", "deviations", "values"):
            assert close(ours[key], golden[key], 1e-4), (shown, key)


@pytest.mark.parametrize("name", GOLDENS["conversations"])
def test_llama_3_2_vision_samples_equal_torchtunes(name: str, shared_data: Path, llama3_tokenizer_file: Path) -> None:
    golden = GOLDENS["conversations"][name]
    messages = MAKER["messages"](shared_data, name, Message)
    out = llama3_2_vision_transform(str(llama3_tokenizer_file))({"messages": messages})
    assert out["tokens"] == golden["tokens"]
    assert out["mask"] == [bool(value) for value in golden["mask"]]
    assert [ratio.tolist() for ratio in out["encoder_input"]["aspect_ratio"]] == golden["aspect_ratio"]
    assert [MAKER["mask_digest"](mask) for mask in out["encoder_mask"]] == golden["encoder_mask"]
    for image, theirs in zip(out["encoder_input"]["images"], golden["images"], strict=True):
        ours = MAKER["summary"](image)
        assert ours["shape"] == theirs["shape"]
        # torchtune rounds to bfloat16 before it resizes and normalizes, torchpipe once at the end.
        assert close(ours["means"], theirs["means"], 5e-3)


def test_cross_attention_masks_equal_torchtunes() -> None:
    make_mask = VisionCrossAttentionMask(tile_size=28, patch_size=14, image_token_id=9)
    for (tokens, tiles), golden in zip(MAKER["SEQUENCES"], GOLDENS["sequences"], strict=True):
        images = [torch.zeros(n, 3, 28, 28) for n in tiles]
        masks = make_mask({"tokens": tokens, "encoder_input": {"images": images}})["encoder_mask"]
        assert [MAKER["mask_digest"](mask) for mask in masks] == golden


def test_canvases_equal_torchtunes() -> None:
    found = [find_supported_resolutions(*canvas) for canvas in MAKER["CANVASES"]]
    assert [[list(canvas) for canvas in canvases] for canvases in found] == GOLDENS["resolutions"]
    for (max_num_tiles, tile_size, size, to_max), golden in zip(
        MAKER["canvas_cases"](), GOLDENS["canvases"], strict=True
    ):
        canvases = torch.tensor(find_supported_resolutions(max_num_tiles, tile_size))
        assert get_canvas_best_fit(torch.empty(1, *size), canvases, to_max) == tuple(golden)


def test_sizes_in_a_canvas_equal_torchtunes_or_are_nearer_to_the_proportions() -> None:
    """Floats lose a pixel where the exact size is a whole number, and give no pixel at all to a thin picture."""
    different = 0
    for (_, tile_size, size, to_max), canvas, golden in zip(
        MAKER["canvas_cases"](), GOLDENS["canvases"], GOLDENS["inscribed"], strict=True
    ):
        ours = get_inscribed_size(size, canvas, None if to_max else tile_size)
        if ours == tuple(golden):
            continue
        different += 1
        limits = canvas if to_max else [min(c, max(s, tile_size)) for c, s in zip(canvas, size, strict=True)]
        scale = min(Fraction(limit, side) for limit, side in zip(limits, size, strict=True))
        assert ours == tuple(max(1, int(side * scale)) for side in size)
    assert different == 1
