"""What became of the rows: counts that are printed before anything is trained."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.overflow import Fitted

# What is said of each count that is not 0, in order.
_TOLD = {
    "filtered_rows": "{0.filtered_rows:,} more rows left out by filter_fn",
    "truncated_rows": "{0.truncated_rows:,} rows cut to max_seq_len ({0.truncated_tokens:,} tokens left out)",
    "unstopped_rows": "{0.unstopped_rows:,} of them without the stop token of the turn that was cut",
    "split_rows": "{0.split_rows:,} rows split into several",
    "too_long_rows": "{0.too_long_rows:,} more rows left out, longer than max_seq_len",
    "emptied_rows": "{0.emptied_rows:,} more rows left out, without a trained token once cut",
    "unproved_rows": "{0.unproved_rows:,} more rows left out, since it isn't proved what the model samples",
    "unproved_turns": "{0.unproved_turns:,} turns trained from where prompt and row part, unproved",
    "dropped_images": "{0.dropped_images:,} images left out of them",
    "untrained_rows": "{0.untrained_rows:,} rows without a trained token",
    "dropped_rows": "{0.dropped_rows:,} rows beyond max_packs left out",
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
        emptied_rows: rows left out because what the cut kept of them had no trained token.
        unproved_rows: rows left out because it isn't proved what the model would sample in them.
        unproved_turns: trained turns of which it isn't proved either, and which start where prompt and row part.
        filtered_rows: rows that a filter left out before they became samples.
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

    def add_row(self, fitted: Fitted) -> None:
        """Counts what became of one row as a whole. Its samples are counted one by one, with :meth:`add`."""
        self.split_rows += len(fitted.samples) > 1
        self.too_long_rows += fitted.left_out == "too_long"
        self.emptied_rows += fitted.left_out == "nothing_trained"
        self.unproved_rows += fitted.left_out == "unproved"

    def describe(self) -> str:
        """One line: rows, tokens, the share trained, and every row that was not used whole, with its reason."""
        share = self.trained_tokens / self.tokens if self.tokens else 0.0
        parts = [
            f"{self.rows:,} rows, {self.tokens:,} tokens, {self.trained_tokens:,} trained ({share:.0%})",
            f"longest {self.longest:,}",
        ]
        parts += [words.format(self) for name, words in _TOLD.items() if getattr(self, name)]
        return "; ".join(parts)


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
