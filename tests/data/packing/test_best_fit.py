"""Best-fit-decreasing in bulk is best-fit-decreasing, and packs close to the bound."""

import subprocess
import sys
from bisect import bisect_left, insort

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data.packing import plan_packs
from torchpipe.data.packing.best_fit import best_fit_decreasing
from torchpipe.data.packing.items import Items
from torchpipe.data.packing.open_packs import EqualNeeds, Run, UnequalNeeds


def one_by_one(lengths: list[int], capacities: list[int]) -> list[int]:
    """Free tokens of best-fit-decreasing's packs, sample by sample, sorted."""
    free: list[int] = []
    for length in sorted(lengths, reverse=True):
        place = bisect_left(free, length)
        room = free.pop(place) if place < len(free) else min(c for c in capacities if c >= length)
        insort(free, room - length)
    return free


def in_bulk(lengths: list[int], capacities: list[int]) -> list[int]:
    """The same of packs planned in bulk, before any is filled again."""
    items = Items(lengths=np.array(lengths))
    placed = best_fit_decreasing(items, capacities, None)
    held = items.lengths[placed.order]
    first = held[placed.pack_offsets[:-1]]  # a pack is opened for its first sample
    opened = np.array(capacities)[np.searchsorted(capacities, first)]
    return sorted((opened - np.add.reduceat(held, placed.pack_offsets[:-1])).tolist())


@settings(deadline=None)
@given(st.data(), st.one_of(st.integers(1, 60), st.sampled_from([8192, 8193, 131072])))
def test_bulk_planning_has_the_result_of_one_by_one(data: st.DataObject, capacity: int) -> None:
    lengths = data.draw(st.lists(st.integers(1, capacity), min_size=1, max_size=200))
    capacities = sorted({*data.draw(st.sets(st.integers(1, capacity), max_size=2)), capacity})
    for chosen in ([capacity], capacities):
        plan = plan_packs(lengths, chosen)
        plan.check(lengths)
        assert in_bulk(lengths, chosen) == one_by_one(lengths, chosen)
        assert len(plan) <= len(one_by_one(lengths, chosen))


@pytest.mark.parametrize("capacity", [512, 4096, 8193, 70_000])
def test_many_lengths_have_the_result_of_one_by_one(capacity: int) -> None:
    lengths = np.minimum(chats(20_000), capacity)
    plan = plan_packs(lengths, capacity)
    plan.check(lengths)
    assert in_bulk(lengths.tolist(), [capacity]) == one_by_one(lengths.tolist(), [capacity])
    assert len(plan) <= len(one_by_one(lengths.tolist(), [capacity]))


def test_lengths_above_a_million_are_planned_by_rank() -> None:
    lengths = (np.arange(3000, dtype=np.int64) * 7919 % 5000 + 1) * 1_000_003
    capacity = 2 * int(lengths.max()) + 1
    plan = plan_packs(lengths, capacity)
    plan.check(lengths)
    assert in_bulk(lengths.tolist(), [capacity]) == one_by_one(lengths.tolist(), [capacity])
    assert len(plan) <= len(one_by_one(lengths.tolist(), [capacity]))


def test_samples_of_one_length_go_in_their_order() -> None:
    plan = plan_packs([2, 3, 2, 3, 2, 2], 5)
    assert [[span.sample for span in plan.spans(k)] for k in range(len(plan))] == [[1, 0], [3, 2], [4, 5]]


def test_a_million_lengths_are_packed_within_a_thousandth_of_the_bound() -> None:
    lengths = np.minimum(chats(1_000_000), 4096)
    plan = plan_packs(lengths, 4096)
    assert len(plan) <= 1.001 * lengths.sum() / 4096
    assert plan.fill >= 0.9997
    plan.check(lengths)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5)), min_size=1, max_size=60), st.integers(5, 12))
def test_a_pack_is_opened_only_where_no_other_has_room(rows: list[tuple[int, int]], max_cost: int) -> None:
    lengths, cost = [n for n, _ in rows], [c for _, c in rows]
    plan = plan_packs(lengths, 20, cost=cost, max_cost=max_cost)
    room: list[tuple[int, int]] = []
    for k in range(len(plan)):
        samples = [span.sample for span in plan.spans(k)]
        first = samples[0]
        assert not any(lengths[first] <= tokens and cost[first] <= left for tokens, left in room)
        room.append((20 - sum(lengths[s] for s in samples), max_cost - sum(cost[s] for s in samples)))


@settings(deadline=None)
@given(st.data())
def test_open_packs_are_found_by_least_room(data: st.DataObject) -> None:
    packs = UnequalNeeds(capacity=3000, least=(0, 0))
    equal = EqualNeeds((1, 1))
    held: list[tuple[int, Run]] = []
    for number in range(data.draw(st.integers(0, 25))):
        rooms = (data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3)))
        free = data.draw(st.integers(0, 3000))
        held.append((free, Run(number, 1, 0, rooms)))
        packs.put(*held[-1])
        equal.put(*held[-1])
    for_equal = [each for each in held if min(each[1].rooms) >= 1]
    for _ in range(30):
        length = data.draw(st.integers(0, 3000))
        needs = (data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3)))
        fits = [each for each in held if each[0] >= length and all(map(int.__le__, needs, each[1].rooms))]
        found = packs.take(length, needs)
        assert (found is None) == (not fits)
        if found is not None:
            assert found in fits
            assert found[0] == min(free for free, _ in fits)
            held.remove(found)
        found = equal.take(length, (1, 1))
        least = min((free for free, _ in for_equal if free >= length), default=None)
        assert (None if found is None else found[0]) == least
        if found is not None:
            for_equal.remove(found)


@pytest.mark.sized("num_lengths", "planned_lengths")
def test_lengths_are_planned_in_twenty_bytes_each(num_lengths: int) -> None:
    code = """
import sys
from resource import RUSAGE_SELF, getrusage
import numpy as np
from torchpipe.data.packing import plan_packs
rng = np.random.default_rng(0)
lengths = np.empty(int(sys.argv[1]), dtype=np.uint32)
for part in np.array_split(lengths, 100):
    part[:] = np.clip(rng.lognormal(5.9, 0.9, len(part)), 1, 4096)
plan_packs(lengths[:1000], 4096)
before = getrusage(RUSAGE_SELF).ru_maxrss
plan = plan_packs(lengths, 4096)
grown = (getrusage(RUSAGE_SELF).ru_maxrss - before) * (1024 if sys.platform == "linux" else 1)
assert grown <= max(20 * len(lengths), 200_000_000), grown
assert plan.fill >= 0.9997, plan.fill
assert len(plan.sample) == len(lengths)
assert (np.bincount(plan.sample, minlength=len(lengths)) == 1).all()
"""
    subprocess.run([sys.executable, "-c", code, str(num_lengths)], check=True)


def chats(num_samples: int) -> np.ndarray:
    """Lengths in tokens like those of chats: lognormal, median 360, mean 540."""
    rng = np.random.default_rng(5)
    return np.clip(rng.lognormal(np.log(360), 0.9, num_samples), 1, 8250).astype(np.uint32)
