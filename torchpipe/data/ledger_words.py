"""Counts of samples in words."""

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from torchpipe.data.ledger import SampleCounts

Noun = Literal["row", "pair", "prompt"]
"""What a sample is called, or two that are a pair; its plural has an s."""

# What is said of each count that is not 0, in order.
_TOLD = {
    "filtered_rows": "{0.filtered_rows:,} more rows left out by filter_fn",
    "truncated_rows": "{0.truncated_rows:,} rows cut to max_seq_len ({0.truncated_tokens:,} tokens left out)",
    "unstopped_rows": "{0.unstopped_rows:,} of them without the stop token of the turn that was cut",
    "split_rows": "{0.split_rows:,} rows split into several",
    "too_long_rows": "{0.too_long_rows:,} more rows left out, longer than max_seq_len",
    "emptied_rows": "{0.emptied_rows:,} more rows left out, without a trained token",
    "unproved_rows": "{0.unproved_rows:,} more rows left out, since it isn't proved what the model samples",
    "unproved_turns": "{0.unproved_turns:,} turns trained from where prompt and row part, unproved",
    "dropped_images": "{0.dropped_images:,} images left out of them",
    "bad_rows": "{0.bad_rows:,} more rows left out, which can't be used",
    "duplicate_rows": "{0.duplicate_rows:,} more rows left out as duplicates",
    "other_part_rows": "{0.other_part_rows:,} more rows in the other part of the split",
    "untrained_rows": "{0.untrained_rows:,} rows without a trained token",
    "dropped_rows": "{0.dropped_rows:,} rows beyond max_packs left out",
}


def described_counts(counts: "SampleCounts", item: Noun) -> str:
    """One line; see :meth:`~torchpipe.data.ledger.SampleCounts.describe`."""
    share = counts.trained_tokens / counts.tokens if counts.tokens else 0.0
    number = counts.rows // 2 if item == "pair" else counts.rows
    plural = "" if number == 1 and item != "row" else "s"
    sides = (" of both sides", "longest side") if item == "pair" else ("", "longest")
    trained = "" if item == "prompt" else f", {counts.trained_tokens:,} trained ({share:.0%})"
    parts = [
        f"{number:,} {item}{plural}, {counts.tokens:,} tokens{sides[0]}{trained}",
        f"{sides[1]} {counts.longest:,}",
    ]
    for name, words in _TOLD.items():
        if getattr(counts, name) and (item == "row" or name != "untrained_rows"):
            parts.append(words.format(counts))
    if item == "pair" and counts.untrained_rows:
        parts.append(f"{counts.untrained_rows:,} sides without a trained token")
    return "; ".join(parts)
