"""The samples that an item of any data set holds: one, or both sides of a pair; and what holds none to train on."""

from collections.abc import Mapping, Sequence
from typing import Any

from torchpipe._suggest import listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_transform import SIDES
from torchpipe.datasets.joined import JoinedDataset
from torchpipe.errors import ConfigError


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


def refuse_datasets_without_samples(dataset: Any, whose: str) -> None:
    """The same for the first item of a data set, or of each that it joins or mixes.

    Raises:
        ConfigError: as :func:`refuse_other_than_samples`.
    """
    if isinstance(dataset, JoinedDataset):
        for part in dataset.datasets:
            refuse_datasets_without_samples(part, whose)
        return
    refuse_other_than_samples(dataset[0], dataset, whose)


def refuse_other_than_samples(item: Any, dataset: Any, whose: str) -> None:
    """Refuses a data set whose items are not ``tokens`` and ``labels``: pairs, labelled answers, prompts, or none.

    Args:
        item: of the data set.
        dataset: whose class the sentence names.
        whose: who needs samples, as the sentence begins: "Recipe sft trains on".

    Raises:
        ConfigError: it is such a data set; the sentence says what to use.
    """
    if isinstance(item, Mapping) and "tokens" in item and "labels" in item:
        return
    kinds = {
        f"{SIDES[0]}_input_ids": "pairs: `torchpipe run dpo` trains on them",
        "desirable": "answers with a label: batches of them are made by torchpipe.data.padded_collate_kto, for a loss "
        "of your own",
        "tokens": "prompts: they have nothing to train on",
    }
    held = item if isinstance(item, Mapping) else {}
    kind = next((words for key, words in kinds.items() if key in held), None)
    told = kind or (f"dicts with the keys {listed(held)}" if held else f"of the type {type(item).__name__}")
    raise ConfigError(f"{whose} samples of tokens and labels, and the items of {_named(dataset)} are {told}.")


def _named(dataset: Any) -> str:
    name = getattr(dataset, "name", None)
    return f"{name} ({type(dataset).__name__})" if isinstance(name, str) else f"a {type(dataset).__name__}"
