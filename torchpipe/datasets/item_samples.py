"""The samples that an item of any data set holds: one, or both sides of a pair."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_transform import SIDES


def samples_in(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Samples with ``tokens`` and ``labels`` for each that the item holds; of a prompt, no label is trained.

    Args:
        item: of a data set for fine-tuning, of pairs, of labelled answers or of prompts.

    >>> pair = {f"{side}_{what}": [1, 2] for side in ("chosen", "rejected") for what in ("input_ids", "labels")}
    >>> samples_in(pair)
    [{'tokens': [1, 2], 'labels': [1, 2]}, {'tokens': [1, 2], 'labels': [1, 2]}]
    """
    if f"{SIDES[0]}_input_ids" in item:
        return [{"tokens": item[f"{side}_input_ids"], "labels": item[f"{side}_labels"]} for side in SIDES]
    if "tokens" in item and "labels" in item:
        return [item]
    tokens: Sequence[int] = item["tokens"] if "tokens" in item else item["input_ids"]
    return [{"tokens": tokens, "labels": item.get("labels", [IGNORE_INDEX] * len(tokens))}]
