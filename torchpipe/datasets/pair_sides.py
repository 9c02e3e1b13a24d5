"""The two samples of each pair, one after the other."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger import SampleCounts
from torchpipe.data.pair_transform import SIDES
from torchpipe.errors import DataError


class PairSides(Dataset[dict[str, Any]]):
    """A data set of pairs as one of samples: 2k is the chosen side of pair k, 2k + 1 the rejected one.

    For whatever looks at samples: counting, showing, checking that a model can hold them.

    Args:
        pairs: has ``__len__`` and ``__getitem__``, whose items have the keys of
            :class:`~torchpipe.datasets.PreferenceDataset`.

    Each sample has ``tokens`` and ``labels``, int64 [n], shifted as those of every data set of samples are.

    Attributes:
        counts: those of the pairs' store, which counts both sides; absent where they are not stored.
        num_filtered, num_left_out: as of the pairs, for :func:`~torchpipe.datasets.count_samples`.

    >>> pair = {"chosen_input_ids": [1, 2, 3], "chosen_labels": [-100, 2, 3],
    ...         "rejected_input_ids": [1, 4], "rejected_labels": [-100, 4]}
    >>> {key: values.tolist() for key, values in PairSides([pair])[0].items()}
    {'tokens': [1, 2, 3], 'labels': [2, 3, -100]}
    """

    counts: SampleCounts

    def __init__(self, pairs: Any) -> None:
        self._pairs = pairs
        if isinstance(counts := getattr(pairs, "counts", None), SampleCounts):
            self.counts = counts
        self.num_filtered: int = getattr(pairs, "num_filtered", 0)
        self.num_left_out: Mapping[str, int] = getattr(pairs, "num_left_out", {})

    def __len__(self) -> int:
        return len(SIDES) * len(self._pairs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        pair, side = divmod(index, len(SIDES))
        return side_of(self._pairs[pair], SIDES[side])


def side_of(pair: Mapping[str, Any], side: str) -> dict[str, Any]:
    """One side of a pair as a sample: ``tokens`` and shifted ``labels``.

    Raises:
        DataError: the item is no pair.
    """
    keys = f"{side}_input_ids", f"{side}_labels"
    if not isinstance(pair, Mapping) or any(key not in pair for key in keys):
        held = ", ".join(map(str, pair)) if isinstance(pair, Mapping) else f"a {type(pair).__name__}"
        raise DataError(
            f"An item of a data set of pairs has {' and '.join(keys)}; this one is {held}. Use "
            "torchpipe.datasets.preference_dataset, with packed=False."
        )
    tokens, labels = (np.asarray(_ids(pair[key]), dtype=np.int64) for key in keys)
    return {"tokens": tokens, "labels": np.append(labels[1:], IGNORE_INDEX)}


def _ids(values: Any) -> Sequence[int]:
    return values.tolist() if hasattr(values, "tolist") else values
