"""The samples of several stores, numbered one store after the other."""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from torchpipe.store.sample_index import SampleIndex
from torchpipe.store.span_reader import SpanReader
from torchpipe.store.token_store import TokenStore


class ChosenSamples:
    """Samples of several stores, in any order and as often as one likes, read as those of one store are.

    No token is copied or written: the stores' shards are read as they lie. It takes the chosen numbers, and 16 bytes
    for each sample of the stores. Pickled, it is the stores' paths and the numbers.

    Args:
        stores: of the samples.
        chosen: whole numbers [samples]: those of the first store, then those of the second, and so on.

    Attributes:
        lengths, trained_counts: uint32 [samples]: tokens, and labels that are not -100, of each.
        rows: int64 [samples], the places in ``chosen``: 0, 1, ...
        num_samples: how many there are.
        has_weights: whether any store's samples have loss weights; those of the others then weigh 1.
        digest: a hash of all samples in their order.
        ledger: every place was read and is stored; what became of the stores' own rows, they say.
    """

    def __init__(self, stores: Sequence[TokenStore], chosen: np.ndarray) -> None:
        self.stores = tuple(stores)
        self._chosen = chosen
        shards = [shard for store in stores for shard in store.shards]
        lazy = any(store.verify == "lazy" for store in stores)
        index = SampleIndex.of(shards, check=lazy)
        self._reader = SpanReader(shards, index, lazy=lazy)
        self.lengths = index.lengths[chosen]
        self.trained_counts = index.trained_counts[chosen]
        self.num_samples = len(chosen)
        self.has_weights = any(store.has_weights for store in stores)
        self.ledger = {"read": self.num_samples, "stored": self.num_samples}

    @cached_property
    def digest(self) -> str:
        """A hash of all samples in their order."""
        hashed = hashlib.blake2b(repr([store.digest for store in self.stores]).encode(), digest_size=16)
        hashed.update(self._chosen.astype("<i8").data)
        return hashed.hexdigest()

    @property
    def rows(self) -> np.ndarray:
        """The place of each sample, int64 [samples]: ascending, as the rows of a store are."""
        return np.arange(self.num_samples)

    @property
    def left_out(self) -> np.ndarray:
        """No place has no sample: int64 [0, 2]."""
        return np.zeros((0, 2), np.int64)

    @property
    def weight_sums(self) -> np.ndarray:
        """The sum of each sample's loss weights over the labels that are not -100: float64 [samples]."""
        return np.concatenate([store.weight_sums for store in self.stores])[self._chosen]

    def gather(
        self,
        sample: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
        *,
        tokens: np.ndarray,
        labels: np.ndarray,
        loss_weights: np.ndarray | None = None,
    ) -> None:
        """Writes the spans; see :meth:`~torchpipe.store.TokenStore.gather`."""
        self._reader.gather(self._numbers(sample), start, stop, tokens=tokens, labels=labels, loss_weights=loss_weights)

    def trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """How many labels of each span are not -100: int64 [spans]."""
        return self._reader.trained_in(self._numbers(sample), start, stop)

    def _numbers(self, sample: np.ndarray) -> np.ndarray:
        return self._chosen[sample].astype(np.int64, copy=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ChosenSamples, (self.stores, self._chosen)
