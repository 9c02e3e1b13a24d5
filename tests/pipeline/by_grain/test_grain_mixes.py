"""Weighted mixes, as Grain runs them: shares of what is given, ends, passes, and what an iterator tells of them."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grain
import numpy as np
import pytest

from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetConcatConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    SingleDatasetConfig,
    TextSequence,
    WeightedDataset,
)
from torchpipe.pipeline.by_grain.identity import named_nodes
from torchpipe.pipeline.by_grain.ledger import graph_ledger
from torchpipe.pipeline.by_grain.mix_stream import mix_shares

Build = Callable[..., Any]
Rows = Callable[[Any], list[Any]]


def texts(name: str, size: int, **options: Any) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=[f"{name}{row}" for row in range(size)], name=name, **options)


def mix(
    children: Sequence[tuple[Any, Any]], *, epochs: Sequence[float | None] = (), **options: Any
) -> DatasetMixConfig:
    weighted = [
        WeightedDataset(dataset=dataset, weight=weight, max_epochs=most)
        for (dataset, weight), most in itertools.zip_longest(children, epochs[: len(children)])
    ]
    return DatasetMixConfig(datasets=tuple(weighted), **options)


def documents(name: str, lengths: Sequence[int], *, first: int = 0, trained: float = 1.0) -> SingleDatasetConfig:
    rows = []
    for number, length in enumerate(lengths):
        ids = first + 100 * number + np.arange(length)
        labels = np.where(np.arange(length) < trained * length, ids + 1, -100)
        rows.append(TextSequence(input_ids=ids, labels=labels))
    return SingleDatasetConfig(source=rows, name=name)


def counts(rows: Sequence[Any]) -> dict[str, int]:
    return dict(Counter(row[0] for row in rows))


def test_weighted_map_mix_keeps_weight_with_dataset(grain_of: Build) -> None:
    children = [(texts("a", 40), 3.0), (texts("b", 40), 1.0)]
    for order in (children, children[::-1]):
        dataset = grain_of(mix(order), shuffle=True)
        assert isinstance(dataset, grain.MapDataset)
        assert counts([dataset[place] for place in range(40)]) == {"a": 30, "b": 10}


def test_a_mix_by_number_gives_the_rows_that_it_gives_one_after_the_other(grain_of: Build, graph_rows: Rows) -> None:
    children = [(texts("a", 30, pre_filters=[lambda row: int(row[1:]) % 3 == 0]), 1.0), (texts("b", 9), 2.0)]
    dataset = grain_of(mix(children), shuffle=True)
    rows = [dataset[place] for place in range(len(dataset))]
    assert [row for row in rows if row is not None] == graph_rows(dataset)
    later = [dataset[place] for place in range(len(dataset), 2 * len(dataset))]
    assert later != rows
    assert counts([row for row in later if row is not None]) == counts(graph_rows(dataset))


@pytest.mark.usefixtures("threads_take_turns")
def test_threads_may_ask_a_mix_for_rows_of_several_epochs_at_once(grain_of: Build) -> None:
    children = [(texts("a", 30, pre_filters=[lambda row: int(row[1:]) % 3 == 0]), 1.0), (texts("b", 9), 2.0)]
    dataset = grain_of(mix(children), shuffle=True)
    places = [place + epoch * len(dataset) for place in range(len(dataset)) for epoch in range(4)]
    alone = [dataset[place] for place in places]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(dataset.__getitem__, places)) == alone


def test_a_child_without_a_name_is_counted_under_its_weighted_ones(grain_of: Build, graph_rows: Rows) -> None:
    child = SingleDatasetConfig(source=["a0", "a1"])
    weighted = WeightedDataset(dataset=child, name="news")
    dataset = grain_of(DatasetMixConfig(datasets=(weighted,)))
    assert graph_rows(dataset) == ["a0", "a1"]
    assert graph_ledger(dataset)["news"].rows_out == 2
    assert [*named_nodes(DatasetMixConfig(datasets=(weighted,)))] == ["DatasetMixConfig", "weight of news", "news"]


def test_weights_are_shares_of_the_rows_that_are_left(grain_of: Build, graph_rows: Rows) -> None:
    sparse = texts("a", 300, pre_filters=[lambda row: int(row[1:]) % 10 == 0])
    rows = graph_rows(grain_of(mix([(sparse, 1.0), (texts("b", 100), 1.0)]), shuffle=True))
    assert counts(rows) == {"a": 30, "b": 30}
    assert all(
        abs(row_count["a"] - row_count.get("b", 0)) <= 1
        for row_count in map(counts, itertools.accumulate([row] for row in rows))
        if "a" in row_count
    )


def test_a_child_that_is_put_in_changes_no_others_order(grain_of: Build, graph_rows: Rows) -> None:
    a, b, c = (texts(name, 20) for name in "abc")
    before = graph_rows(grain_of(mix([(a, 1.0), (b, 1.0)], stop="all"), shuffle=True))
    after = graph_rows(grain_of(mix([(c, 1.0), (a, 1.0), (b, 2.0)], stop="all"), shuffle=True))
    for name in "ab":
        one, two = ([row for row in rows if row[0] == name] for rows in (before, after))
        assert one[:20] == two[:20]


@pytest.mark.parametrize(("stop", "expected"), [("first", {"a": 3, "b": 3, "c": 3}), ("all", {"a": 4, "b": 4, "c": 4})])
def test_a_mix_of_3_4_and_3_rows_ends_where_it_is_said_to(
    grain_of: Build, graph_rows: Rows, stop: Any, expected: dict[str, int]
) -> None:
    children = [(texts(name, size), 1.0) for name, size in (("a", 3), ("b", 4), ("c", 3))]
    rows = graph_rows(grain_of(mix(children, stop=stop), shuffle=True))
    assert counts(rows) == expected
    if stop == "all":
        assert len(set(rows)) == 10


def test_a_mix_of_0_2_and_1_rows_says_which_child_is_empty(grain_of: Build) -> None:
    children = [(texts(name, size), 1.0) for name, size in (("a", 0), ("b", 2), ("c", 1))]
    with pytest.raises(ValueError, match="dataset has 0 rows, fewer than dp_world_size=1: a. Give it more rows"):
        grain_of(mix(children))


@pytest.mark.parametrize("stop", ["first", "all"])
@pytest.mark.parametrize("repeat", [False, True])
def test_a_child_that_filters_everything_out_is_named(grain_of: Build, stop: Any, repeat: bool) -> None:
    nothing = texts("news", 5, pre_filters=[lambda row: False])
    dataset = grain_of(mix([(texts("a", 3), 1.0), (nothing, 1.0)], stop=stop), repeat=repeat)
    rows = iter(dataset.to_iter_dataset() if isinstance(dataset, grain.MapDataset) else dataset)
    with pytest.raises(DataError, match="news: none of its 5 rows is left"):
        list(rows)


def test_max_epochs_ends_a_child_and_leaves_the_others_their_ratio(grain_of: Build) -> None:
    children = [(texts("a", 4), 8.0), (texts("b", 50), 2.0), (texts("c", 50), 1.0)]
    rows = iter(grain_of(mix(children, epochs=[2.5, None, None]), repeat=True, shuffle=True))
    given = [next(rows) for _ in range(100)]
    assert counts(given) == {"a": 10, "b": 60, "c": 30}
    assert Counter(row for row in given if row[0] == "a").most_common()[-1][1] >= 2


def test_a_mix_all_of_whose_children_have_had_their_epochs_ends(grain_of: Build, graph_rows: Rows) -> None:
    children = [(texts("a", 4), 1.0), (texts("b", 6), 1.0)]
    rows = graph_rows(grain_of(mix(children, epochs=[2, 1]), repeat=True))
    assert counts(rows) == {"a": 8, "b": 6}


def test_a_mix_by_tokens_gives_shares_of_tokens(grain_of: Build) -> None:
    long, short = documents("long", [12] * 50), documents("short", [3] * 400, first=10_000)
    rows = iter(grain_of(mix([(long, 1.0), (short, 1.0)], by="tokens"), repeat=True, shuffle=True))
    tokens: Counter[bool] = Counter()
    for _ in range(500):
        ids = next(rows).input_ids
        tokens[bool(ids[0] < 10_000)] += len(ids)
        assert abs(tokens[True] - tokens[False]) <= 12
    assert [(share.name, share.target, share.units) for share in mix_shares(rows)[0]] == [
        ("long", 0.5, tokens[True]),
        ("short", 0.5, tokens[False]),
    ]


def test_a_mix_by_trained_tokens_counts_no_others(grain_of: Build) -> None:
    half, whole = documents("half", [10] * 50, trained=0.5), documents("whole", [10] * 50, first=10_000)
    rows = iter(grain_of(mix([(half, 1.0), (whole, 1.0)], by="trained_tokens"), repeat=True))
    for _ in range(300):
        next(rows)
    assert [share.rows for share in mix_shares(rows)[0]] == [200, 100]


def test_a_child_without_trained_tokens_does_not_hold_the_mix_up_for_ever(grain_of: Build) -> None:
    nothing = documents("nothing", [2] * 10, trained=0)
    rows = iter(grain_of(mix([(nothing, 1.0), (documents("a", [3] * 10), 1.0)], by="trained_tokens"), repeat=True))
    with pytest.raises(DataError, match="nothing gave 10,000 rows in a row without trained tokens"):
        list(rows)


def test_weights_by_the_item_of_the_mix_change_there(grain_of: Build) -> None:
    children = [(texts("a", 50), {0: 1.0, 20: 3.0}), (texts("b", 50), 1.0)]
    rows = iter(grain_of(mix(children), repeat=True, shuffle=True))
    given = [next(rows) for _ in range(60)]
    assert counts(given[:20]) == {"a": 10, "b": 10}
    assert counts(given[20:]) == {"a": 30, "b": 10}


def test_mixes_stand_before_and_after_packing_and_packs_nest(grain_of: Build, graph_rows: Rows) -> None:
    one, two = documents("one", [5, 7, 3, 8] * 5), documents("two", [4, 4, 6] * 5, first=50_000)
    before = FirstFitPackingConfig(dataset=mix([(one, 1.0), (two, 1.0)], stop="all"))
    after = mix([(FirstFitPackingConfig(dataset=one), 1.0), (ConcatThenSplitPackingConfig(dataset=two), 1.0)])
    nested = FirstFitPackingConfig(dataset=mix([(FirstFitPackingConfig(dataset=one), 1.0), (two, 1.0)], stop="all"))
    for config in (before, after, nested):
        rows = graph_rows(grain_of(config, shuffle=True))
        assert {len(row.input_ids) for row in rows} == {16}
        assert all(row.positions[0] == 0 for row in rows)
        held = [row.input_ids[~row.padding_mask] for row in rows]
        trained = [row.labels[~row.padding_mask] for row in rows]
        assert all((labels == ids + 1).all() for ids, labels in zip(held, trained, strict=True))
        names = {bool(ids[0] >= 50_000) for ids in held}
        assert names == {False, True}
    assert len(grain_of(nested, shuffle=True).ledger.name) > 0


@pytest.mark.parametrize("by", ["rows", "tokens"])
@pytest.mark.parametrize("stop", ["first", "all"])
@pytest.mark.parametrize("repeat", [False, True])
def test_a_mix_goes_on_from_any_of_its_states(grain_of: Build, by: Any, stop: Any, repeat: bool) -> None:
    children = [(documents("a", [3, 5, 2, 9]), 2.0), (documents("b", [4, 1, 6], first=5000), 1.0)]
    config = mix(children, by=by, stop=stop, epochs=[3, None] if repeat else ())

    def rows() -> Any:
        dataset = grain_of(config, shuffle=True, repeat=repeat)
        return iter(dataset.to_iter_dataset() if isinstance(dataset, grain.MapDataset) else dataset)

    once = rows()
    states = [json.loads(json.dumps(once.get_state()))]
    given = []
    for row in itertools.islice(once, 30):
        given.append(row.input_ids.tolist())
        states.append(json.loads(json.dumps(once.get_state())))
    for number, state in enumerate(states):
        again = rows()
        again.set_state(state)
        assert again.get_state() == state
        rest = [row.input_ids.tolist() for row in itertools.islice(again, 30 - number)]
        assert rest == given[number:]
        assert mix_shares(again) == mix_shares(once)


def test_a_stream_of_which_a_part_has_no_row_is_named_with_the_part(grain_of: Build) -> None:
    packed = ConcatThenSplitPackingConfig(dataset=documents("news", [5] * 4))  # a row for each 16 tokens
    config = mix([(packed, 1.0), (documents("a", [5] * 9), 1.0)], stop="all")
    assert len(list(grain_of(config))) == 18
    with pytest.raises(
        DataError, match=r"none of its rows is left in part 1 of 4. Loosen its filters, give it more row"
    ):
        list(grain_of(config, dp_rank=1, dp_world_size=4))


def test_a_state_of_another_mix_is_refused(grain_of: Build) -> None:
    two, three = (iter(grain_of(mix([(texts(name, 3), 1.0) for name in names], stop="all"))) for names in ("ab", "abc"))
    with pytest.raises(ConfigError, match="The state is of a mix of 2 children, and this one has 3"):
        three.set_state(two.get_state())


def test_a_part_of_a_pass_of_a_stream_is_refused(grain_of: Build) -> None:
    packed = ConcatThenSplitPackingConfig(dataset=documents("a", [5] * 9))
    with pytest.raises(ConfigError, match="max_epochs of ConcatThenSplitPackingConfig is 0.5, and a stream"):
        grain_of(mix([(packed, 1.0)], epochs=[0.5]))


def test_a_mix_of_maps_can_be_a_part_of_a_concat(grain_of: Build, graph_rows: Rows) -> None:
    config = DatasetConcatConfig(datasets=[mix([(texts("a", 4), 1.0), (texts("b", 4), 1.0)]), texts("c", 5)])
    rows = graph_rows(grain_of(config, shuffle=True))
    assert counts(rows) == {"a": 4, "b": 4, "c": 5}
