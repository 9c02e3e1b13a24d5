"""Seeding of everything that draws random numbers."""

import random
import secrets

import numpy as np
import torch

from torchpipe._seeds import derive


def set_seed(seed: int, *path: str | int) -> None:
    """Seeds torch, NumPy and Python, each with a seed of its own derived from ``seed`` and a path of names and numbers.

    With a step's number and the rank in the path, what a step draws follows from them: a resumed run draws the same.
    """
    torch.manual_seed(derive(seed, *path, "torch") % 2**63)
    np.random.seed(derive(seed, *path, "numpy") % 2**32)
    random.seed(derive(seed, *path, "python"))


def drawn_seed() -> int:
    """A seed that nobody chose: a whole number below 2**32."""
    return secrets.randbelow(2**32)
