"""Packs are planned from lengths alone; nothing is lost, doubled or torn that should not be."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data.packing.plan import ConcatThenSplit, NextFit, PackPlan, Span, pack_planner, plan_packs
from torchpipe.errors import ConfigError, DataError

LENGTHS = st.lists(st.integers(0, 20), min_size=1, max_size=40).filter(any)


def packs_of(plan: PackPlan) -> list[list[Span]]:
    return [plan.spans(k) for k in range(len(plan))]


def test_next_fit_keeps_torchtunes_order() -> None:
    plan = plan_packs([4, 4, 2, 2], 6, strategy="next_fit")
    assert [[span.sample for span in pack] for pack in packs_of(plan)] == [[0], [1, 2], [3]]


def test_concat_then_split_cuts_at_the_capacity() -> None:
    plan = plan_packs([3, 5], 6, strategy="concat_then_split")
    assert packs_of(plan) == [[Span(0, 0, 3), Span(1, 0, 3)], [Span(1, 3, 5)]]


def test_a_sample_may_go_on_over_several_packs() -> None:
    plan = plan_packs([14, 3], 6, strategy="concat_then_split")
    assert packs_of(plan) == [[Span(0, 0, 6)], [Span(0, 6, 12)], [Span(0, 12, 14), Span(1, 0, 3)]]


@settings(deadline=None)
@given(LENGTHS, st.integers(20, 40))
def test_next_fit_holds_every_sample_once_and_whole(lengths: list[int], capacity: int) -> None:
    packs = packs_of(plan_packs(lengths, capacity, strategy="next_fit"))
    spans = [span for pack in packs for span in pack]
    assert spans == [Span(i, 0, n) for i, n in enumerate(lengths) if n]
    assert all(0 < sum(s.stop - s.start for s in pack) <= capacity for pack in packs)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 40))
def test_concat_then_split_holds_every_token_once_in_order(lengths: list[int], capacity: int) -> None:
    packs = packs_of(plan_packs(lengths, capacity, strategy="concat_then_split"))
    tokens = [(s.sample, i) for pack in packs for s in pack for i in range(s.start, s.stop)]
    assert tokens == [(i, j) for i, n in enumerate(lengths) for j in range(n)]
    assert all(sum(s.stop - s.start for s in pack) == capacity for pack in packs[:-1])


@settings(deadline=None)
@given(LENGTHS)
def test_a_streaming_planner_and_the_plan_of_all_lengths_agree(lengths: list[int]) -> None:
    for strategy, planner in (("next_fit", NextFit(20)), ("concat_then_split", ConcatThenSplit(20))):
        streamed = [pack for i, n in enumerate(lengths) for pack in planner.push(i, n)] + planner.flush()
        assert packs_of(plan_packs(lengths, 20, strategy=strategy)) == streamed


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 24), st.integers(1, 5), st.none() | st.integers(1, 30))
def test_packs_that_end_behind_a_number_of_documents_are_those_of_the_streaming_planner(
    lengths: list[int], capacity: int, max_documents: int, max_span: int | None
) -> None:
    planner = ConcatThenSplit(capacity, max_documents=max_documents, max_span=max_span)
    streamed = [pack for i, n in enumerate(lengths) for pack in planner.push(i, n)] + planner.flush()
    plan = plan_packs(lengths, capacity, strategy="concat_then_split", max_documents=max_documents, max_span=max_span)
    assert packs_of(plan) == streamed
    assert np.diff(plan.pack_offsets).max() <= max_documents
    assert (plan.stop - plan.start).max() <= min(max_span or capacity, capacity)


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 24), st.integers(1, 30))
def test_spans_are_cut_from_where_a_pack_takes_up_a_document(lengths: list[int], capacity: int, max_span: int) -> None:
    planner = ConcatThenSplit(capacity, max_span=max_span)
    streamed = [pack for i, n in enumerate(lengths) for pack in planner.push(i, n)] + planner.flush()
    assert packs_of(plan_packs(lengths, capacity, strategy="concat_then_split", max_span=max_span)) == streamed


def test_a_pack_of_two_documents_is_full_or_ends_with_the_second() -> None:
    plan = plan_packs([3, 2, 9, 1], 6, strategy="concat_then_split", max_documents=2)
    assert packs_of(plan) == [[(0, 0, 3), (1, 0, 2)], [(2, 0, 6)], [(2, 6, 9), (3, 0, 1)]]


def test_a_plan_is_small_integers() -> None:
    plan = plan_packs([3, 2, 6], 6, strategy="next_fit")
    assert {a.dtype for a in (plan.sample, plan.start, plan.stop, plan.pack_offsets)} == {np.dtype(np.int64)}
    assert plan.pack_offsets.tolist() == [0, 2, 3]


def test_a_sample_longer_than_a_pack_is_refused_with_the_remedies() -> None:
    with pytest.raises(
        DataError,
        match=r"Sample 1: 7 tokens do not fit a pack of 6. Raise capacity \(max_seq_len\), set split_across_pack",
    ):
        plan_packs([3, 7], 6, strategy="next_fit")


def test_an_unknown_strategy_or_an_empty_pack_is_refused() -> None:
    with pytest.raises(ConfigError, match="'worst_fit' is unknown. .*'best_fit_decreasing'.* Did you mean 'first_fit'"):
        pack_planner("worst_fit", 6)
    with pytest.raises(ConfigError, match="A pack of 0 tokens holds nothing"):
        pack_planner("next_fit", 0)


def test_a_capped_next_fit_closes_a_pack_early_streamed_or_not() -> None:
    streamed = NextFit(20, max_documents=2)
    lengths = [1, 0, 2, 3, 4, 5]
    packs = [pack for i, n in enumerate(lengths) for pack in streamed.push(i, n)] + streamed.flush()
    assert packs == packs_of(plan_packs(lengths, 20, strategy="next_fit", max_documents=2))
    assert [[span.sample for span in pack] for pack in packs] == [[0, 2], [3, 4], [5]]
    by_media = plan_packs(lengths, 20, strategy="next_fit", cost=[1, 9, 1, 2, 0, 3], max_cost=3)
    assert [[span.sample for span in pack] for pack in packs_of(by_media)] == [[0, 2], [3, 4], [5]]
