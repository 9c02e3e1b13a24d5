"""Mixes whose weights change on the way."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data.mix_phases import phased_schedule
from torchpipe.data.mix_source import MixSource
from torchpipe.data.mixing import mix_schedule
from torchpipe.errors import ConfigError


def source(name: str, num_items: int, **options: Any) -> MixSource:
    return MixSource(name=name, num_items=num_items, weight=1, **options)


def test_each_phase_has_its_own_shares() -> None:
    schedule = phased_schedule([source("a", 1000), source("b", 1000)], [{0: 1, 400: 3}, {0: 1, 400: 1}])
    first, second = schedule.source[:400], schedule.source[400:]
    assert np.bincount(first).tolist() == [200, 200]
    assert np.bincount(second)[0] / len(second) == pytest.approx(0.75, abs=0.01)


@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=4),
    st.lists(st.sampled_from([0.5, 1.0, 2.0, 7.0]), min_size=4, max_size=4),
    st.lists(st.integers(1, 40), max_size=3),
    st.sampled_from(["first", "all"]),
)
def test_items_stand_as_often_as_the_end_of_the_epoch_says(
    sizes: list[int], weights: list[float], places: list[int], stop: Any
) -> None:
    sources = [source(str(number), size) for number, size in enumerate(sizes)]
    by_place = [
        {0: 1.0, **{place: weights[(number + turn) % 4] for turn, place in enumerate(places)}}
        for number in range(len(sizes))
    ]
    schedule = phased_schedule(sources, by_place, stop=stop)
    given_items = [Counter(schedule.item[schedule.source == number].tolist()) for number in range(len(sizes))]
    if stop == "first":
        assert all(count == 1 for items in given_items for count in items.values())
        assert any(len(items) == size for items, size in zip(given_items, sizes, strict=True))
    else:
        assert all(len(items) == size for items, size in zip(given_items, sizes, strict=True))
        assert all(max(items.values()) - min(items.values()) <= 1 for items in given_items)


@pytest.mark.parametrize("stop", ["first", "all"])
def test_weights_that_stay_give_the_places_of_a_mix_of_one_phase(stop: Any) -> None:
    sources = [source("a", 40), source("b", 25, sizes=np.arange(25) + 1), source("c", 9)]
    weighted = [
        MixSource(name=s.name, num_items=s.num_items, weight=w, sizes=s.sizes)
        for s, w in zip(sources, (3, 5, 1), strict=True)
    ]
    found = phased_schedule(sources, [{0: 3}, {0: 5}, {0: 1}], stop=stop, shuffle=False)
    expected = mix_schedule(weighted, stop=stop, shuffle=False)
    assert found.source.tolist() == expected.source.tolist()
    assert found.item.tolist() == expected.item.tolist()


def test_a_source_with_an_end_gives_no_more_than_that() -> None:
    sources = [source("a", 10, max_passes=0.5), source("b", 50, max_passes=2)]
    schedule = phased_schedule(sources, [{0: 1, 6: 2}, {0: 1}], stop="all")
    assert np.bincount(schedule.source)[0] == 5


def test_a_later_epoch_goes_on_with_the_last_weights() -> None:
    sources = [source("a", 100), source("b", 100)]
    schedule = phased_schedule(sources, [{0: 1, 50: 9}, {0: 1}], first_place=60, epoch=1)
    assert np.bincount(schedule.source).tolist()[0] == 100
    assert np.bincount(schedule.source).tolist()[1] == pytest.approx(11, abs=1)


def test_what_can_not_be_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match="stop is 'never'. A mix whose weights change ends with 'first' or 'all'"):
        phased_schedule([source("a", 1)], [{0: 1}], stop="never")
    with pytest.raises(ConfigError, match="There is nothing to mix"):
        phased_schedule([source("a", 0)], [{0: 1}])
