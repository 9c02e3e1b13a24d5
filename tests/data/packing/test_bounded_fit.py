"""Samples that arrive one by one, with a bounded number of open packs."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from torchpipe.data.packing import Span, pack_planner, plan_packs
from torchpipe.data.packing.bounded_fit import BestFit, BoundedFit, FirstFit
from torchpipe.errors import ConfigError, DataError

LENGTHS = st.lists(st.integers(0, 20), min_size=1, max_size=60)


def samples_of(planner: BoundedFit, lengths: list[int]) -> list[list[int]]:
    packs = [pack for i, n in enumerate(lengths) for pack in planner.push(i, n)] + planner.flush()
    return [[span.sample for span in pack] for pack in packs]


def test_best_fit_takes_the_fullest_pack_and_first_fit_the_oldest() -> None:
    assert samples_of(BestFit(10), [3, 8, 2]) == [[1, 2], [0]]
    assert samples_of(FirstFit(10), [3, 8, 2]) == [[0, 2], [1]]


def test_where_too_many_are_open_the_fullest_is_closed() -> None:
    planner = BestFit(10, max_open_packs=2)
    assert planner.push(0, 6) == []
    assert planner.push(1, 7) == []
    assert planner.push(2, 8) == [[Span(1, 0, 7)]]
    assert planner.flush() == [[Span(0, 0, 6)], [Span(2, 0, 8)]]


def test_a_full_pack_is_closed_at_once() -> None:
    for planner in (BestFit(10), FirstFit(10, max_documents=2)):
        planner.push(0, 6)
        assert planner.push(1, 4) == [[Span(0, 0, 6), Span(1, 0, 4)]]
    planner = FirstFit(10, max_documents=2)
    planner.push(0, 1)
    assert planner.push(1, 1) == [[Span(0, 0, 1), Span(1, 0, 1)]]


def test_a_planner_is_empty_after_flush() -> None:
    planner = BestFit(10)
    planner.push(0, 6)
    assert planner.flush() == [[Span(0, 0, 6)]]
    assert planner.flush() == []
    assert planner.push(1, 3) == []
    assert planner.flush() == [[Span(1, 0, 3)]]


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 5), st.integers(1, 4))
def test_no_more_packs_are_open_than_allowed(lengths: list[int], max_open_packs: int, max_documents: int) -> None:
    for kind in (BestFit, FirstFit):
        planner = kind(20, max_open_packs=max_open_packs, max_documents=max_documents)
        opened: list[int] = []
        closed: list[list[Span]] = []
        for sample, num_tokens in enumerate(lengths):
            opened += [sample] if num_tokens else []
            closed += planner.push(sample, num_tokens)
            still = set(opened) - {span.sample for pack in closed for span in pack}
            assert len(still) <= max_open_packs * max_documents
        last = planner.flush()
        assert len(last) <= max_open_packs
        spans = sorted(span for pack in closed + last for span in pack)
        assert spans == [Span(i, 0, n) for i, n in enumerate(lengths) if n]


@settings(deadline=None)
@given(LENGTHS.filter(any))
@example([1, 1, 1, 1, 6, 7, 7, 1])  # a pack with all its documents is closed, and no longer one of those that are open
def test_streamed_and_planned_at_once_are_the_same(lengths: list[int]) -> None:
    for strategy in ("best_fit", "first_fit"):
        planner = pack_planner(strategy, [12, 20], max_open_packs=3, max_documents=4)
        packs = [pack for i, n in enumerate(lengths) for pack in planner.push(i, n)] + planner.flush()
        plan = plan_packs(lengths, [20, 12], strategy=strategy, max_open_packs=3, max_documents=4)
        assert sorted(packs) == sorted(plan.spans(k) for k in range(len(plan)))


def test_64_open_packs_fill_995_thousandths() -> None:
    rng = np.random.default_rng(5)
    lengths = np.clip(rng.lognormal(np.log(360), 0.9, 50_000), 1, 4096).astype(np.int64)
    assert plan_packs(lengths, 4096, strategy="best_fit", max_open_packs=64).fill >= 0.995


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="Sample 3: 11 tokens do not fit a pack of 10"):
        BestFit(10).push(3, 11)
    with pytest.raises(DataError, match=r"Sample 3: costs of \(5,\) are more than a pack may have, \(4,\)"):
        BestFit(10, max_costs=[4]).push(3, 1, (5,))


def test_a_planner_of_streams_needs_no_later_lengths() -> None:
    with pytest.raises(ConfigError, match="'best_fit_decreasing' needs all lengths before the first pack"):
        pack_planner("best_fit_decreasing", 10)


def test_only_a_planner_that_cuts_samples_has_a_longest_span() -> None:
    with pytest.raises(ConfigError, match="max_span has no effect on strategy 'best_fit'. Use 'concat_then_split'"):
        pack_planner("best_fit", 10, max_span=3)
