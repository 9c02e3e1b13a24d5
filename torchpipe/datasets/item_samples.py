"""The samples that an item of any data set holds: one, or both sides of a pair."""

from collections.abc import Mapping
from typing import Any

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_transform import SIDES
from torchpipe.data.sequences import shifted
from torchpipe.datasets.pair_side import side_of


def is_pair(item: Mapping[str, Any]) -> bool:
    """Whether an item is a pair of samples."""
    return f"{SIDES[0]}_input_ids" in item


def samples_in(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Samples with ``tokens`` and ``labels`` for each that the item holds; of a prompt, no label is trained.

    Labels are shifted, as those of every sample are; an item's own may stand at the place of their token.

    Args:
        item: of a data set for fine-tuning, of pairs, of labelled answers or of prompts.

    >>> pair = {f"{side}_{what}": [1, 2] for side in ("chosen", "rejected") for what in ("input_ids", "labels")}
    >>> [sample["labels"].tolist() for sample in samples_in(pair)]
    [[2, -100], [2, -100]]
    """
    if is_pair(item):
        return [side_of(item, side) for side in SIDES]
    if "tokens" in item and "labels" in item:
        return [item]
    if "input_ids" in item:
        return [{"tokens": item["input_ids"], "labels": shifted(item["labels"])}]
    return [{"tokens": item["tokens"], "labels": [IGNORE_INDEX] * len(item["tokens"])}]
