"""What a shard is written from: flat arrays of many samples, checked, and as the files hold them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.errors import StoreError
from torchpipe.store.bit_ranks import BitRanks

MAX_TOKEN_ID = 2**31 - 1
"""Labels are int32 on the disk."""


@dataclass(frozen=True, kw_only=True)
class ShardData:
    """The samples of the source rows ``first_row`` to ``first_row + num_rows - 1``, one after another.

    ``t`` tokens in ``s`` samples. Label space: position i speaks of the label there, which is to be predicted from the
    tokens up to i. Either ``labels`` or ``trained`` is given.

    Attributes:
        tokens: whole numbers [t], 0 or above.
        lengths: tokens of each sample [s]; 0 is a sample without tokens.
        rows: the row that each sample came from [s]; samples of one row stand together, rows ascend.
        first_row, num_rows: the rows that the shard accounts for.
        trained: bool [t]; True where the label is the sample's next token, False where it is -100. A sample's last
            position is False unless ``last_labels`` has a label for it.
        last_labels: int [s], the label at each sample's last position; -100 everywhere if None.
        labels: int [t], in place of the two.
        left_out: int [k, 2], row and reason code of the rows of the range that have no sample.
        loss_weights: float [t], label space.
        desirable: bool [s], of labelled answers: whether each is a desirable one.
        vocab_size: of the tokenizer; up to 65,536 the tokens take two bytes each. Four where it isn't known.
        counts: numbers to keep beside the shard, such as rows that were cut.
        extra: arrays to keep beside the shard, by name.

    Raises:
        StoreError: the arrays don't belong together.
    """

    tokens: np.ndarray
    lengths: np.ndarray
    rows: np.ndarray
    first_row: int
    num_rows: int
    trained: np.ndarray | None = None
    last_labels: np.ndarray | None = None
    labels: np.ndarray | None = None
    left_out: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    loss_weights: np.ndarray | None = None
    desirable: np.ndarray | None = None
    vocab_size: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        num_tokens, num_samples = len(self.tokens), len(self.lengths)
        expected = {
            "tokens": num_tokens,
            "lengths": num_samples,
            "rows": num_samples,
            "trained": num_tokens,
            "labels": num_tokens,
            "last_labels": num_samples,
            "loss_weights": num_tokens,
            "desirable": num_samples,
        }
        for name, length in expected.items():
            array = getattr(self, name)
            if array is not None and array.shape != (length,):
                raise StoreError(f"A shard's {name} has shape {array.shape}; it must be ({length},).")
        if self.left_out.ndim != 2 or self.left_out.shape[1] != 2:
            raise StoreError(f"A shard's left_out has shape {self.left_out.shape}; it must be (rows, 2).")
        if (self.labels is None) == (self.trained is None):
            raise StoreError("A shard needs either labels or trained, and not both.")
        if self.labels is not None and self.last_labels is not None:
            raise StoreError("A shard has labels and last_labels; labels hold the last ones already.")
        if int(self.lengths.sum(dtype=np.int64)) != num_tokens or self.lengths.min(initial=0) < 0:
            raise StoreError(f"A shard has {num_tokens} tokens and lengths for {self.lengths.sum(dtype=np.int64)}.")
        self._check_ids()
        self._check_rows()

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by the names of their files (see :func:`~torchpipe.store.shard.write_shard`)."""
        trained, last_labels, labels = self._labels()
        bits = np.packbits(trained, bitorder="little")
        arrays = {
            "tokens": self.tokens.astype(self.token_dtype, copy=False),
            "trained": bits,
            "lengths": self.lengths.astype(np.uint32, copy=False),
            "trained_counts": self._counts(bits),
            "rows": self.rows.astype(np.int64, copy=False),
            "left_out": self.left_out.astype(np.int64, copy=False),
        }
        if labels is not None:
            arrays["labels"] = labels.astype(np.int32, copy=False)
        elif last_labels is not None:
            arrays["last_labels"] = last_labels.astype(np.int32, copy=False)
        if self.loss_weights is not None:
            arrays["loss_weights"] = self.loss_weights.astype(np.float32, copy=False)
            arrays["weight_sums"] = self._sums(np.where(trained, arrays["loss_weights"], 0))
        if self.desirable is not None:
            arrays["desirable"] = self.desirable.astype(np.uint8)
        clash = sorted(arrays.keys() & self.extra.keys())
        if clash:
            raise StoreError(f"extra may not hold {clash[0]!r}: the shard has a file of that name.")
        return arrays | dict(self.extra)

    def all_labels(self) -> np.ndarray:
        """The label of each token, int32 [t]; -100 where none is trained."""
        trained, last_labels, labels = self._labels()
        if labels is None:
            labels = np.full(len(self.tokens), IGNORE_INDEX, np.int32)
            np.copyto(labels[:-1], self.tokens[1:].astype(np.int32), where=trained[:-1])
            if last_labels is not None:
                labels[self.last_positions] = last_labels[self.lengths > 0]
        return labels.astype(np.int32, copy=False)

    @property
    def token_dtype(self) -> np.dtype:
        """uint16 if every id of the vocabulary fits in it, otherwise uint32."""
        return np.dtype(np.uint16 if self.vocab_size is not None and self.vocab_size <= 2**16 else np.uint32)

    @property
    def last_positions(self) -> np.ndarray:
        """Where the last token of each sample that has one is in ``tokens``."""
        return np.cumsum(self.lengths, dtype=np.int64)[self.lengths > 0] - 1

    def _labels(self) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """``trained``, and what else the labels need: ``last_labels``, or all of them where they aren't next tokens."""
        last = self.last_positions
        if self.labels is None:
            assert self.trained is not None
            ends = self._ends_of_last_labels()
            trained = self.trained.astype(bool)
            if trained[last].any() and (
                ends is None or (trained[last] & (ends[self.lengths > 0] == IGNORE_INDEX)).any()
            ):
                raise StoreError("A sample's last position is trained, and last_labels has no label for it.")
            if ends is not None:
                trained[last] = ends[self.lengths > 0] != IGNORE_INDEX
            return trained, ends, None
        trained = self.labels != IGNORE_INDEX
        following = np.empty_like(self.tokens)
        following[:-1] = self.tokens[1:]
        inner = trained.copy()
        inner[last] = False
        if (self.labels[inner] != following[inner]).any():
            return trained, None, self.labels
        if not trained[last].any():
            return trained, None, None
        ends = np.full(len(self.lengths), IGNORE_INDEX, np.int32)
        ends[self.lengths > 0] = self.labels[last]
        return trained, ends, None

    def _ends_of_last_labels(self) -> np.ndarray | None:
        if self.last_labels is None:
            return None
        ends = np.where(self.lengths > 0, self.last_labels, IGNORE_INDEX)
        return ends if (ends != IGNORE_INDEX).any() else None

    def _sums(self, values: np.ndarray) -> np.ndarray:
        """The sum of the values of each sample's tokens: float64 [s], added in order."""
        num_samples = len(self.lengths)
        return np.bincount(np.repeat(np.arange(num_samples), self.lengths), weights=values, minlength=num_samples)

    def _counts(self, bits: np.ndarray) -> np.ndarray:
        """How many of each sample's bits are set: uint32 [s]."""
        ranks = BitRanks(bits)
        ends = np.cumsum(self.lengths, dtype=np.int64)
        return (ranks.below(ends) - ranks.below(ends - self.lengths)).astype(np.uint32)

    def _check_ids(self) -> None:
        above = MAX_TOKEN_ID if self.vocab_size is None else min(self.vocab_size - 1, MAX_TOKEN_ID)
        for name in ("tokens", "labels", "last_labels"):
            ids = getattr(self, name)
            if ids is None:
                continue
            if ids.dtype.kind not in "iu":
                raise StoreError(f"A shard's {name} are {ids.dtype}; ids are whole numbers.")
            smallest, largest = int(ids.min(initial=0)), int(ids.max(initial=0))
            if name != "tokens" and smallest == IGNORE_INDEX:
                smallest = int(ids[ids != IGNORE_INDEX].min(initial=0))
            if smallest < 0 or (largest > above):
                wrong = smallest if smallest < 0 else largest
                raise StoreError(
                    f"A shard's {name} hold the id {wrong}; ids are 0 to {above:,}. "
                    "Give the vocab_size that the tokenizer has."
                )

    def _check_rows(self) -> None:
        rows, stop = self.rows, self.first_row + self.num_rows
        if len(rows) and (rows[0] < self.first_row or rows[-1] >= stop or (np.diff(rows.astype(np.int64)) < 0).any()):
            raise StoreError(
                f"A shard of the rows {self.first_row} to {stop - 1} has samples of others, or not in order."
            )
        left_out = self.left_out[:, 0]
        if len(left_out) and (left_out.min() < self.first_row or left_out.max() >= stop):
            raise StoreError(f"A shard of the rows {self.first_row} to {stop - 1} leaves out others.")
        both = np.intersect1d(left_out, rows)
        if len(both):
            raise StoreError(f"Row {both[0]} has samples and is left out.")
