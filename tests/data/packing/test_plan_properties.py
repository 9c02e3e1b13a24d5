"""Every strategy, over random lengths and capacities: each token once, nothing over capacity, everything counted."""

import os
import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchpipe.data.packing import PackPlan, Strategy, plan_packs
from torchpipe.errors import ConfigError, DataError

STRATEGIES = get_args(Strategy)
WHOLE = [strategy for strategy in STRATEGIES if strategy != "concat_then_split"]
CAPACITIES = st.one_of(st.integers(1, 40), st.sampled_from([8192, 8193]))


@st.composite
def lengths_and_capacity(draw: st.DrawFn) -> tuple[list[int], int]:
    capacity = draw(CAPACITIES)
    lengths = st.one_of(st.integers(0, capacity), st.sampled_from([0, 1, capacity]))
    return draw(st.lists(lengths, min_size=1, max_size=60).filter(any)), capacity


def packs_of(plan: PackPlan) -> list[list[int]]:
    return [[span.sample for span in plan.spans(k)] for k in range(len(plan))]


def holds_all(plan: PackPlan, lengths: list[int]) -> None:
    plan.check(lengths)
    assert (np.diff(plan.pack_offsets) > 0).all()
    assert (plan.num_tokens <= plan.pack_lens).all()
    assert plan.num_tokens.sum() == (plan.stop - plan.start).sum()
    counts = plan.counts
    assert counts["samples"] == len(lengths)
    assert counts["packed_samples"] == len(set(plan.sample.tolist()))
    left_out = [sample for samples in plan.left_out.values() for sample in samples.tolist()]
    assert sorted({*plan.sample.tolist(), *left_out}) == list(range(len(lengths)))
    assert len(left_out) == len(lengths) - counts["packed_samples"]


@settings(deadline=None)
@example(([5], 5))
@example(([1], 8192))
@example(([8193] * 3, 8193))
@example(([7] * 50, 15))
@example(([0, 0, 3, 0], 8))
@given(lengths_and_capacity())
def test_each_token_is_in_one_pack_that_holds_it(drawn: tuple[list[int], int]) -> None:
    lengths, capacity = drawn
    for strategy in STRATEGIES:
        for seed in (None, 3):
            plan = plan_packs(lengths, capacity, strategy=strategy, seed=seed)
            holds_all(plan, lengths)
            assert plan.pack_lens.tolist() == [capacity] * len(plan)
            assert plan.counts["tokens"] == sum(lengths)
            assert plan.left_out.get("empty", np.empty(0)).tolist() == [i for i, n in enumerate(lengths) if n == 0]


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=40).filter(any), st.integers(1, 12))
def test_every_overflow_policy_accounts_for_every_token(lengths: list[int], capacity: int) -> None:
    for strategy in STRATEGIES:
        split = plan_packs(lengths, capacity, strategy=strategy, overflow="split")
        holds_all(split, lengths)
        assert split.counts["tokens"] == sum(lengths)
        truncated = plan_packs(lengths, capacity, strategy=strategy, overflow="truncate")
        holds_all(truncated, lengths)
        assert truncated.counts["tokens"] == sum(min(n, capacity) for n in lengths)
        assert truncated.num_truncated == sum(max(n - capacity, 0) for n in lengths)
        if any(0 < n <= capacity for n in lengths):
            dropped = plan_packs(lengths, capacity, strategy=strategy, overflow="drop")
            holds_all(dropped, lengths)
            too_long = [i for i, n in enumerate(lengths) if n > capacity]
            assert dropped.left_out.get("too_long", np.empty(0)).tolist() == too_long


def test_a_split_sample_is_several_spans() -> None:
    plan = plan_packs([14, 3], 6, overflow="split")
    spans = sorted(span for k in range(len(plan)) for span in plan.spans(k))
    assert spans == [(0, 0, 6), (0, 6, 12), (0, 12, 14), (1, 0, 3)]
    assert len(plan) == 3


@settings(deadline=None)
@given(lengths_and_capacity(), st.integers(1, 4), st.integers(3, 9), st.randoms(use_true_random=False))
def test_caps_hold(drawn: tuple[list[int], int], max_documents: int, max_media: int, random: object) -> None:
    lengths, capacity = drawn
    media = [random.randrange(4) for _ in lengths]  # pyright: ignore[reportAttributeAccessIssue]
    cost = {"media": media, "pairs": lambda n: n * (n + 1) // 2}
    max_cost = {"media": max_media, "pairs": capacity * (capacity + 1) // 2}
    for strategy in WHOLE:
        plan = plan_packs(
            lengths, capacity, strategy=strategy, max_documents=max_documents, cost=cost, max_cost=max_cost
        )
        holds_all(plan, lengths)
        for k in range(len(plan)):
            spans = plan.spans(k)
            assert len(spans) <= max_documents
            assert sum(media[span.sample] for span in spans) <= max_media
            assert sum(n * (n + 1) // 2 for n in (s.stop - s.start for s in spans)) <= max_cost["pairs"]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(-2, 6)), min_size=1, max_size=30).filter(
        lambda rows: any(n for n, _ in rows)
    )
)
def test_members_of_a_group_never_part(rows: list[tuple[int, int]]) -> None:
    lengths, group = [n for n, _ in rows], [g for _, g in rows]
    sums = {g: sum(n for n, other in rows if other == g) for g in group}
    for strategy in WHOLE:
        plan = plan_packs(lengths, max(sums.values()), strategy=strategy, group=group, seed=1)
        holds_all(plan, lengths)
        pack_of = {s: k for k, pack in enumerate(packs_of(plan)) for s in pack}
        packs = {g: {pack_of[i] for i, other in enumerate(group) if other == g and i in pack_of} for g in group}
        assert all(len(held) <= 1 for held in packs.values())
        capacity = min(total for total in sums.values() if total)
        dropped = plan_packs(lengths, capacity, strategy=strategy, group=group, overflow="drop")
        holds_all(dropped, lengths)
        fits = {i for i, g in enumerate(group) if sums[g] <= capacity and lengths[i]}
        assert set(dropped.sample.tolist()) == fits


def test_a_group_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match=r"The group of sample 1 \(2 samples\): 9 tokens do not fit a pack of 8"):
        plan_packs([3, 4, 5, 3], 8, group=[0, 1, 1, 0])
    with pytest.raises(ConfigError, match="overflow='split' cuts samples, and the members of a group can't be cut"):
        plan_packs([3, 4], 8, group=[0, 0], overflow="split")
    with pytest.raises(ConfigError, match=r"'concat_then_split' cuts samples .* can't hold group"):
        plan_packs([3, 4], 8, group=[0, 0], strategy="concat_then_split")
    with pytest.raises(DataError, match=r"group is float64 \[2\]. Give one whole number for each of the 2 samples"):
        plan_packs([3, 4], 8, group=np.zeros(2))
    with pytest.raises(DataError, match="The group of sample 0.*: its documents of 2 is more than a pack may have, 1"):
        plan_packs([3, 4], 8, group=[5, 5], max_documents=1)


@settings(deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=50).filter(any), st.sets(st.integers(1, 39), max_size=3))
def test_of_several_lengths_each_pack_has_the_smallest_that_holds_it(lengths: list[int], shorter: set[int]) -> None:
    capacities = sorted({*shorter, 40})
    for strategy in ("best_fit_decreasing", "best_fit", "first_fit"):
        plan = plan_packs(lengths, list(reversed(capacities)), strategy=strategy)
        holds_all(plan, lengths)
        for tokens, pack_len in zip(plan.num_tokens.tolist(), plan.pack_lens.tolist(), strict=True):
            assert pack_len == min(capacity for capacity in capacities if capacity >= tokens)


def test_in_order_strategies_fill_packs_of_one_length() -> None:
    with pytest.raises(ConfigError, match="'next_fit' fills packs of one length, and capacity has 2"):
        plan_packs([3, 4], [4, 8], strategy="next_fit")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_seed_makes_other_packs_and_the_same_again(strategy: Strategy) -> None:
    lengths = [(7 * i) % 20 + 1 for i in range(500)]
    plans = [plan_packs(lengths, 50, strategy=strategy, seed=seed) for seed in (None, 1, 2, 1)]
    assert len({plan.fingerprint for plan in plans}) == 3
    assert plans[1].fingerprint == plans[3].fingerprint
    assert sorted(map(sorted, packs_of(plans[1]))) != sorted(map(sorted, packs_of(plans[2])))


def test_a_plan_is_the_same_in_every_process() -> None:
    code = f"""
import numpy as np
from torchpipe.data.packing import plan_packs
n = np.arange(5000) ** 2 % 97 + 1
print([plan_packs(n, 200, strategy=s, seed=7, max_documents=9).fingerprint for s in {WHOLE}])
"""
    printed = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        printed.add(done.stdout)
    n = np.arange(5000) ** 2 % 97 + 1
    here = [plan_packs(n, 200, strategy=s, seed=7, max_documents=9).fingerprint for s in WHOLE]
    assert printed == {f"{here}\n"}


def test_integers_of_any_width_make_the_same_plan() -> None:
    lengths = [(7 * i) % 20 for i in range(300)]
    widths = [np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
    for strategy in STRATEGIES:
        prints = {plan_packs(np.array(lengths, dtype=w), 23, strategy=strategy).fingerprint for w in widths}
        assert prints == {plan_packs(lengths, 23, strategy=strategy).fingerprint}


def test_splitting_narrow_integers_does_not_wrap() -> None:
    lengths = np.array([250, 3], dtype=np.uint8)
    plan = plan_packs(lengths, 240, overflow="split")
    holds_all(plan, lengths.tolist())


@pytest.mark.parametrize(
    ("lengths", "options", "sentence"),
    [
        ([], {}, "lengths is empty: there is no sample to pack"),
        ([0, 0], {}, r"No rows are left to pack: all 2 samples are left out \(empty: 2\)"),
        ([0, 9, 7], {"overflow": "drop"}, r"\(empty: 1, too_long: 2\). capacity \(max_seq_len\) is 6, .* has 7 tokens"),
        ([9, 7], {}, "Sample 0: 9 tokens do not fit a pack of 6. .* So it is with 1 more"),
        ([1, -2], {}, "lengths: sample 1 has -2 tokens"),
        ([1.5], {}, r"lengths are float64 \[1\]. Give whole numbers"),
        ([[1, 2]], {}, r"lengths are int64 \[1, 2\]"),
        ([1, 2], {"cost": [1], "max_cost": 3}, r"The costs 'cost' are int64 \[1\]. .* each of the 2 samples"),
        ([1, 2], {"cost": [1, -1], "max_cost": 3}, "The cost 'cost' of sample 1 is -1"),
        ([1, 2], {"cost": [1, 4], "max_cost": 3}, "Sample 1: its cost of 4 is more than a pack may have, 3"),
    ],
)
def test_lengths_that_make_no_plan_are_refused(lengths: list[int], options: dict[str, object], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        plan_packs(lengths, 6, **options)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"overflow": "spilt"}, "overflow is 'spilt'. .* Did you mean 'split'"),
        ({"capacity": 0}, r"A pack of 0 tokens holds nothing. Give capacity \(max_seq_len\) as 1 or more"),
        ({"capacity": 2**63}, r"capacity \(max_seq_len\) is 9223372036854775808, and tokens are counted up to"),
        ({"capacity": [4, 2**70], "strategy": "first_fit"}, r"capacity \(max_seq_len\) is 1180591620717411303424"),
        ({"capacity": []}, "capacity is empty"),
        ({"capacity": 4.0}, r"capacity \(max_seq_len\) is 4.0"),
        ({"max_documents": 0}, "max_documents is 0. Give a whole number above 0"),
        ({"max_open_packs": True}, "max_open_packs is True"),
        ({"max_cost": 3}, "max_cost has 'cost' and cost does not"),
        ({"cost": {"media": [1]}, "max_cost": {"medai": 3}}, "cost has 'media' and max_cost does not.*'medai'"),
        ({"strategy": "concat_then_split", "cost": [1], "max_cost": 3}, "can't hold max_cost"),
        ({"strategy": "concat_then_split", "max_span": 0}, "max_span is 0. Give a whole number above 0"),
        ({"strategy": "next_fit", "max_span": 3}, "max_span has no effect on strategy 'next_fit'"),
        ({"strategy": "best_fit_decraesing"}, "is unknown. .* Did you mean 'best_fit_decreasing'"),
    ],
)
def test_options_that_are_not_possible_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        plan_packs([3], **{"capacity": 6, **options})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("strategy", ["best_fit_decreasing", "best_fit", "first_fit", "next_fit", "concat_then_split"])
def test_a_pack_may_have_more_room_than_there_are_tokens(strategy: str) -> None:
    plan = plan_packs([3, 0, 4], 2**63 - 1, strategy=strategy)
    assert (len(plan), plan.num_tokens.tolist(), plan.pack_lens.tolist()) == (1, [7], [2**63 - 1])


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=9),
    small=st.lists(st.integers(1, 60), max_size=2),
    max_documents=st.none() | st.integers(1, 4),
)
def test_room_that_is_never_used_changes_no_plan(
    lengths: list[int], small: list[int], max_documents: int | None
) -> None:
    some, much = (plan_packs(lengths, [*small, room], max_documents=max_documents) for room in (1000, 2**62))
    assert some.pack_offsets.tolist() == much.pack_offsets.tolist()
    assert some.sample.tolist() == much.sample.tolist()
    assert (some.pack_lens == 1000).tolist() == (much.pack_lens == 2**62).tolist()


def test_a_sample_over_a_cap_is_dropped_and_counted() -> None:
    plan = plan_packs([3, 4, 9], 6, cost=[1, 5, 9], max_cost=4, overflow="drop")
    assert {reason: samples.tolist() for reason, samples in plan.left_out.items()} == {"too_long": [2], "over_cap": [1]}


def test_planning_needs_no_torch() -> None:
    code = "import sys; from torchpipe.data.packing import plan_packs as f; f([1], 2); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
