"""Seeding of everything that draws random numbers."""

import random
import secrets
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from torchpipe._seeds import derive
from torchpipe.training.distributed import Ranks


def set_seed(seed: int, *path: str | int) -> None:
    """Seeds torch, NumPy and Python, each with a seed of its own derived from ``seed`` and a path of names and numbers.

    With a step's number and the rank in the path, what a step draws follows from them: a resumed run draws the same.
    """
    torch.manual_seed(derive(seed, *path, "torch") % 2**63)
    np.random.seed(derive(seed, *path, "numpy") % 2**32)
    random.seed(derive(seed, *path, "python"))


def seed_of_run(given: int | None, state: Mapping[str, Any], ranks: Ranks) -> int:
    """The seed of a run, the same on every rank: the one given, else that of the run it goes on with, else a drawn one.

    A drawn seed is printed, and is to be kept in checkpoints under ``depends_on``.

    Args:
        given: None draws.
        state: of the checkpoint that the run goes on from, see :func:`~torchpipe.training.read_state`; empty: none.

    >>> seed_of_run(3, {}, Ranks()), seed_of_run(None, {"depends_on": {"seed": 4}}, Ranks())
    (3, 4)
    """
    if given is not None:
        return given
    kept = state.get("depends_on", {}).get("seed")
    if kept is None:
        kept = ranks.of_first("seed", lambda: secrets.randbelow(2**32))
        print(f"seed: {kept} (drawn; seed={kept} gives the same run)", flush=True)
    return kept
