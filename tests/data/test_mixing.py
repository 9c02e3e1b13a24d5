"""The weighted schedule: shares at every place, when it ends, and what a change of one source leaves alone."""

import math
import tracemalloc
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data.mix_source import MixSource, tempered
from torchpipe.data.mixing import MixSchedule, mix_schedule
from torchpipe.errors import ConfigError

NAMES = "abcdefgh"


def sources(sizes: list[int], weights: list[float] | None = None, **options: Any) -> list[MixSource]:
    """Sources called a, b, ... of so many items."""
    weights = [1.0] * len(sizes) if weights is None else weights
    return [
        MixSource(name=name, num_items=size, weight=weight, **options)
        for name, size, weight in zip(NAMES, sizes, weights, strict=False)
    ]


def places(schedule: MixSchedule) -> list[tuple[str, int]]:
    """The name of the source and the number of the item, at each place."""
    names = [share.name for share in schedule.shares]
    return [(names[source], int(item)) for source, item in zip(schedule.source, schedule.item, strict=True)]


def counts_of(schedule: MixSchedule) -> dict[str, int]:
    return {share.name: share.items for share in schedule.shares}


small_mixes = st.lists(
    st.tuples(st.integers(1, 30), st.fractions(Fraction(1, 10), 10, max_denominator=10)), min_size=1, max_size=8
)


@settings(deadline=None)
@given(small_mixes, st.integers(0, 3), st.booleans())
def test_all_gives_every_item_and_those_of_the_slowest_source_exactly_once(
    mix: list[tuple[int, Fraction]], epoch: int, shuffle: bool
):
    sizes, weights = [size for size, _ in mix], [float(weight) for _, weight in mix]
    schedule = mix_schedule(sources(sizes, weights), stop="all", epoch=epoch, shuffle=shuffle)
    found = Counter(places(schedule))
    passes = [Fraction(str(weight)) / size for size, weight in zip(sizes, weights, strict=True)]
    for name, size, speed in zip(NAMES, sizes, passes, strict=False):
        times = [found[name, item] for item in range(size)]
        assert min(times) >= 1
        assert max(times) - min(times) <= 1
        if speed == min(passes):
            assert set(times) == {1}
    assert sum(found.values()) == len(schedule)


@settings(deadline=None)
@given(small_mixes, st.integers(0, 3), st.booleans())
def test_first_gives_no_item_twice_and_all_of_the_quickest_source(
    mix: list[tuple[int, Fraction]], epoch: int, shuffle: bool
):
    sizes, weights = [size for size, _ in mix], [float(weight) for _, weight in mix]
    schedule = mix_schedule(sources(sizes, weights), epoch=epoch, shuffle=shuffle)
    found = Counter(places(schedule))
    assert set(found.values()) == {1}
    passes = [Fraction(str(weight)) / size for size, weight in zip(sizes, weights, strict=True)]
    quickest = NAMES[passes.index(max(passes))]
    assert counts_of(schedule)[quickest] == sizes[passes.index(max(passes))]


@settings(deadline=None)
@given(small_mixes, st.integers(1, 200))
def test_at_every_place_each_source_has_had_its_share(mix: list[tuple[int, Fraction]], num_places: int):
    weights = [float(weight) for _, weight in mix]
    schedule = mix_schedule(sources([size for size, _ in mix], weights), stop="never", num_places=num_places)
    assert len(schedule) == num_places
    had = np.zeros(len(mix))
    for place, source in enumerate(schedule.source, start=1):
        had[source] += 1
        # A source is at most half an item before or behind the time that the others have reached, and so are they.
        assert np.abs(had - place * np.array(weights) / sum(weights)).max() <= len(mix) / 2 + 1e-9


@settings(deadline=None)
@given(small_mixes.filter(lambda mix: len(mix) > 1), st.data())
def test_a_source_that_is_put_in_leaves_the_order_of_the_others(mix: list[tuple[int, Fraction]], data: st.DataObject):
    whole = sources([size for size, _ in mix], [float(weight) for _, weight in mix])
    added = data.draw(st.integers(0, len(mix) - 1))
    rest = [source for place, source in enumerate(whole) if place != added]
    with_it = places(mix_schedule(whole, stop="never", num_places=100))
    without = places(mix_schedule(rest, stop="never", num_places=100))
    others = [place for place in with_it if place[0] != whole[added].name]
    assert others == without[: len(others)]


def test_the_order_of_sources_in_the_list_changes_nothing():
    given = sources([5, 9, 7], [1, 3, 2])
    assert places(mix_schedule(given, stop="all")) == places(mix_schedule(given[::-1], stop="all"))


def test_a_source_without_an_item_is_left_out():
    assert counts_of(mix_schedule(sources([0, 2, 1]))) == {"b": 1, "c": 1}
    assert counts_of(mix_schedule(sources([0, 2, 1]), stop="all")) == {"b": 2, "c": 2}
    with pytest.raises(ConfigError, match="There is nothing to mix: no source has an item"):
        mix_schedule(sources([0, 0]))


def test_sources_of_three_four_and_three_items():
    assert counts_of(mix_schedule(sources([3, 4, 3]))) == {"a": 3, "b": 3, "c": 3}
    schedule = mix_schedule(sources([3, 4, 3]), stop="all")
    assert counts_of(schedule) == {"a": 4, "b": 4, "c": 4}
    assert sorted(item for name, item in places(schedule) if name == "b") == [0, 1, 2, 3]


def test_one_source_is_itself_in_a_hashed_order():
    found = places(mix_schedule(sources([50])))
    assert sorted(found) == [("a", item) for item in range(50)]
    assert found != sorted(found)
    assert places(mix_schedule(sources([50]), shuffle=False)) == sorted(found)


def test_each_pass_and_each_epoch_has_an_order_of_its_own():
    found = [item for _, item in places(mix_schedule(sources([20]), stop="never", num_places=40))]
    assert sorted(found[:20]) == sorted(found[20:]) == list(range(20))
    assert found[:20] != found[20:]
    orders = {tuple(places(mix_schedule(sources([20]), epoch=epoch))) for epoch in range(5)}
    assert len(orders) == 5
    assert places(mix_schedule(sources([20]), seed=1)) != places(mix_schedule(sources([20])))


def test_a_source_that_is_gone_through_in_part_goes_on_in_the_next_epoch():
    """a has 4 items a epoch and b 4 of its 10: after five epochs, each of b's was there twice."""
    epochs = [places(mix_schedule(sources([4, 10]), epoch=epoch)) for epoch in range(5)]
    found = Counter(item for epoch in epochs for name, item in epoch if name == "b")
    assert found == dict.fromkeys(range(10), 2)


def test_a_source_ends_at_its_epochs_and_the_others_go_on():
    given = [
        MixSource(name="small", num_items=4, weight=1, max_passes=2),
        MixSource(name="large", num_items=20, weight=1),
    ]
    schedule = mix_schedule(given, stop="all")
    assert counts_of(schedule) == {"small": 8, "large": 20}
    assert Counter(places(schedule)) == {
        **{("small", item): 2 for item in range(4)},
        **{("large", item): 1 for item in range(20)},
    }
    assert {name for name, _ in places(schedule)[16:]} == {"large"}


def test_half_an_epoch_is_half_of_the_items_and_the_next_epoch_has_the_others():
    given = [MixSource(name="a", num_items=10, weight=1, max_passes=0.5), MixSource(name="b", num_items=10, weight=1)]
    first, second = (places(mix_schedule(given, stop="all", epoch=epoch)) for epoch in (0, 1))
    parts = [{item for name, item in epoch if name == "a"} for epoch in (first, second)]
    assert len(parts[0]) == len(parts[1]) == 5
    assert parts[0] | parts[1] == set(range(10))


def test_never_ends_where_it_is_asked_to_unless_the_epochs_forbid_it():
    given = sources([2, 3], max_passes=2)
    assert len(mix_schedule(given, stop="never", num_places=10)) == 10
    with pytest.raises(ConfigError, match="to have 11 items, and with their epochs the sources have 10. Raise epochs"):
        mix_schedule(given, stop="never", num_places=11)


def test_never_says_how_many_items_there_are_where_sizes_leave_fewer_than_the_mean():
    sizes = np.array([1000] + [1] * 9)  # half of the units is one item or nine, as the order has it
    capped = [MixSource(name="a", num_items=10, weight=1, sizes=sizes, max_passes=0.5)]
    lengths = set()
    for seed in range(8):
        try:
            lengths.add(len(mix_schedule(capped, stop="never", num_places=5, seed=seed)))
        except ConfigError as error:
            lengths.add(str(error))
    assert 5 in lengths
    assert "The mix is to have 5 items, and with their epochs the sources have 1. Raise epochs, or ask for fewer." in (
        lengths
    )


def test_never_draws_no_more_of_a_small_source_than_is_asked_for_beside_a_large_one_of_uneven_items():
    uneven = np.full(1000, 10_000_000)
    uneven[:500] *= 3
    large = MixSource(name="large", num_items=1000, weight=0.001, sizes=uneven)
    small = MixSource(name="small", num_items=2, weight=20, sizes=np.full(2, 10))
    tracemalloc.start()
    try:
        for seed in range(5):
            assert len(mix_schedule([large, small], stop="never", num_places=1000, seed=seed)) == 1000
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("weight", [1, 100])
def test_epochs_of_never_go_on_where_the_last_one_ended_to_within_an_item(weight: int):
    given = [MixSource(name="a", num_items=20_000, weight=weight), MixSource(name="b", num_items=300, weight=1)]
    epochs = [mix_schedule(given, stop="never", num_places=1000, epoch=epoch, shuffle=False) for epoch in range(4)]
    of_a = [epoch.item[epoch.source == 0].tolist() for epoch in epochs]
    for last, following in pairwise(of_a):
        assert last == list(range(last[0], last[-1] + 1))
        assert abs(following[0] - last[-1] - 1) <= 1


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any), min_size=2, max_size=4),
    st.sampled_from(["first", "all"]),
)
def test_weights_are_shares_of_what_items_count(sizes: list[list[int]], stop: Any):
    given = [
        MixSource(name=name, num_items=len(some), weight=1, sizes=np.array(some))
        for name, some in zip(NAMES, sizes, strict=False)
    ]
    shares = mix_schedule(given, stop=stop).shares
    units = [share.passes * sum(some) for share, some in zip(shares, sizes, strict=True)]
    # All reach the same time, to within half of the item at the end.
    assert max(units) - min(units) <= max(max(some) for some in sizes) + 1e-6
    if stop == "all":
        assert all(share.items >= share.num_items - some.count(0) for share, some in zip(shares, sizes, strict=True))


def test_tokens_of_very_different_rows_come_to_the_target():
    rng = np.arange(3000)
    given = [
        MixSource(name="long", num_items=1000, weight=1, sizes=rng[:1000] % 7 * 500 + 1),
        MixSource(name="short", num_items=3000, weight=3, sizes=rng % 5 + 1),
    ]
    long, short = mix_schedule(given, stop="never", num_places=20_000).shares
    assert (long.target, short.target) == (0.25, 0.75)
    assert long.realised == pytest.approx(0.25, abs=0.05)
    assert long.items < short.items / 100


def test_equal_arguments_give_equal_fingerprints_and_other_ones_other():
    base = mix_schedule(sources([5, 6])).fingerprint
    assert mix_schedule(sources([5, 6])).fingerprint == base
    others = [sources([5, 7]), sources([5, 6], [1, 2]), sources([6, 5])]
    assert base not in {mix_schedule(other).fingerprint for other in others}
    assert mix_schedule(sources([5, 6]), seed=1).fingerprint != base


def test_the_places_of_a_known_mix_do_not_change():
    """A saved run goes on by its position alone: this order may never change."""
    schedule = mix_schedule(sources([4, 3, 2], [3, 2, 1]), stop="all", seed=7)
    assert "".join(name + str(item) for name, item in places(schedule)) == "a3b1c1a1b2a0a2b0c0a1b0a3"


def test_a_million_rows_a_source_take_five_bytes_a_place():
    given = sources([1_000_000] * 3, [1, 2, 4])
    tracemalloc.start()
    schedule = mix_schedule(given)
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(schedule) == 1_750_000
    assert kept < 5.2 * len(schedule)
    assert peak < 40 * len(schedule)
    assert [share.passes for share in schedule.shares] == [0.25, 0.5, 1]
    assert [share.realised for share in schedule.shares] == [share.target for share in schedule.shares]
    had = np.cumsum(schedule.source == 2)[6::7]  # of every seven places, four are the third source's
    assert np.abs(had - 4 * np.arange(1, len(had) + 1)).max() <= 1


@pytest.mark.parametrize("weight", [0, -1, math.nan, math.inf, True, "2", None])
def test_a_weight_is_a_number_above_zero(weight: Any):
    with pytest.raises(ConfigError, match="The weight of chat is .*. Give a number above 0. To leave the source out"):
        MixSource(name="chat", num_items=3, weight=weight)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"stop": "last"}, "stop is 'last'. It is one of 'first', 'all', 'never'"),
        ({"stop": "never"}, "stop='never' has no end of its own: say how many items"),
        ({"num_places": 5}, "num_items=5 has no effect with stop='first'"),
        ({"stop": "never", "num_places": 0}, "num_items is 0. Give a whole number, 1 or more"),
        ({"seed": 0.5}, "seed is 0.5. Give a whole number"),
        ({"epoch": -1}, "epoch is -1. Give a whole number, 0 or more"),
    ],
)
def test_arguments_that_are_not_possible_are_named(options: dict[str, Any], sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        mix_schedule(sources([2, 2]), **options)


def test_sources_have_names_of_their_own_and_whole_sizes():
    with pytest.raises(ConfigError, match="Several sources of a mix are called 'a'. Give each a name of its own"):
        mix_schedule([*sources([2]), *sources([3])])
    with pytest.raises(
        ConfigError, match=r"The sizes of a are an array \[2\] of float64. Give a whole number for each"
    ):
        MixSource(name="a", num_items=2, weight=1, sizes=np.ones(2))
    with pytest.raises(ConfigError, match="a has 2 items, and none of them counts for anything: it can have no share"):
        MixSource(name="a", num_items=2, weight=1, sizes=np.zeros(2, np.int64))


def test_temperature_makes_shares_more_even():
    assert tempered([1, 100], 1) == [1.0, 100.0]
    assert tempered([1, 100], 2) == [0.1, 1.0]
    assert tempered([1, 100], 1000)[0] > 0.99
    for wrong in (0, -1, math.nan):
        with pytest.raises(ConfigError, match="temperature is .*. Give a number above 0"):
            tempered([1, 2], wrong)
