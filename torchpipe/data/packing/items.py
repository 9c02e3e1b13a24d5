"""Items: what is packed as a whole, a document or a group of them, and where items were put."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from torchpipe.data.packing.caps import Cap
from torchpipe.data.packing.documents import Documents
from torchpipe.data.packing.ramps import ramps
from torchpipe.errors import ConfigError, DataError


@dataclass(frozen=True, kw_only=True)
class Items:
    """What is packed as a whole.

    Attributes:
        lengths: tokens of each item, integers; 0: it is skipped.
        caps: capped quantities, and what each item needs of them.
        members: int64, the documents of all items, one item after another; None where item i is document i.
        member_offsets: int64 [items + 1]; item i is ``members[member_offsets[i]:member_offsets[i + 1]]``.
    """

    lengths: np.ndarray
    caps: tuple[Cap, ...] = ()
    members: np.ndarray | None = None
    member_offsets: np.ndarray | None = None

    def documents(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The documents of some items, in order; and where each item's begin among them, int64 [items + 1]."""
        if self.members is None or self.member_offsets is None:
            return items, np.arange(len(items) + 1)
        counts = np.diff(self.member_offsets)[items]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        return self.members[ramps(self.member_offsets[items], counts)], offsets

    def chosen(self, items: np.ndarray) -> "Items":
        """Some items alone, without their documents: lengths and needs."""
        caps = tuple(replace(cap, needs=cap.needs[items]) for cap in self.caps)
        return Items(lengths=self.lengths[items], caps=caps)


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where items were put.

    Attributes:
        order: int64, the item at each place, pack after pack.
        pack_offsets: int64 [packs + 1], where packs begin among the places.
        start, stop: the tokens of the item at each place; None where items are whole.
    """

    order: np.ndarray
    pack_offsets: np.ndarray
    start: np.ndarray | None = None
    stop: np.ndarray | None = None


def items_of(documents: Documents, caps: tuple[Cap, ...], group: Sequence[int] | np.ndarray | None) -> Items:
    """Documents as items, or those of one group as one item. Items are in the order of their first documents.

    Raises:
        DataError: ``group`` is no whole number a sample.
    """
    if group is None:
        return Items(lengths=documents.lengths, caps=caps)
    groups = np.asarray(group)
    if groups.dtype.kind not in "iu" or groups.shape != documents.lengths.shape:
        raise DataError(
            f"group is {groups.dtype} {list(groups.shape)}. Give one whole number for each of the "
            f"{len(documents.lengths)} samples, equal for those that stay together."
        )
    held = np.flatnonzero(documents.lengths)
    _, firsts, numbers = np.unique(groups[held], return_index=True, return_inverse=True)
    ranks = np.empty(len(firsts), dtype=np.int64)
    ranks[np.argsort(firsts)] = np.arange(len(firsts))
    item = ranks[numbers]
    order = np.argsort(item, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(item, minlength=len(firsts)))])

    def sums(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values[held][order], offsets[:-1], dtype=np.int64) if held.size else values[held]

    return Items(
        lengths=sums(documents.lengths),
        caps=tuple(replace(cap, needs=sums(cap.needs)) for cap in caps),
        members=held[order],
        member_offsets=offsets,
    )


def without_unfit(
    items: Items, documents: Documents, longest: int, *, drop: bool, cut: bool
) -> tuple[Items, dict[str, np.ndarray]]:
    """Items that fit a pack, the others with length 0; and the documents that these hold, under their reasons.

    Args:
        items: what is packed.
        documents: what items are made of, for the errors.
        longest: the most tokens of a pack.
        drop: whether what does not fit is left out; else it is an error.
        cut: whether items are cut to fit, so that none is too long.

    Raises:
        DataError: an item does not fit, and ``drop`` is False.
    """
    left_out: dict[str, np.ndarray] = {}
    lengths = items.lengths
    if not cut and int(lengths.max(initial=0)) > longest:
        unfit = np.flatnonzero(lengths > longest)
        if not drop:
            raise DataError(_too_long(items, documents, int(unfit[0]), longest, len(unfit)))
        left_out["too_long"] = items.documents(unfit)[0]
        lengths = np.where(lengths > longest, 0, lengths).astype(lengths.dtype, copy=False)
    for cap in items.caps:
        if int(cap.needs.max(initial=0)) <= cap.limit:
            continue
        unfit = np.flatnonzero((cap.needs > cap.limit) & (lengths > 0))
        if unfit.size and not drop:
            what = _name(items, documents, int(unfit[0]))
            raise DataError(
                f"{what}: its {cap.name} of {cap.needs[unfit[0]]} is more than a pack may have, {cap.limit}. Raise "
                f"{_option(cap)}, or set overflow='drop' to leave such samples out."
            )
        before = left_out.get("over_cap", np.empty(0, dtype=np.int64))
        left_out["over_cap"] = np.concatenate([before, items.documents(unfit)[0]])
        lengths = lengths.copy()
        lengths[unfit] = 0
    return replace(items, lengths=lengths), {reason: found for reason, found in left_out.items() if found.size}


def refuse_overflow_that_cuts(overflow: str, why: str) -> None:
    """Raises a ConfigError if the policy cuts samples, with the reason why they can't be cut."""
    if overflow in ("truncate", "split"):
        raise ConfigError(f"overflow={overflow!r} cuts samples, and {why}. Set overflow to 'error' or 'drop'.")


def _option(cap: Cap) -> str:
    return "max_documents" if cap.name == "documents" else "max_cost"


def _name(items: Items, documents: Documents, item: int) -> str:
    members = items.documents(np.array([item]))[0]
    samples = documents.samples(members).tolist()
    if items.members is None:
        return f"Sample {samples[0]}"
    return f"The group of sample {samples[0]} ({len(samples)} samples)"


def _too_long(items: Items, documents: Documents, item: int, longest: int, num_unfit: int) -> str:
    num_tokens = int(items.lengths[item])
    more = f" So it is with {num_unfit - 1} more." if num_unfit > 1 else ""
    if items.members is not None:
        return (
            f"{_name(items, documents, item)}: {num_tokens} tokens do not fit a pack of {longest}, and a group stays "
            f"together. Raise capacity (max_seq_len), or set overflow='drop' to leave such groups out.{more}"
        )
    return f"{too_long(int(documents.samples(np.array([item]))[0]), num_tokens, longest)}{more}"


def too_long(sample: int, num_tokens: int, capacity: int) -> str:
    """What is said of a sample that does not fit a pack."""
    return (
        f"Sample {sample}: {num_tokens} tokens do not fit a pack of {capacity}. Raise capacity (max_seq_len), set "
        "split_across_pack=True, set overflow to 'drop', 'truncate' or 'split', or give the tokenizer a max_seq_len "
        "that cuts samples."
    )
