"""What the items of a data set are called."""

from typing import Any

from torchpipe.datasets import GrowingPackedDataset, PackedDataset
from torchpipe.store.rows import kind_of, noun_of_kind


def noun_of(dataset: Any) -> str:
    """What an item of a data set is: "pack", "pair", "prompt", or "row"; its plural has an s.

    >>> noun_of([{"tokens": [1], "labels": [-100]}])
    'row'
    """
    if isinstance(dataset, PackedDataset | GrowingPackedDataset) or getattr(dataset, "packed", False):
        return "pack"
    return noun_of_kind(kind_of(dataset))
