"""What another max_seq_len would do to rows, from their lengths."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from torchpipe.audit.plan_parts import Part, WholeSamples
from torchpipe.data.overflow import TruncationType
from torchpipe.data.packing.documents import documents_of
from torchpipe.datasets import PackedDataset


@dataclass(frozen=True, kw_only=True, eq=False)
class Cuts:
    """The samples that rows give at a length, and what that costs.

    Attributes:
        lengths: tokens of each sample.
        num_cut: rows that lose tokens; num_tokens_cut: the tokens.
        num_split: rows that become several samples.
        num_left_out: rows of which there is no sample for their length, or since nothing trained is kept of them.
        num_refused: rows with which a run would stop.
        is_exact: whether a run's samples have just these lengths.
        group: of pairs, the pair that each sample is of, whose two share a pack; None elsewhere.
    """

    lengths: np.ndarray
    num_cut: int = 0
    num_tokens_cut: int = 0
    num_split: int = 0
    num_left_out: int = 0
    num_refused: int = 0
    is_exact: bool = True
    group: np.ndarray | None = None


def own_max_seq_len(part: Part) -> int | None:
    """The length that a part has in its config; None: no limit."""
    if isinstance(part.dataset, PackedDataset):
        return part.dataset.max_seq_len
    if part.recipe is None:
        return None
    return part.policy.max_seq_len if part.policy else getattr(part.recipe.model_transform, "max_seq_len", None)


def cuts_at(part: Part, max_seq_len: int) -> Cuts:
    """What a part's samples are at a length. At its own they are those that were read.

    Raises:
        ConfigError: they hold images; or rows were cut, and it isn't known how they are tokenised.
    """
    counts, own = part.counts, own_max_seq_len(part)
    if part.noun == "pair":
        return _pairs_at(part, max_seq_len, is_own=max_seq_len == own)
    if max_seq_len == own and not part.holds_images:
        return Cuts(
            lengths=part.lengths,
            num_cut=counts.truncated_rows,
            num_tokens_cut=counts.truncated_tokens,
            num_split=counts.split_rows,
            num_left_out=counts.too_long_rows + counts.emptied_rows,
        )
    whole = part.whole
    lengths, rows = whole.lengths, whole.rows
    is_long = lengths > max_seq_len
    num_long = len(np.unique(rows[is_long]))
    policy = part.policy
    overflow = "error" if part.recipe is None else None if policy is None else policy.overflow
    if not num_long:
        return Cuts(lengths=lengths)
    if overflow == "error":
        return Cuts(lengths=lengths, num_refused=num_long)
    if overflow == "drop":
        num_left_out = len(np.setdiff1d(rows[is_long], rows[~is_long]))
        return Cuts(lengths=lengths[~is_long], num_left_out=num_left_out)
    if overflow == "split":
        parts = documents_of(lengths, max_seq_len, "split", cut=True)
        return Cuts(lengths=parts.lengths, num_split=num_long, is_exact=False)
    cut = documents_of(lengths, max_seq_len, "truncate", cut=True)
    assert part.recipe is not None
    # Without a policy the tokenizer cuts.
    side: Any = policy.truncation_type if policy else getattr(part.recipe.model_transform, "truncation_type", "right")
    emptied = _emptied(whole, side, is_long, max_seq_len)
    if policy is None and part.recipe.row_policy.on_untrained == "keep":
        emptied[:] = False
    return Cuts(
        lengths=cut.lengths[~emptied],
        num_cut=num_long - int(emptied.sum()),
        num_tokens_cut=cut.num_truncated - int((lengths - max_seq_len)[emptied].sum()),
        num_left_out=int(emptied.sum()),
        is_exact=policy is None and not emptied.any(),
    )


def _pairs_at(part: Part, max_seq_len: int, *, is_own: bool) -> Cuts:
    """Pairs in packs of a length: both sides of each share one, and none is cut for it."""
    group = np.arange(len(part.lengths)) // part.samples_an_item
    if is_own:
        counts = part.counts
        left_out = counts.too_long_rows + counts.emptied_rows
        return Cuts(
            lengths=part.lengths,
            num_cut=counts.truncated_rows,
            num_tokens_cut=counts.truncated_tokens,
            num_left_out=left_out,
            group=group,
        )
    sums = part.lengths_of_items.sum(axis=1, dtype=np.int64)
    return Cuts(lengths=part.lengths, num_refused=int((sums > max_seq_len).sum()), group=group)


def _emptied(whole: WholeSamples, side: TruncationType, is_long: np.ndarray, max_seq_len: int) -> np.ndarray:
    """Which samples have nothing trained left when they are cut on a side, bool [samples]. None, where it isn't known
    which of their tokens are trained, or the cut goes by turns.
    """
    emptied = np.zeros(len(whole.lengths), dtype=np.bool_)
    if whole.content is None or side == "turns":
        return emptied
    long = np.flatnonzero(is_long)
    # The last token that is kept on the right predicts one that is gone; the first on the left is not predicted.
    start = whole.lengths[long] - max_seq_len if side == "left" else np.zeros_like(long)
    stop = whole.lengths[long] if side == "left" else np.full_like(long, max_seq_len - 1)
    emptied[long] = whole.content.trained_in(long, start, stop) == 0
    return emptied
