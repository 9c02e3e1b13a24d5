"""A data set that has a padding pack too."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import DataError
from torchpipe.loading.balance import PADDING


class WithPadding:
    """A map-style data set whose item -1 is a padding pack: nothing in it is trained on, and it weighs nothing.

    It is the data set's own ``padding_pack()``, or else item 0 with every label -100, every loss weight 0 and its mask
    saying that no token is trained. Where packs have several lengths (``pack_lens``), it is made in the same way of
    another item of its batch, and has its length.

    Args:
        dataset: has ``__len__`` and ``__getitem__``.

    >>> data = WithPadding([{"tokens": [5, 6], "labels": [6, 7]}])
    >>> data[-1]
    {'tokens': [5, 6], 'labels': [-100, -100]}
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self._padding: Any = None

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        return self.padding() if index == PADDING else self.dataset[index]

    def __getitems__(self, indices: Sequence[int]) -> Sequence[Any]:
        """The items; what torch's ``DataLoader`` asks for. Those of the data set in one call, where it has that."""
        real = [index for index in indices if index != PADDING]
        many = getattr(self.dataset, "__getitems__", None)
        items = [self.dataset[index] for index in real] if many is None else many(real)
        if len(real) == len(indices):
            return items
        # Packs of one batch have one length, and padding_pack() has but one.
        has_lengths = getattr(self.dataset, "pack_lens", None) is not None
        padding = untrained(items[0]) if has_lengths and items else self.padding()
        found = iter(items)
        return [padding if index == PADDING else next(found) for index in indices]

    def padding(self) -> Any:
        """The padding pack.

        Raises:
            DataError: the data set has no ``padding_pack()``, and its items no labels to take out.
        """
        if self._padding is None:
            own = getattr(self.dataset, "padding_pack", None)
            self._padding = own() if own is not None else untrained(self.dataset[0])
        return self._padding


def untrained(sample: Any) -> dict[str, Any]:
    """The sample with nothing trained: labels are -100, loss weights 0, and the mask is True (not trained).

    Raises:
        DataError: it is no mapping with ``labels`` (or keys that end in ``_labels``).

    >>> untrained({"tokens": [1, 2], "labels": [2, 3], "mask": [False, False], "loss_weights": [1.0, 2.0]})
    {'tokens': [1, 2], 'labels': [-100, -100], 'mask': [True, True], 'loss_weights': [0.0, 0.0]}
    """
    is_labelled = isinstance(sample, Mapping) and any(_fill_of(key) == IGNORE_INDEX for key in sample)
    if not is_labelled:
        raise DataError(
            "A step has fewer packs than its ranks and micro-batches hold, and no padding pack can be made of this "
            "data set's items: they have no labels. Give the data set a method padding_pack()."
        )
    return {key: value if (fill := _fill_of(key)) is None else _filled(value, fill) for key, value in sample.items()}


def _fill_of(key: Any) -> int | float | bool | None:
    name = str(key)
    if name == "labels" or name.endswith("_labels"):
        return IGNORE_INDEX
    return {"loss_weights": 0.0, "mask": True}.get(name)


def _filled(values: Any, fill: float) -> Any:
    if isinstance(values, np.ndarray):
        return np.full_like(values, fill)
    if hasattr(values, "new_full"):  # a tensor
        return values.new_full(tuple(values.shape), fill)
    return [fill] * len(values)
