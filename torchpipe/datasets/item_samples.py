"""The samples that an item of any data set holds: one, or both sides of a pair; and what holds none to train on."""

from collections.abc import Mapping
from typing import Any

from torchpipe._suggest import listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_transform import SIDES
from torchpipe.data.sequences import shifted
from torchpipe.datasets.joined import JoinedDataset
from torchpipe.datasets.pair_side import side_of
from torchpipe.errors import ConfigError, DataError


def is_pair(item: Any) -> bool:
    """Whether an item is a pair of samples."""
    return isinstance(item, Mapping) and f"{SIDES[0]}_input_ids" in item


def samples_in(item: Any) -> list[Mapping[str, Any]]:
    """Samples with ``tokens`` and ``labels`` for each that the item holds; of a prompt, no label is trained.

    Labels are shifted, as those of every sample are; an item's own may stand at the place of their token.

    Args:
        item: of a data set for fine-tuning, of pairs, of labelled answers or of prompts.

    Raises:
        DataError: it is none of these.

    >>> pair = {f"{side}_{what}": [1, 2] for side in ("chosen", "rejected") for what in ("input_ids", "labels")}
    >>> [sample["labels"].tolist() for sample in samples_in(pair)]
    [[2, -100], [2, -100]]
    """
    if is_pair(item):
        return [side_of(item, side) for side in SIDES]
    if _is_sample(item):
        return [item]
    held = item if isinstance(item, Mapping) else {}
    if "input_ids" in held:
        return [{"tokens": held["input_ids"], "labels": shifted(held["labels"])}]
    if "tokens" in held:
        return [{"tokens": held["tokens"], "labels": [IGNORE_INDEX] * len(held["tokens"])}]
    raise DataError(
        f"The items of the data set are {_told(item)}. They have to be samples of tokens and labels, pairs, labelled "
        "answers or prompts."
    )


def refuse_datasets_without_samples(dataset: Any, whose: str) -> None:
    """Refuses a data set whose first item is not ``tokens`` and ``labels``, or one that joins or mixes such a one.

    Args and errors are those of :func:`refuse_other_than_samples`.
    """
    if isinstance(dataset, JoinedDataset):
        for part in dataset.datasets:
            refuse_datasets_without_samples(part, whose)
        return
    refuse_other_than_samples(dataset[0], dataset, whose)


def refuse_other_than_samples(item: Any, dataset: Any, whose: str) -> None:
    """Refuses an item that is not ``tokens`` and ``labels``: a pair, a labelled answer, a prompt, or none of these.

    Args:
        item: of the data set.
        dataset: whose class the sentence names.
        whose: who needs samples, as the sentence begins: "Recipe sft trains on".

    Raises:
        ConfigError: it is such an item; the sentence says what to use.
    """
    if _is_sample(item):
        return
    kinds = {
        f"{SIDES[0]}_input_ids": "pairs: `torchpipe run dpo` trains on them",
        "desirable": "answers with a label: batches of them are made by torchpipe.data.padded_collate_kto, for a loss "
        "of your own",
        "tokens": "prompts: they have nothing to train on",
    }
    held = item if isinstance(item, Mapping) else {}
    kind = next((words for key, words in kinds.items() if key in held), None)
    raise ConfigError(
        f"{whose} samples of tokens and labels, and the items of {_named(dataset)} are {kind or _told(item)}."
    )


def _is_sample(item: Any) -> bool:
    return isinstance(item, Mapping) and "tokens" in item and "labels" in item


def _told(item: Any) -> str:
    held = isinstance(item, Mapping) and item
    return f"dicts with the keys {listed(item)}" if held else f"of the type {type(item).__name__}"


def _named(dataset: Any) -> str:
    name = getattr(dataset, "name", None)
    return f"{name} ({type(dataset).__name__})" if isinstance(name, str) else f"a {type(dataset).__name__}"
