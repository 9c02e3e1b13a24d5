"""What runs have left in their folders."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig
from safetensors.torch import load_file

Build = Callable[..., DictConfig]


def newest(output_dir: str | Path) -> Path:
    """The folder of the newest checkpoint."""
    return max((Path(output_dir) / "checkpoints").glob("step_*"))


def weights_of(output_dir: str | Path) -> dict[str, torch.Tensor]:
    """The newest checkpoint's weights, of a model or an adapter."""
    (file,) = newest(output_dir).glob("*.safetensors")
    return load_file(file)


def same_weights(one: dict[str, torch.Tensor], two: dict[str, torch.Tensor]) -> bool:
    """Whether all are the same to the bit."""
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def steps_of(output_dir: str | Path, *keys: str) -> list[tuple[Any, ...]]:
    """These keys of each step in the log."""
    lines = (Path(output_dir) / "log.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)[key] for key in keys) for line in lines]
