"""Samples in memory that are read as those of a store are: of lists, and of the first rows of a source."""

import hashlib

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger import Ledger, SampleCounts
from torchpipe.data.packing.ramps import ramps
from torchpipe.store.flat_samples import NUM_REFUSED, REMARKS_FILE, FlatSamples


class MemorySamples:
    """Samples at 8 bytes a token, read by spans like a :class:`~torchpipe.store.TokenStore`'s.

    Args:
        flat: the samples.
        num_rows: rows that were added to it.

    Attributes:
        lengths, trained_counts, rows: int64 [samples]: tokens, labels that are not -100, and the row, of each.
        weight_sums: float64 [samples], the sum of the weights of the labels that are not -100.
        num_samples: how many there are.
        has_weights: whether they have loss weights.
        digest: a hash of all samples.
        ledger: what became of the rows, by reason; its ids were checked.
    """

    def __init__(self, flat: FlatSamples, *, num_rows: int) -> None:
        data = flat.finished(first_row=0, num_rows=num_rows)
        ledger = Ledger.of_columns(
            read=np.arange(num_rows), rows=data.rows, left_out=data.left_out, remarks=data.extra[REMARKS_FILE]
        )
        ledger.check(num_rows)
        self._tokens = data.tokens.astype(np.int32)
        self._labels = data.all_labels()
        self._weights = None if data.loss_weights is None else data.loss_weights.astype(np.float32)
        self.lengths = data.lengths
        self.rows = data.rows
        self.num_samples = len(data.lengths)
        self.has_weights = self._weights is not None
        self._offsets = np.concatenate([[0], np.cumsum(data.lengths)])
        self.trained_counts = self._sums(self._labels != IGNORE_INDEX).astype(np.int64)
        self.weight_sums = self.trained_counts.astype(np.float64)
        if self._weights is not None:
            self.weight_sums = self._sums(np.where(self._labels != IGNORE_INDEX, self._weights, 0))
        hashed = hashlib.blake2b(digest_size=16)
        for array in (self.lengths, self._tokens, self._labels, *([] if self._weights is None else [self._weights])):
            hashed.update(np.ascontiguousarray(array).data)
        self.digest = hashed.hexdigest()
        self.ledger = ledger.as_counts()
        self.left_out = data.left_out
        self._totals = {name: count for name, count in data.counts.items() if name != NUM_REFUSED}

    def counts(self) -> SampleCounts:
        """What became of the rows and samples."""
        return SampleCounts.of_sets(
            self.ledger,
            rows=self.num_samples,
            tokens=len(self._tokens),
            trained_tokens=int(self.trained_counts.sum()),
            untrained_rows=int((self.trained_counts == 0).sum()),
            longest=int(self.lengths.max(initial=0)),
            largest_token_id=int(self._tokens.max(initial=-1)),
            digest=self.digest,
            **self._totals,
        )

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
        places = self._places(sample, start, stop)
        tokens[:] = self._tokens[places]
        labels[:] = self._labels[places]
        if loss_weights is not None:
            loss_weights[:] = 1.0 if self._weights is None else self._weights[places]

    def trained_in(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        """How many labels of each span are not -100: int64 [spans]."""
        before = np.concatenate([[0], np.cumsum(self._labels != IGNORE_INDEX)])
        first = self._offsets[sample]
        return before[first + stop] - before[first + start]

    def _places(self, sample: np.ndarray, start: np.ndarray, stop: np.ndarray) -> np.ndarray:
        return ramps(self._offsets[sample] + start, stop - start)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        owner = np.repeat(np.arange(self.num_samples), self.lengths)
        return np.bincount(owner, weights=values, minlength=self.num_samples)
