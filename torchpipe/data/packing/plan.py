"""Which samples share a pack, decided from their lengths alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, get_args

import numpy as np

from torchpipe._seeds import derive, hashed_permutation
from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.overflow import Overflow
from torchpipe.data.packing.best_fit import best_fit_decreasing
from torchpipe.data.packing.bounded_fit import DEFAULT_OPEN_PACKS, BestFit, FirstFit
from torchpipe.data.packing.caps import Cost, caps_of, whole_number
from torchpipe.data.packing.documents import Documents, checked_lengths, documents_of
from torchpipe.data.packing.in_order import ConcatThenSplit, NextFit, concat_then_split, next_fit
from torchpipe.data.packing.items import Items, Placed, items_of, refuse_overflow_that_cuts, without_unfit
from torchpipe.data.packing.own_planner import PackFunction, own_placement, own_planner
from torchpipe.data.packing.pack_plan import PackPlan, Span, columns_of
from torchpipe.data.packing.refill import refilled
from torchpipe.errors import ConfigError, DataError

__all__ = ["ConcatThenSplit", "NextFit", "PackPlan", "PackPlanner", "Span", "Strategy", "pack_planner", "plan_packs"]

Strategy = Literal["best_fit_decreasing", "best_fit", "first_fit", "next_fit", "concat_then_split"]
"""How packs are filled.

``best_fit_decreasing``: the longest sample first, each into the fullest pack that holds it; it needs all lengths at
once. With one capacity and no caps, packs that are left with room are then emptied and filled again, by another rule
(see :mod:`torchpipe.data.packing.refill`), where that makes fewer of them.
``best_fit``, ``first_fit``: in order, each sample into the fullest pack that holds it, or into that opened first; a
stated number of packs is open at a time, and where one more is needed the fullest is closed.
``next_fit``: in order; a sample that does not fit closes the pack. ``concat_then_split``: in order, cut exactly at the
capacity, so a sample may go on in the next pack; with ``max_documents`` a pack also ends behind so many, full or not.
These two are torchtune's orders, of ``split_across_pack`` False and True.
"""

_MOST = int(np.iinfo(np.int64).max)
_CHUNK = 1 << 22


class PackPlanner(Protocol):
    """Plans packs while samples arrive. Both methods return the packs that are now closed."""

    def push(self, sample: int, num_tokens: int) -> list[list[Span]]:
        """Adds a sample by its number and length in tokens."""
        ...

    def flush(self) -> list[list[Span]]:
        """Closes what is open."""
        ...


def pack_planner(
    strategy: Strategy | str | Callable[..., Any],
    capacity: int | Sequence[int],
    *,
    max_open_packs: int = DEFAULT_OPEN_PACKS,
    max_documents: int | None = None,
    max_span: int | None = None,
) -> PackPlanner:
    """A new planner for samples that arrive one by one.

    Args:
        strategy: see :data:`Strategy`, or your own class or its dotted path (see :func:`plan_packs`).
        capacity: tokens a pack holds; several for ``best_fit`` and ``first_fit``, where a new pack has the smallest
            that holds its first sample.
        max_open_packs: packs that are open at a time, for ``best_fit`` and ``first_fit``.
        max_documents: the most samples of a pack.
        max_span: the most tokens of a span, for ``concat_then_split``.

    Raises:
        ConfigError: the strategy is unknown, needs all lengths at once or does not know an option; or an option is not
            possible.
    """
    capacities = _capacities(capacity)
    max_open_packs = whole_number(max_open_packs, "max_open_packs")
    if max_documents is not None:
        max_documents = whole_number(max_documents, "max_documents")
    _check_span(strategy, max_span)
    if strategy == "best_fit_decreasing":
        raise ConfigError(
            "Packing strategy 'best_fit_decreasing' needs all lengths before the first pack. Use plan_packs, or "
            "'best_fit' for samples that arrive one by one."
        )
    if strategy in ("best_fit", "first_fit"):
        planner = BestFit if strategy == "best_fit" else FirstFit
        return planner(capacities, max_open_packs=max_open_packs, max_documents=max_documents)
    if strategy in ("next_fit", "concat_then_split"):
        _check_in_order(str(strategy), capacities, costly=False, grouped=False)
        if strategy == "next_fit":
            return NextFit(capacities[0], max_documents=max_documents)
        return ConcatThenSplit(capacities[0], max_documents=max_documents, max_span=max_span)
    _check_name(strategy)
    planner = own_planner(strategy, capacities)
    if isinstance(planner, PackFunction):
        raise ConfigError(f"strategy {strategy} plans all lengths at once. Use plan_packs.")
    if max_documents is not None:
        raise ConfigError(f"max_documents has no effect on your own planner {strategy}: give it to the planner itself.")
    return planner


def plan_packs(
    lengths: Sequence[int] | np.ndarray,
    capacity: int | Sequence[int],
    *,
    strategy: Strategy | str | Callable[..., Any] = "best_fit_decreasing",
    overflow: Overflow = "error",
    group: Sequence[int] | np.ndarray | None = None,
    seed: int | None = None,
    max_documents: int | None = None,
    cost: Cost | Mapping[str, Cost] | None = None,
    max_cost: int | Mapping[str, int] | None = None,
    max_open_packs: int = DEFAULT_OPEN_PACKS,
    max_span: int | None = None,
) -> PackPlan:
    """A plan of all samples at once, which depends on nothing but these arguments.

    Each token of each sample is in one pack, unless ``overflow`` cuts it off or leaves its sample out. Samples without
    tokens are left out; the plan's ``left_out`` and ``counts`` say so.

    Args:
        lengths: tokens of each sample.
        capacity: tokens a pack's row has. Of several, each pack has the smallest that holds what is in it: a new pack
            is opened with the smallest that holds its first sample, which with ``best_fit_decreasing`` is its longest.
        strategy: see :data:`Strategy`; or your own planner, as an object or by its dotted path: a class, or a function
            of the capacity, that gives an object with ``push`` and ``flush`` (:class:`PackPlanner`); or a function of
            lengths (int64 array) and capacity that returns a :class:`PackPlan`. A planner is given lengths of 1 or more
            that fit, numbered from 0, has a tuple of capacities where there are several, may cut samples, and what it
            returns is checked: every token once, no pack empty, too full or over a cap.
        overflow: what becomes of samples longer than the longest pack: an error, they are left out, cut on the right,
            or split into several spans. ``concat_then_split`` cuts anyway, and needs none.
        group: a whole number a sample; samples of one number share a pack. With "drop", a group that does not fit is
            left out as a whole.
        seed: None keeps the samples' order. A seed makes other packs, by a hash: ``best_fit_decreasing`` chooses
            otherwise among equal samples, everything else is given the samples in another order.
        max_documents: the most spans of a pack.
        cost: what samples need of a capped quantity, media or attention; several as a mapping. See
            :data:`~torchpipe.data.packing.caps.Cost`.
        max_cost: the most of it in a pack; a mapping where ``cost`` is one.
        max_open_packs: packs that are open at a time, for ``best_fit`` and ``first_fit``.
        max_span: the most tokens of a span, for ``concat_then_split``: what a pack holds of a longer sample is several
            documents.

    Packs are in the order of opening (``best_fit_decreasing``: those of the longest samples first, and those that were
    filled again last) or of closing (everything else); shuffling them is the loader's.

    Raises:
        DataError: a sample or group does not fit, costs or lengths are no whole numbers of 0 or more, or nothing is
            left to pack.
        ConfigError: an option is not possible, or not with this strategy, or your planner returned no plan.

    >>> plan = plan_packs([4, 4, 2, 2], 6)
    >>> [[span.sample for span in plan.spans(k)] for k in range(len(plan))]
    [[0, 2], [1, 3]]
    >>> len(plan_packs([4, 4, 2, 2], 6, strategy="next_fit"))
    3
    """
    capacities = _capacities(capacity)
    whole_number(max_open_packs, "max_open_packs")
    lengths = checked_lengths(lengths)
    _check_span(strategy, max_span)
    if strategy in ("next_fit", "concat_then_split"):
        costly = cost is not None or max_cost is not None
        _check_in_order(str(strategy), capacities, costly=costly, grouped=group is not None)
    elif strategy not in get_args(Strategy):
        _check_name(strategy)
    if group is not None:
        refuse_overflow_that_cuts(overflow, "the members of a group can't be cut")
    longest = capacities[-1]
    cuts_itself = strategy == "concat_then_split" and overflow in ("error", "split")
    documents = documents_of(lengths, longest, overflow, cut=not cuts_itself)
    caps = caps_of(
        documents.lengths,
        documents.sample,
        len(lengths),
        max_documents=max_documents,
        cost=cost,
        max_cost=max_cost,
    )
    items = items_of(documents, caps, group)
    items, unfit = without_unfit(items, documents, longest, drop=overflow == "drop", cut=cuts_itself)
    left_out = {"empty": np.flatnonzero(lengths == 0), **{name: documents.samples(ids) for name, ids in unfit.items()}}
    left_out = {reason: np.unique(samples) for reason, samples in left_out.items() if samples.size}
    if not items.lengths.any():
        raise DataError(_nothing_left(lengths, left_out, longest))
    placed = _place(items, capacities, strategy, seed, max_open_packs, max_span)
    return _plan(placed, items, documents, capacities, len(lengths), left_out)


def _place(
    items: Items,
    capacities: tuple[int, ...],
    strategy: Strategy | str | Callable[..., Any],
    seed: int | None,
    max_open_packs: int,
    max_span: int | None,
) -> Placed:
    if strategy == "best_fit_decreasing":
        used = _of_use(capacities, int(items.lengths.sum(dtype=np.int64)))
        placed = best_fit_decreasing(items, used, seed)
        return refilled(placed, items, used[0]) if len(used) == 1 else placed
    order = np.flatnonzero(items.lengths)
    if seed is not None:
        order = order[hashed_permutation(len(order), derive(seed, "packing order"))]
    given = items.chosen(order)
    if strategy == "next_fit":
        placed = next_fit(given, capacities[0])
    elif strategy == "concat_then_split":
        placed = concat_then_split(given, capacities[0], max_span=max_span)
    elif strategy in ("best_fit", "first_fit"):
        planner = (BestFit if strategy == "best_fit" else FirstFit)(
            capacities,
            max_open_packs=max_open_packs,
            max_costs=[cap.limit for cap in items.caps],
            closing=[place for place, cap in enumerate(items.caps) if cap.closes],
        )
        sample, start, stop, offsets = columns_of(_pushed(planner, given))
        placed = Placed(order=sample, pack_offsets=offsets, start=start, stop=stop)
    else:
        placed = own_placement(strategy, given, capacities)
    return Placed(order=order[placed.order], pack_offsets=placed.pack_offsets, start=placed.start, stop=placed.stop)


def _pushed(planner: BestFit | FirstFit, items: Items) -> Iterator[list[Span]]:
    costs = list(zip(*(cap.needs.tolist() for cap in items.caps), strict=True)) or [()] * len(items.lengths)
    for item, (num_tokens, needs) in enumerate(zip(items.lengths.tolist(), costs, strict=True)):
        yield from planner.push(item, num_tokens, needs)
    yield from planner.flush()


def _plan(
    placed: Placed,
    items: Items,
    documents: Documents,
    capacities: tuple[int, ...],
    num_samples: int,
    left_out: Mapping[Any, np.ndarray],
) -> PackPlan:
    """The plan: items as their documents' spans, and for each pack the smallest capacity that holds it."""
    start, stop, offsets = placed.start, placed.stop, placed.pack_offsets
    order = placed.order
    if items.members is not None:
        if start is not None and stop is not None and (stop - start != items.lengths[order]).any():
            raise ConfigError("The planner cuts samples, and the members of a group can't be cut.")
        order, item_offsets = items.documents(order)
        offsets = item_offsets[offsets]
        start = stop = None
    if start is None or stop is None:
        start = np.broadcast_to(np.int64(0), len(order))
        stop = np.empty(len(order), dtype=np.int64)
        for begin in range(0, len(order), _CHUNK):
            stop[begin : begin + _CHUNK] = documents.lengths[order[begin : begin + _CHUNK]]
    if documents.start is not None:
        start, stop = start + documents.start[order], stop + documents.start[order]
    plan = PackPlan(
        sample=documents.samples(order),
        start=start,
        stop=stop,
        pack_offsets=offsets,
        pack_lens=np.broadcast_to(np.int64(capacities[-1]), len(offsets) - 1),
        num_samples=num_samples,
        num_truncated=documents.num_truncated,
        left_out=left_out,
    )
    if len(capacities) > 1:
        lens = np.array(capacities, dtype=np.int64)[np.searchsorted(capacities, plan.num_tokens)]
        plan = replace(plan, pack_lens=lens)
    return plan


def _capacities(capacity: int | Sequence[int]) -> tuple[int, ...]:
    """The lengths that a pack may have, ascending."""
    given = (
        list(capacity) if isinstance(capacity, Sequence | np.ndarray) and not isinstance(capacity, str) else [capacity]
    )
    if not given:
        raise ConfigError("capacity is empty. Give the tokens of a pack, or several such numbers.")
    for one in given:
        if isinstance(one, bool) or not isinstance(one, int | np.integer):
            raise ConfigError(f"capacity (max_seq_len) is {one!r}. Give a whole number of tokens.")
        if one < 1:
            raise ConfigError(f"A pack of {one} tokens holds nothing. Give capacity (max_seq_len) as 1 or more.")
        if one > _MOST:
            raise ConfigError(f"capacity (max_seq_len) is {one}, and tokens are counted up to {_MOST}. Give less.")
    return tuple(sorted({int(one) for one in given}))


def _of_use(capacities: tuple[int, ...], num_tokens: int) -> tuple[int, ...]:
    """The capacities with which the same packs are made: the first that holds all tokens is the last that is used, and
    how much more than that it holds makes no difference, but for the memory that planning takes.

    It stays roomier than a pack of any other capacity.

    >>> _of_use((5, 50, 2**40, 2**50), 100)
    (5, 50, 150)
    """
    smaller = tuple(one for one in capacities if one < num_tokens)
    if len(smaller) == len(capacities):
        return capacities
    return (*smaller, min(capacities[len(smaller)], num_tokens + max(smaller, default=0)))


def _check_in_order(strategy: str, capacities: tuple[int, ...], *, costly: bool, grouped: bool) -> None:
    if len(capacities) > 1:
        raise ConfigError(
            f"Packing strategy {strategy!r} fills packs of one length, and capacity has {len(capacities)}. Use "
            "'best_fit_decreasing', 'best_fit' or 'first_fit' for several."
        )
    if strategy == "concat_then_split" and (costly or grouped):
        option = "group" if grouped else "max_cost"
        raise ConfigError(
            f"Packing strategy 'concat_then_split' cuts samples wherever a pack ends, so that it can't hold {option}. "
            "Use another strategy."
        )


def _check_span(strategy: object, max_span: int | None) -> None:
    if max_span is not None and strategy != "concat_then_split":
        raise ConfigError(f"max_span has no effect on strategy {strategy!r}. Use 'concat_then_split', or leave it out.")
    if max_span is not None:
        whole_number(max_span, "max_span")


def _check_name(strategy: object) -> None:
    """Refuses a word that is no strategy; a dotted path, or an object, is looked at when it is used."""
    known = get_args(Strategy)
    if callable(strategy) or (isinstance(strategy, str) and "." in strategy):
        return
    raise ConfigError(
        f"Packing strategy {strategy!r} is unknown. There are {listed(known)}, and the dotted path of your own planner."
        f"{did_you_mean(strategy, known)}"
    )


def _nothing_left(lengths: np.ndarray, left_out: Mapping[str, np.ndarray], longest: int) -> str:
    if not len(lengths):
        return "lengths is empty: there is no sample to pack. Does the source have rows, or does a filter drop all?"
    reasons = ", ".join(f"{reason}: {len(samples)}" for reason, samples in left_out.items())
    sentence = f"No rows are left to pack: all {len(lengths)} samples are left out ({reasons})."
    if "too_long" in left_out:
        shortest = int(lengths[left_out["too_long"]].min())
        sentence += (
            f" capacity (max_seq_len) is {longest}, and the shortest of those that are too long has {shortest} tokens: "
            "raise it, or set overflow to 'truncate' or 'split'."
        )
    return sentence
