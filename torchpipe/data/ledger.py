"""What became of the rows: which of them were read, stored and left out, and counts printed before training."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

import numpy as np

from torchpipe._counted import counted
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger_words import Noun, described_counts
from torchpipe.data.overflow import Fitted
from torchpipe.errors import DataError

Reason = Literal[
    "filtered",
    "too_long",
    "nothing_trained",
    "unproved",
    "malformed_json",
    "empty",
    "bad_columns",
    "bad_message",
    "bad_role_order",
    "media_mismatch",
    "bad_media",
    "unwritable",
    "chosen_equals_rejected",
    "prompts_differ",
    "error",
    "duplicate",
    "other_part",
    "dropped",
]
"""Why a row is in no sample: a filter left it out; see :data:`~torchpipe.data.overflow.LeftOut` for the next three;
the reasons of errors (:attr:`torchpipe.errors.DataError.reason`), where a row policy leaves such rows out; an earlier
row has the same content; the row belongs to the other part of a split; its processor gave none."""

Remark = Literal["truncated", "unstopped", "split", "partly_unproved", "images_dropped"]
"""What is said of a row that was used, though not as it stands: it was cut; it was cut and lost a stop token; it became
several samples; turns of it are not proved; images of it were left out."""

REASONS: tuple[Reason, ...] = get_args(Reason)
"""A reason's code on disk is its place here. New ones go to the end."""

REMARKS: tuple[Remark, ...] = get_args(Remark)
"""A remark's code on disk is its place here. New ones go to the end."""

_LEFT_OUT_BY: dict[Reason, str] = {
    "filtered": "by filter_fn",
    "too_long": "longer than max_seq_len",
    "nothing_trained": "without a trained token",
    "unproved": "since it isn't proved what the model samples",
    "malformed_json": "that are not valid JSON",
    "empty": "without text",
    "bad_columns": "with missing or wrong columns",
    "bad_message": "with turns that are no messages",
    "bad_role_order": "with turns out of order",
    "media_mismatch": "whose pictures and places for them differ",
    "bad_media": "with pictures that can't be read",
    "unwritable": "that the chat format can't write",
    "chosen_equals_rejected": "whose two answers are equal",
    "prompts_differ": "whose two prompts differ",
    "error": "for another error",
    "duplicate": "as duplicates",
    "other_part": "that belong to the other part of the split",
    "dropped": "by their processor",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Ledger:
    """Which rows were read, and what became of each: row ids, counted independently of each other.

    Attributes:
        read: int64, rows that were read from the source.
        stored: int64, rows of which there is a sample, each once.
        left_out: int64, rows of which there is none, by :data:`Reason`.
        remarks: int64, rows used otherwise than whole, by :data:`Remark`.

    >>> ledger = Ledger(read=np.arange(4), stored=np.array([0, 2]), left_out={"filtered": np.array([1, 3])}, remarks={})
    >>> ledger.check(num_rows=4)
    >>> ledger.describe()
    '4 rows read, 2 stored; 2 left out by filter_fn'
    """

    read: np.ndarray
    stored: np.ndarray
    left_out: Mapping[Reason, np.ndarray]
    remarks: Mapping[Remark, np.ndarray]

    @classmethod
    def of_columns(cls, *, read: np.ndarray, rows: np.ndarray, left_out: np.ndarray, remarks: np.ndarray) -> "Ledger":
        """The ledger that a shard's arrays stand for.

        Args:
            read: int64, rows that were read.
            rows: int64, the row of each sample; samples of one row are adjacent.
            left_out: int64 [k, 2], row and place of its reason in :data:`REASONS`.
            remarks: int64 [k, 2], row and place in :data:`REMARKS`.
        """
        first = np.ones(len(rows), dtype=np.bool_)
        first[1:] = rows[1:] != rows[:-1]
        return cls(
            read=read,
            stored=rows[first].astype(np.int64, copy=False),
            left_out={REASONS[code]: ids for code, ids in _by_code(left_out)},
            remarks={REMARKS[code]: ids for code, ids in _by_code(remarks)},
        )

    @classmethod
    def joined(cls, ledgers: Iterable["Ledger"]) -> "Ledger":
        """The ledger of several parts of one source."""
        parts = list(ledgers)
        return cls(
            read=_joined_ids(part.read for part in parts),
            stored=_joined_ids(part.stored for part in parts),
            left_out={
                reason: _joined_ids(part.left_out[reason] for part in parts if reason in part.left_out)
                for reason in REASONS
                if any(reason in part.left_out for part in parts)
            },
            remarks={
                remark: _joined_ids(part.remarks[remark] for part in parts if remark in part.remarks)
                for remark in REMARKS
                if any(remark in part.remarks for part in parts)
            },
        )

    def check(self, num_rows: int | None = None) -> None:
        """Checks that each row that was read is stored or left out for one reason, and no other row is.

        Args:
            num_rows: of the source; all of them must have been read.

        Raises:
            DataError: a row is missing, or stands in two places; the sentence names it.
        """
        read = np.sort(self.read)
        _refuse_twice(read, "was read twice")
        if num_rows is not None and not np.array_equal(read, np.arange(num_rows)):
            wrong = np.setxor1d(read, np.arange(num_rows))[0]
            raise DataError(
                f"The ledger of {num_rows:,} rows has {len(read):,} as read; the first to differ is {wrong}."
            )
        used = np.sort(_joined_ids([self.stored, *self.left_out.values()]))
        _refuse_twice(used, "has two fates in the ledger, and a row has one: stored, or left out for one reason")
        if not np.array_equal(read, used):
            wrong = int(np.setxor1d(read, used)[0])
            fate = "was read, and is neither stored nor left out" if wrong in read else "has a fate, and was not read"
            raise DataError(f"Row {wrong} {fate}: the ledger does not cover what was read.")
        for remark, ids in self.remarks.items():
            if len(unknown := np.setdiff1d(ids, self.stored)):
                raise DataError(f"Row {unknown[0]} is said to be {remark}, and it is not stored.")

    def as_counts(self) -> dict[str, int]:
        """How many rows are in each of its sets, by name; those left out and remarked only where there are any."""
        named = {"read": self.read, "stored": self.stored, **self.left_out, **self.remarks}
        return {name: len(ids) for name, ids in named.items()}

    def describe(self) -> str:
        """One line: rows read and stored, and how many each reason left out."""
        return described_sizes(self.as_counts())


def described_sizes(sizes: Mapping[str, int]) -> str:
    """:meth:`Ledger.describe`, from the sizes of its sets (:meth:`Ledger.as_counts`).

    >>> described_sizes({"read": 4, "stored": 2, "filtered": 2})
    '4 rows read, 2 stored; 2 left out by filter_fn'
    """
    parts = [f"{counted(sizes['read'], 'row')} read, {sizes['stored']:,} stored"]
    parts += [f"{sizes[reason]:,} left out {_LEFT_OUT_BY[reason]}" for reason in REASONS if sizes.get(reason)]
    return "; ".join(parts)


def _by_code(pairs: np.ndarray) -> list[tuple[int, np.ndarray]]:
    pairs = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    return [(code, pairs[pairs[:, 1] == code, 0]) for code in np.unique(pairs[:, 1]).tolist()]


def _joined_ids(parts: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def _refuse_twice(ids: np.ndarray, what: str) -> None:
    if len(twice := ids[1:][ids[1:] == ids[:-1]]):
        raise DataError(f"Row {twice[0]} {what}.")


# Which set of a ledger each count of rows is the size of.
_FIELD_OF_SET: dict[str, Reason | Remark] = {
    "filtered_rows": "filtered",
    "too_long_rows": "too_long",
    "emptied_rows": "nothing_trained",
    "unproved_rows": "unproved",
    "duplicate_rows": "duplicate",
    "other_part_rows": "other_part",
    "truncated_rows": "truncated",
    "unstopped_rows": "unstopped",
    "split_rows": "split",
}


@dataclass(kw_only=True)
class SampleCounts:
    """Running counts over samples (see :class:`~torchpipe.data.sample_transforms.SFTTransform` for their keys).

    Attributes:
        rows: samples seen.
        tokens: tokens in them.
        trained_tokens: labels that are not -100.
        untrained_rows: samples without any trained token.
        truncated_rows: samples that were cut to max_seq_len; truncated_tokens: tokens cut from them.
        unstopped_rows: those of them whose last trained turn lost its stop token.
        split_rows: rows that became several samples.
        too_long_rows: rows left out because they were longer than max_seq_len.
        emptied_rows: rows left out because they, or what the cut kept of them, had no trained token.
        unproved_rows: rows left out because it isn't proved what the model would sample in them.
        unproved_turns: trained turns of which it isn't proved either, and which start where prompt and row part.
        filtered_rows: rows that a filter left out before they became samples.
        bad_rows: rows left out for other reasons: errors that a row policy does not raise.
        duplicate_rows: rows left out because an earlier one has the same content.
        other_part_rows: rows that belong to the other part of a split.
        dropped_images: images that were left out where a sample was cut.
        dropped_rows: samples read and then left out (max_packs).
        longest: tokens in the longest sample.
        largest_token_id: which the model's vocabulary has to hold.
        digest: a hash of all tokens, labels and loss weights in order, hexadecimal: equal where the same samples
            were counted.
    """

    rows: int = 0
    tokens: int = 0
    trained_tokens: int = 0
    untrained_rows: int = 0
    truncated_rows: int = 0
    truncated_tokens: int = 0
    unstopped_rows: int = 0
    split_rows: int = 0
    too_long_rows: int = 0
    emptied_rows: int = 0
    unproved_rows: int = 0
    unproved_turns: int = 0
    filtered_rows: int = 0
    bad_rows: int = 0
    duplicate_rows: int = 0
    other_part_rows: int = 0
    dropped_images: int = 0
    dropped_rows: int = 0
    longest: int = 0
    largest_token_id: int = -1
    digest: str = ""

    def add(self, sample: Mapping[str, Any]) -> None:
        """Counts one sample."""
        labels = sample["labels"]
        values = np.array([len(labels), *sample["tokens"], *labels], dtype=np.int64).tobytes()
        if (weights := sample.get("loss_weights")) is not None:
            values += np.array(weights, dtype=np.float32).tobytes()
        self.digest = hashlib.blake2b(self.digest.encode() + values, digest_size=16).hexdigest()
        trained = len(labels) - list(labels).count(IGNORE_INDEX)
        cut = sample.get("num_truncated", 0)
        self.rows += 1
        self.tokens += len(labels)
        self.trained_tokens += trained
        self.untrained_rows += trained == 0
        self.truncated_rows += cut > 0
        self.truncated_tokens += cut
        self.unstopped_rows += bool(sample.get("lost_stop"))
        self.unproved_turns += sample.get("num_unproved_turns", 0)
        self.dropped_images += sample.get("num_images_dropped", 0)
        self.longest = max(self.longest, len(labels))
        self.largest_token_id = max(self.largest_token_id, int(max(sample["tokens"], default=-1)))

    @classmethod
    def of_sets(cls, sizes: Mapping[str, int], **totals: Any) -> "SampleCounts":
        """The counts of rows that a ledger stands for.

        Args:
            sizes: of the ledger's sets (:meth:`Ledger.as_counts`).
            totals: what can't be told from ids of rows: ``rows`` (samples), ``tokens``, ``trained_tokens``, ...
        """
        counted = {field: sizes[name] for field, name in _FIELD_OF_SET.items() if name in sizes}
        bad = sum(sizes.get(reason, 0) for reason in REASONS if reason not in _FIELD_OF_SET.values())
        return cls(**{**counted, "bad_rows": bad, **totals})

    @property
    def left_out_rows(self) -> int:
        """Rows of which there is no sample, for any reason."""
        by_reason = (field for field, name in _FIELD_OF_SET.items() if name in REASONS)
        return self.bad_rows + sum(getattr(self, field) for field in by_reason)

    def add_row(self, fitted: Fitted) -> None:
        """Counts what became of one row as a whole. Its samples are counted one by one, with :meth:`add`."""
        self.split_rows += len(fitted.samples) > 1
        self.too_long_rows += fitted.left_out == "too_long"
        self.emptied_rows += fitted.left_out == "nothing_trained"
        self.unproved_rows += fitted.left_out == "unproved"

    def describe(self, item: Noun = "row") -> str:
        """One line: rows, tokens, the share trained, and every row that was not used whole, with its reason.

        Of pairs the samples are the two sides of each; of prompts nothing is trained.

        >>> SampleCounts(rows=4, tokens=30, trained_tokens=12, longest=9).describe("pair")
        '2 pairs, 30 tokens of both sides, 12 trained (40%); longest side 9'
        """
        return described_counts(self, item)


def sum_of_counts(counts: Sequence[SampleCounts]) -> SampleCounts:
    """What became of the samples of several data sets together; there is at least one. Its digest is a hash of
    theirs.

    >>> total = sum_of_counts([SampleCounts(rows=2, longest=7), SampleCounts(rows=1, longest=9)])
    >>> total.rows, total.longest
    (3, 9)
    """
    total = SampleCounts()
    for field in fields(SampleCounts):
        combined = {"longest": max, "largest_token_id": max, "digest": _joined}.get(field.name, sum)
        setattr(total, field.name, combined([getattr(count, field.name) for count in counts]))
    return total


def _joined(digests: Sequence[str]) -> str:
    return hashlib.blake2b("".join(digests).encode(), digest_size=16).hexdigest()
