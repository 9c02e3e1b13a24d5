"""Seeding of everything that draws random numbers."""

import random

import numpy as np
import torch

from torchpipe._seeds import derive


def set_seed(seed: int) -> None:
    """Seeds torch, NumPy and Python, each with a seed of its own derived from ``seed``."""
    torch.manual_seed(derive(seed, "torch") % 2**63)
    np.random.seed(derive(seed, "numpy") % 2**32)
    random.seed(derive(seed, "python"))
