"""The micro-batches of lists of indices: read, and collated."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from torch.utils.data import Dataset

from torchpipe.errors import ConfigError
from torchpipe.loading.balance import PADDING
from torchpipe.loading.parcel import in_a_parcel
from torchpipe.loading.with_padding import WithPadding


class MicroBatches(Dataset[Any]):
    """A whole micro-batch for each list of indices, so that it is read and collated in the worker.

    Args:
        dataset, collate_fn, collate_batch: as :class:`~torchpipe.loading.StepLoader` takes them. Index -1 is padding.

    Raises:
        ConfigError: batches can't be read at once from this data set.
    """

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any], collate_batch: Callable[[Any], Any] | None
    ) -> None:
        if collate_batch is not None and not hasattr(dataset, "batch"):
            raise ConfigError(
                f"collate_batch is for a data set with batch(indices), and {type(dataset).__name__} has none. Leave it "
                "out."
            )
        self._items = WithPadding(dataset)
        self._collate_fn, self._collate_batch = collate_fn, collate_batch

    def __getitem__(self, indices: Sequence[int]) -> Any:
        if self._collate_batch is not None and PADDING not in indices:
            return in_a_parcel(self._collate_batch(self._items.dataset.batch(indices)))
        return in_a_parcel(self._collate_fn(self._items.__getitems__(indices)))

    def of_each(self, lists: Iterator[Sequence[int]]) -> Iterator[Any]:
        """The micro-batch of each list of indices. Items of several may be read together; each is collated when it is
        asked for.
        """
        num_at_once = getattr(self._items.dataset, "num_read_at_once", 1)
        for indices in lists:
            together = [indices, *islice(lists, max(1, num_at_once // len(indices)) - 1)]
            if len(together) == 1:
                yield self[indices]
                continue
            items = iter(self._items.__getitems__([index for each in together for index in each]))
            for each in together:
                yield self._collate_fn(list(islice(items, len(each))))
