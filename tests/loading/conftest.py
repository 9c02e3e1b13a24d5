"""A data set of packs that takes no store: every pack's numbers follow from its index."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest


class Packs:
    """Packs of 8 tokens, with what a packed data set offers a loader."""

    def __init__(self, num_packs: int) -> None:
        self.fingerprint = f"packs {num_packs}"
        self.costs = (np.arange(num_packs, dtype=np.int64) * 37) % 11 + 5
        self.trained_counts = np.arange(num_packs, dtype=np.int64) % 8 + 1
        self.weight_sums = None

    def __len__(self) -> int:
        return len(self.costs)

    def __getitem__(self, pack: int) -> dict[str, np.ndarray]:
        if not 0 <= pack < len(self):
            raise IndexError(pack)
        tokens = np.arange(8, dtype=np.int64) + 100 * pack
        return {"tokens": tokens, "labels": np.where(np.arange(8) < self.trained_counts[pack], tokens + 1, -100)}

    def padding_pack(self) -> dict[str, np.ndarray]:
        return {"tokens": np.zeros(8, dtype=np.int64), "labels": np.full(8, -100)}

    def batch(self, packs: Sequence[int]) -> dict[str, np.ndarray]:
        items = [self[pack] for pack in packs]
        return {key: np.stack([item[key] for item in items]) for key in items[0]}


@pytest.fixture
def make_packs() -> Callable[[int], Any]:
    """Function (number) -> a data set of so many packs."""
    return Packs
