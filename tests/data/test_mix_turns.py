"""The weighted schedule of sources that are met item by item: the same as that of all items at once."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.mix_source import MixSource
from torchpipe.data.mix_turns import MixTurns, scales_of, tie_ranks, turn_at
from torchpipe.data.mixing import mix_schedule

WEIGHTS = st.lists(st.sampled_from([0.1, 0.25, 0.3, 0.5, 1.0, 2.0, 7.0]), min_size=1, max_size=4)


def names_of(weights: list[float]) -> list[str]:
    return [f"source {number}" for number in range(len(weights))]


def turns_of(weights: list[float]) -> MixTurns:
    return MixTurns(names_of(weights), [{0: weight} for weight in weights], seed=3)


@given(WEIGHTS, st.data())
def test_items_that_are_met_one_by_one_have_the_places_of_the_schedule_of_all(
    weights: list[float], data: st.DataObject
) -> None:
    sizes = [data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=12)) for _ in weights]
    sources = [
        MixSource(name=name, num_items=len(own), weight=weight, sizes=np.array(own))
        for name, own, weight in zip(names_of(weights), sizes, weights, strict=True)
    ]
    schedule = mix_schedule(sources, seed=3, shuffle=False)
    turns, met, found = turns_of(weights), [0] * len(weights), []
    for _ in range(len(schedule)):
        turn = turns.next_turn([own[at] if at < len(own) else None for own, at in zip(sizes, met, strict=True)])
        assert turn is not None
        found.append((turn.source, met[turn.source]))
        turns.give(turn.source, sizes[turn.source][met[turn.source]])
        met[turn.source] += 1
    # Times are whole numbers here and rounded there: where those of several are equal, their order may differ.
    times = [(2 * sum(sizes[source][:item]) + sizes[source][item]) / weights[source] for source, item in found]
    assert times == pytest.approx(sorted(times))
    assert sorted(found) == sorted(zip(schedule.source.tolist(), schedule.item.tolist(), strict=True))


@given(WEIGHTS, st.integers(0, 300))
def test_any_place_of_endless_sources_is_known_without_those_before_it(weights: list[float], place: int) -> None:
    turns, given_by = turns_of(weights), [0] * len(weights)
    turn = None
    for _ in range(place + 1):
        turn = turns.next_turn([1] * len(weights))
        assert turn is not None
        turns.give(turn.source, 1)
        given_by[turn.source] += 1
    assert turn is not None
    assert turn_at(place, scales_of(weights), tie_ranks(names_of(weights), 3)) == (turn, given_by[turn.source] - 1)


@given(WEIGHTS, st.integers(1, 400))
def test_at_every_place_each_source_has_given_its_share_to_within_an_item(weights: list[float], num: int) -> None:
    turns = turns_of(weights)
    for _ in range(num):
        turn = turns.next_turn([1] * len(weights))
        assert turn is not None
        turns.give(turn.source, 1)
    for share in turns.shares():
        assert abs(share.rows - share.target * num) <= len(weights)


def test_sources_without_an_item_are_passed_over_and_the_others_keep_their_ratio() -> None:
    turns = turns_of([97.0, 2.0, 1.0])
    for _ in range(300):
        turn = turns.next_turn([None, 1, 1])
        assert turn is not None
        turns.give(turn.source, 1)
    assert turns.rows == [0, 200, 100]
    assert turns.next_turn([None, None, None]) is None


def test_weights_that_change_hold_from_their_item_on_and_after_a_restart() -> None:
    weights = [{0: 1.0, 40: 9.0}, {0: 1.0}]
    turns = MixTurns(["a", "b"], weights, seed=0)
    given_at: list[int] = []
    for place in range(140):
        if place == 60:
            state = json.loads(json.dumps(turns.get_state()))
            turns = MixTurns(["a", "b"], weights, seed=0)
            turns.set_state(state)
        turn = turns.next_turn([1, 1])
        assert turn is not None
        turns.give(turn.source, 1)
        given_at.append(turn.source)
    assert (given_at[:40].count(0), given_at[40:].count(0)) == (20, 90)
