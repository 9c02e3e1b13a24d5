"""Packs with room are filled again where that makes fewer, and nothing else changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data.packing import plan_packs
from torchpipe.data.packing.best_fit import best_fit_decreasing
from torchpipe.data.packing.items import Items, Placed
from torchpipe.data.packing.refill import refilled


def packs_of(placed: Placed) -> list[list[int]]:
    return [part.tolist() for part in np.split(placed.order, placed.pack_offsets[1:-1])]


@settings(deadline=None)
@given(
    st.one_of(st.integers(1, 60), st.sampled_from([8192, 8193])).flatmap(
        lambda capacity: st.tuples(st.just(capacity), st.lists(st.integers(0, capacity), min_size=1, max_size=300))
    ),
    st.one_of(st.none(), st.integers(0, 9)),
)
def test_every_item_is_in_one_pack_and_there_are_never_more(given_: tuple[int, list[int]], seed: int | None) -> None:
    capacity, lengths = given_
    items = Items(lengths=np.array(lengths))
    before = best_fit_decreasing(items, [capacity], seed)
    first, again = (
        refilled(Placed(order=before.order.copy(), pack_offsets=before.pack_offsets), items, capacity) for _ in range(2)
    )
    assert packs_of(first) == packs_of(again)
    packs = packs_of(first) if any(lengths) else []
    assert sorted(item for pack in packs for item in pack) == np.flatnonzero(lengths).tolist()
    assert all(pack and sum(lengths[item] for item in pack) <= capacity for pack in packs)
    if len(first.pack_offsets) == len(before.pack_offsets):
        assert packs_of(first) == packs_of(before)
    else:
        assert len(first.pack_offsets) < len(before.pack_offsets)


@pytest.mark.parametrize(
    ("capacity", "lengths", "packs"),
    [
        (10, [5, 4, 4, 3, 2, 2], [[5, 3, 2], [4, 4, 2]]),  # 5 + 4, 4 + 3 + 2 and 2 before
        (12, [11, 6, 5, 4, 4, 3, 2], [[11], [6, 4, 2], [5, 4, 3]]),
        (20, [19, 10, 9, 6, 6, 5, 4], [[19], [10, 6, 4], [9, 6, 5]]),
    ],
)
def test_two_items_that_fill_a_pack_exactly_are_taken_together(
    capacity: int, lengths: list[int], packs: list[list[int]]
) -> None:
    plain = best_fit_decreasing(Items(lengths=np.array(lengths)), [capacity], None)
    assert len(plain.pack_offsets) - 1 == len(packs) + 1
    plan = plan_packs(lengths, capacity)
    assert [[lengths[span.sample] for span in plan.spans(k)] for k in range(len(plan))] == packs


@pytest.mark.parametrize("capacity", [2048, 4096, 8193])
def test_many_lengths_fill_packs_closer_to_the_bound(capacity: int) -> None:
    lengths = chats(100_000, capacity)
    plain = best_fit_decreasing(Items(lengths=lengths), [capacity], None)
    plan = plan_packs(lengths, capacity)
    plan.check(lengths)
    assert len(plan) < len(plain.pack_offsets) - 1
    assert len(plan) <= 1.0015 * lengths.sum() / capacity


def test_packs_that_are_full_stay_and_keep_their_order() -> None:
    lengths = chats(30_000, 4096)
    items = Items(lengths=lengths)
    before = packs_of(best_fit_decreasing(items, [4096], 5))
    after = packs_of(refilled(best_fit_decreasing(items, [4096], 5), items, 4096))
    full = [pack for pack in before if lengths[pack].sum() == 4096]
    assert len(after) < len(before)
    assert after[: len(full)] == full


def test_caps_and_several_lengths_of_packs_are_left_alone() -> None:
    lengths = chats(30_000, 4096)
    plain = len(best_fit_decreasing(Items(lengths=lengths), [4096], None).pack_offsets) - 1
    assert len(plan_packs(lengths, 4096, max_documents=100_000)) == plain > len(plan_packs(lengths, 4096))


def chats(num_samples: int, capacity: int) -> np.ndarray:
    """Lengths like those of chats, none so short that it fits anywhere."""
    rng = np.random.default_rng(7)
    return np.clip(rng.lognormal(5.9, 0.9, num_samples).astype(np.int64), 100, capacity)
