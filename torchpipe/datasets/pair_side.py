"""One side of a pair, as a sample."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from torchpipe._suggest import listed
from torchpipe.data.sequences import shifted
from torchpipe.errors import DataError


def side_of(pair: Mapping[str, Any], side: str) -> dict[str, np.ndarray]:
    """``tokens`` and ``labels`` of one side, int64 [n]; labels are shifted, as those of every sample are.

    For whatever looks at samples: showing one, finding its prompt, checking that a model can hold it.

    Args:
        pair: an item of a data set of pairs, such as :class:`~torchpipe.datasets.PreferenceDataset`.
        side: "chosen" or "rejected".

    Raises:
        DataError: the item is no pair.

    >>> pair = {"chosen_input_ids": [1, 2, 3], "chosen_labels": [-100, 2, 3],
    ...         "rejected_input_ids": [1, 4], "rejected_labels": [-100, 4]}
    >>> {key: values.tolist() for key, values in side_of(pair, "chosen").items()}
    {'tokens': [1, 2, 3], 'labels': [2, 3, -100]}
    """
    keys = f"{side}_input_ids", f"{side}_labels"
    if not isinstance(pair, Mapping) or any(key not in pair for key in keys):
        held = listed(pair) if isinstance(pair, Mapping) else f"a {type(pair).__name__}"
        raise DataError(
            f"An item of a data set of pairs has {listed(keys)}; this one is {held}. Use "
            "torchpipe.datasets.preference_dataset, with packed=False."
        )
    tokens, labels = (np.asarray(pair[key], dtype=np.int64) for key in keys)
    return {"tokens": tokens, "labels": shifted(labels)}
