"""The samples of a shard in flat buffers: no array for each sample, and labels for all of them at once."""

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torchpipe._suggest import listed
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger import REASONS, REMARKS, Remark
from torchpipe.data.row_policy import Refused
from torchpipe.data.sequences import next_token_labels, trained_positions
from torchpipe.errors import ColumnError, DataError, TorchpipeError, located
from torchpipe.store.rows import Made
from torchpipe.store.shard import ShardData

REMARKS_FILE = "remarks"
"""The array of a shard with row and code of each :data:`~torchpipe.data.ledger.Remark`: int64 [k, 2]."""

READ_FILE = "read"
"""The array of a shard with the rows that were read to make it, as ranges: int64 [k, 2], the stop exclusive."""

REFUSED_FILE = "refused"
"""The array of a shard with the rows that were left out for an error, as lines of JSON: uint8; only if any were."""

NUM_REFUSED = "refused_rows"
"""How many rows of a shard were left out for an error, among its counts; only if there are any."""

_TWO_BYTES = 2**16
_IDS, _FLAGS = np.dtype(np.uint32), np.dtype(np.bool_)


class FlatSamples:
    """Samples in the order in which rows are added.

    Args:
        name: what errors call the source of the rows.
        vocab_size: of the tokenizer; up to 65,536 the tokens take two bytes each.
        samples_a_row: samples that a row has by its kind; only one with more was split.

    Attributes:
        num_refused: rows that were left out for an error.
    """

    def __init__(self, *, name: str, vocab_size: int | None, samples_a_row: int = 1) -> None:
        self._name = name
        self._samples_a_row = samples_a_row
        self._fits_two_bytes = vocab_size is not None and vocab_size <= _TWO_BYTES
        self._tokens = array("I")
        self._mask = bytearray()  # 0: trained
        self._lengths = array("q")
        self._rows = array("q")
        self._read = array("q")
        self._left_out = array("q")  # pairs of row and code
        self._refused = bytearray()  # lines of JSON
        self.num_refused = 0
        self._remarks = array("q")  # pairs of row and code
        self._labels = array("i")  # of the samples that have their own
        self._has_labels = bytearray()
        self._weights = array("f")  # of the samples that have some
        self._has_weights = bytearray()
        self._desirable = bytearray()  # of samples that are labelled answers
        self._totals = {"truncated_tokens": 0, "unproved_turns": 0, "dropped_images": 0}

    def add_row(self, row: int, made: Made) -> None:
        """Adds what became of a row.

        Raises:
            DataError: a sample is not what it has to be; the sentence names the row.
        """
        self._read.append(row)
        if isinstance(made, Refused):
            self._left_out.extend((row, REASONS.index(made.reason)))
            self._refused += made.line(row, self._name)
            self.num_refused += 1
            return
        if isinstance(made, str):
            self._left_out.extend((row, REASONS.index(made)))
            return
        try:
            for sample in made:
                self._add(sample)
                if (desirable := sample.get("desirable")) is not None:
                    self._desirable.append(bool(desirable))
                self._rows.append(row)
        except (TorchpipeError, TypeError, ValueError, OverflowError) as error:
            raise located(error, f"Row {row} of {self._name}")  # noqa: B904  # the same error
        self._remark(row, made)

    @property
    def refused(self) -> bytes:
        """The rows that were left out for an error, as lines of JSON."""
        return bytes(self._refused)

    def _remark(self, row: int, made: Sequence[Mapping[str, Any]]) -> None:
        if len(made) == 1 and _is_plain(made[0]):
            return
        said: set[Remark] = set()
        if len(made) > self._samples_a_row:
            said.add("split")
        for sample in made:
            counts = [int(sample.get(f"num_{what}", 0)) for what in ("truncated", "unproved_turns", "images_dropped")]
            if any(counts):
                names: tuple[Remark, ...] = ("truncated", "partly_unproved", "images_dropped")
                said |= {name for name, count in zip(names, counts, strict=True) if count}
                for name, count in zip(self._totals, counts, strict=True):
                    self._totals[name] += count
            if sample.get("lost_stop"):
                said.add("unstopped")
        for code in sorted(
            REMARKS.index(remark) for remark in said
        ):  # a set of texts has another order in each process
            self._remarks.extend((row, code))

    def _add(self, sample: Mapping[str, Any]) -> None:
        if _is_plain(sample) and self._added_arrays(sample.get("tokens"), sample.get("mask")):
            return
        if "tokens" not in sample or not ("mask" in sample or "labels" in sample):
            raise ColumnError(f"A sample has {listed(sorted(sample))}. It needs `tokens`, and `mask` or `labels`.")
        if "encoder_input" in sample:
            raise DataError("A sample holds images, and a token store keeps tokens alone. Use it without packing.")
        num_tokens = len(sample["tokens"])
        self._add_tokens(sample["tokens"])
        labels = sample.get("labels")
        if labels is None:
            self._add_mask(sample["tokens"], sample["mask"])
        else:
            self._mask += bytes(num_tokens)
            self._add_own(self._labels, "labels", labels, num_tokens)
        self._has_labels.append(labels is not None)
        weights = sample.get("loss_weights")
        if weights is not None:
            self._add_own(self._weights, "loss_weights", weights, num_tokens)
        self._has_weights.append(weights is not None)
        self._lengths.append(num_tokens)

    def _added_arrays(self, tokens: Any, mask: Any) -> bool:
        """Whether the two were arrays as tokenizers make them for many rows, and have been added."""
        if not (type(tokens) is type(mask) is np.ndarray and tokens.dtype == _IDS and mask.dtype == _FLAGS):
            return False
        if tokens.shape != mask.shape or tokens.ndim != 1:
            return False
        self._tokens.frombytes(tokens.tobytes())
        self._mask += mask.tobytes()
        self._has_labels.append(False)
        self._has_weights.append(False)
        self._lengths.append(len(tokens))
        return True

    def _add_tokens(self, given: Sequence[int] | np.ndarray) -> None:
        tokens = _as_list(given)
        try:
            self._tokens.fromlist(tokens)
        except (TypeError, OverflowError):
            next_token_labels(tokens, [False] * len(tokens))  # says what is wrong
            self._tokens.fromlist([int(token) for token in tokens])

    def _add_mask(self, tokens: Any, mask: Any) -> None:
        if len(tokens) != len(mask):
            next_token_labels(tokens, mask)
        try:
            flags = bytes(mask) if type(mask) is list else bytes(_as_list(mask))
        except (TypeError, ValueError):
            next_token_labels(tokens, mask)  # says what is wrong
            flags = bytes(map(bool, mask))
        self._mask += flags

    @staticmethod
    def _add_own(buffer: "array[Any]", key: str, values: Any, num_tokens: int) -> None:
        if len(values) != num_tokens:
            raise DataError(f"A sample has {num_tokens} tokens and {len(values)} {key}; they have to be as many.")
        try:
            buffer.fromlist(_as_list(values))
        except (TypeError, OverflowError) as error:
            raise DataError(f"The {key} of a sample are not 32-bit numbers ({error}).") from None

    def finished(self, *, first_row: int, num_rows: int) -> ShardData:
        """Everything that was added, as arrays.

        Args:
            first_row, num_rows: the rows that the shard accounts for.

        Raises:
            DataError: a token is no id, or a mask holds other than True and False; the sentence names the row.
        """
        tokens = np.frombuffer(self._tokens, dtype=np.uint32) if self._tokens else np.empty(0, dtype=np.uint32)
        mask = np.frombuffer(self._mask, dtype=np.uint8)
        lengths = np.array(self._lengths, dtype=np.int64)
        ends = np.cumsum(lengths)
        limit = _TWO_BYTES if self._fits_two_bytes else 2**31
        self._refuse(tokens >= limit, ends, f"it has a token id from {limit:,} on; the tokenizer's vocab_size is less")
        self._refuse(mask > 1, ends, "its mask holds other than True (not trained) and False")
        trained, labels = trained_positions(mask, ends), None
        if any(self._has_labels):
            labels = np.full(len(tokens), IGNORE_INDEX, dtype=np.int32)
            np.copyto(labels[:-1], tokens[1:].astype(np.int32), where=trained[:-1])
            labels[_places(self._has_labels, lengths)] = self._labels
            trained = labels != IGNORE_INDEX
            self._refuse(trained & (labels < 0), ends, f"it has a label below 0 that is not {IGNORE_INDEX} (untrained)")
        weights = None
        if any(self._has_weights):
            weights = trained.astype(np.float32)
            weights[_places(self._has_weights, lengths)] = self._weights
            self._refuse(~((weights >= 0) & np.isfinite(weights)), ends, "it has a loss weight that is not 0 or above")
        return ShardData(
            tokens=tokens,
            labels=labels,
            trained=trained if labels is None else None,
            lengths=lengths,
            rows=np.array(self._rows, dtype=np.int64),
            first_row=first_row,
            num_rows=num_rows,
            left_out=_pairs(self._left_out),
            loss_weights=weights,
            desirable=np.frombuffer(self._desirable, dtype=np.bool_) if self._desirable else None,
            # Of two-byte tokens it is all that is asked; a tokenizer may have ids beyond the vocab_size that it states.
            vocab_size=_TWO_BYTES if self._fits_two_bytes else None,
            counts={**self._totals, **({NUM_REFUSED: self.num_refused} if self.num_refused else {})},
            extra={
                REMARKS_FILE: _pairs(self._remarks),
                READ_FILE: _as_ranges(np.array(self._read, dtype=np.int64)),
                **({REFUSED_FILE: np.frombuffer(self._refused, dtype=np.uint8)} if self.num_refused else {}),
            },
        )

    def _refuse(self, wrong: np.ndarray, ends: np.ndarray, what: str) -> None:
        if wrong.any():
            sample = int(np.searchsorted(ends, np.flatnonzero(wrong)[0], side="right"))
            raise DataError(f"Row {self._rows[sample]} of {self._name}: {what}.")


def _is_plain(sample: Mapping[str, Any]) -> bool:
    """Whether there is nothing to say of it beside tokens, mask, and the label of an answer."""
    return len(sample) == (3 if "desirable" in sample else 2)


def _as_list(values: Any) -> list[Any]:
    return values if type(values) is list else values.tolist() if hasattr(values, "tolist") else list(values)


def _places(has: bytearray, lengths: np.ndarray) -> np.ndarray:
    return np.repeat(np.frombuffer(has, dtype=np.bool_), lengths)


def _pairs(flat: "array[int]") -> np.ndarray:
    return np.array(flat, dtype=np.int64).reshape(-1, 2)


def _as_ranges(ids: np.ndarray) -> np.ndarray:
    """Runs of ascending numbers: int64 [k, 2], the stop exclusive.

    >>> _as_ranges(np.array([3, 4, 5, 9])).tolist()
    [[3, 6], [9, 10]]
    """
    if not len(ids):
        return np.empty((0, 2), dtype=np.int64)
    breaks = np.flatnonzero(np.diff(ids) != 1)
    return np.stack([ids[np.concatenate([[0], breaks + 1])], ids[np.concatenate([breaks, [len(ids) - 1]])] + 1], axis=1)
