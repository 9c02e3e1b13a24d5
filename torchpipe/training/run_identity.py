"""What a resumed run has to share with the one before."""

from collections.abc import Mapping
from typing import Any

from torchpipe.data.ledger import SampleCounts

SECTIONS = ("tokenizer", "dataset", "collate_fn", "model", "optimizer", "loss", "lr_scheduler")
NUMBERS = (
    "seed",
    "shuffle",
    "batch_size",
    "gradient_accumulation_steps",
    "balance",
    "max_steps_per_epoch",
    "clip_grad_norm",
    "dtype",
)


BASE_WEIGHTS = "the base weights' files (a hash)"
"""How a refused resume names the weights that training began with."""


def what_decides_the_run(
    settings: Mapping[str, Any], counts: SampleCounts | None, *, weights: str | None = None
) -> dict[str, Any]:
    """The samples, their order, the model and how it learns: JSON values that a resumed run is compared by.

    Args:
        settings: the recipe's, as plain values.
        counts: of the training rows; None where they were not counted. Counted, the samples themselves are compared,
            and it does not matter where their files lie.
        weights: what tells the weights that training begins with; None: they are drawn.

    >>> settings = dict.fromkeys((*SECTIONS, *NUMBERS)) | {"seed": 3}
    >>> what_decides_the_run(settings, None)["seed"]
    3
    """
    decided = {key: settings[key] for key in (*SECTIONS, *NUMBERS)}
    if counts:
        decided |= {"tokens and labels": counts.digest}
        decided["tokenizer"] = _without(decided["tokenizer"], "path")
        decided["dataset"] = _without(decided["dataset"], "data_files", "data_dir")
    return decided if weights is None else {**decided, BASE_WEIGHTS: weights}


def _without(section: Any, *keys: str) -> Any:
    """A section, or those in it or in a list (joined and mixed data sets), without some of their keys."""
    if isinstance(section, list):
        return [_without(one, *keys) for one in section]
    if not isinstance(section, Mapping):
        return section
    return {key: _without(value, *keys) for key, value in section.items() if key not in keys}
