"""Counts of samples in words."""

from typing import TYPE_CHECKING, Literal

from torchpipe._counted import counted

if TYPE_CHECKING:
    from torchpipe.data.ledger import SampleCounts

Noun = Literal["row", "pair", "prompt"]
"""What a sample is called, or two that are a pair; its plural has an s."""

# What is said of each count that is not 0, in order: what is counted, and what became of it.
_TOLD = {
    "filtered_rows": ("more row", "left out by filter_fn"),
    "truncated_rows": ("row", "cut to max_seq_len"),
    "unstopped_rows": ("", "of them without the stop token of the turn that was cut"),
    "split_rows": ("row", "split into several"),
    "too_long_rows": ("more row", "left out, longer than max_seq_len"),
    "emptied_rows": ("more row", "left out, without a trained token"),
    "unproved_rows": ("more row", "left out, since it isn't proved what the model samples"),
    "unproved_turns": ("turn", "trained from where prompt and row part, unproved"),
    "dropped_images": ("image", "left out of them"),
    "bad_rows": ("more row", "left out, which can't be used"),
    "duplicate_rows": ("more row", "left out as duplicates"),
    "other_part_rows": ("more row", "in the other part of the split"),
    "untrained_rows": ("row", "without a trained token"),
    "dropped_rows": ("row", "beyond max_packs left out"),
}


def described_counts(counts: "SampleCounts", item: Noun) -> str:
    """One line; see :meth:`~torchpipe.data.ledger.SampleCounts.describe`."""
    share = counts.trained_tokens / counts.tokens if counts.tokens else 0.0
    number = counts.rows // 2 if item == "pair" else counts.rows
    sides = (" of both sides", "longest side") if item == "pair" else ("", "longest")
    trained = "" if item == "prompt" else f", {counts.trained_tokens:,} trained ({share:.0%})"
    parts = [
        f"{counted(number, item)}, {counted(counts.tokens, 'token')}{sides[0]}{trained}",
        f"{sides[1]} {counts.longest:,}",
    ]
    for name, (noun, words) in _TOLD.items():
        count = getattr(counts, name)
        if not count or (item != "row" and name == "untrained_rows"):
            continue
        told = f"{counted(count, noun) if noun else f'{count:,}'} {words}"
        if name == "truncated_rows":
            told += f" ({counted(counts.truncated_tokens, 'token')} left out)"
        parts.append(told)
    if item == "pair" and counts.untrained_rows:
        parts.append(f"{counted(counts.untrained_rows, 'side')} without a trained token")
    return "; ".join(parts)
