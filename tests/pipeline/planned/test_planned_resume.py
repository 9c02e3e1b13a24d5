"""A loader of a planned graph goes on to the bit, on any number of ranks, and refuses the state of another graph."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
from numbered_graphs import Loader, equal, in_run_order, rows_of, single

from torchpipe.errors import ConfigError, LoaderStateError
from torchpipe.pipeline import (
    DatasetConcatConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    TrainerBatch,
    WeightedDataset,
)


def without_padding(batches: Sequence[TrainerBatch]) -> list[TrainerBatch]:
    return [batch for batch in batches if not batch[0]["padding_mask"].all()]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (4, 1), (3, 8)])
def test_a_run_goes_on_with_the_same_rows_on_another_number_of_ranks(before: int, after: int, loader: Loader) -> None:
    graph = FirstFitPackingConfig(dataset=single(103))
    whole = list(loader(graph, num_epochs=2))
    for ticks in range(0, 2 * len(whole) // 3 // before, 5):
        first = [loader(graph, num_epochs=2, rank=rank, world_size=before) for rank in range(before)]
        given = in_run_order([[next(batches) for _ in range(ticks)] for batches in map(iter, first)])
        states = [one.state_dict() for one in first]
        assert all(state == states[0] for state in states)
        rest = [loader(graph, num_epochs=2, rank=rank, world_size=after, num_workers=rank % 2) for rank in range(after)]
        for one in rest:
            one.load_state_dict(json.loads(json.dumps(states[0])))
        assert equal(without_padding([*given, *in_run_order([list(one) for one in rest])]), whole)


def test_an_endless_run_begins_another_order_where_an_epoch_ends_and_loses_no_row(loader: Loader) -> None:
    rows = loader(single(10, longest=5), repeat=True)  # 2 rows of one token
    batches = iter(rows)
    epochs = [[next(batches)[0]["input"][0].item() for _ in range(8)] for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [sorted(epochs[0])] * 3
    assert epochs[0] != epochs[1] != epochs[2]
    assert rows.epoch == 3


@pytest.mark.parametrize("world_size", [1, 3])
def test_a_state_of_the_end_has_no_batch_behind_it(world_size: int, loader: Loader) -> None:
    def ended() -> GrainDataLoader:
        return loader(single(14, longest=8), num_epochs=2, rank=0, world_size=world_size)  # 12 rows

    rows = ended()
    assert len(list(rows)) == 24 // world_size
    state = rows.state_dict()
    assert (state["epoch"], state["row"]) == (2, 0)
    again = ended()
    again.load_state_dict(state)
    assert list(again) == []
    more = loader(single(14, longest=8), num_epochs=3, world_size=world_size)
    more.load_state_dict(state)
    assert len(list(more)) == 12 // world_size


def test_iterating_again_goes_on(loader: Loader) -> None:
    one, other = loader(single(20)), loader(single(20))
    given = [next(iter(one)) for _ in range(3)]
    one.close()
    assert equal([*given, *one], list(other))
    assert list(one) == []


class TestState:
    def test_is_small_and_says_where_the_run_stands(self, loader: Loader) -> None:
        children = tuple(WeightedDataset(dataset=single(9 + child), name=f"source {child}") for child in range(5))
        rows = loader(FirstFitPackingConfig(dataset=DatasetMixConfig(datasets=children)), repeat=True)
        next(iter(rows))
        state = rows.state_dict()
        assert (state["version"], state["way"], state["epoch"], state["row"]) == (2, "planned", 0, 1)
        assert len(json.dumps(state)) < 1024

    def test_of_other_samples_is_refused_by_the_name_of_their_source(self, loader: Loader) -> None:
        state = loader(single(20, name="rows")).state_dict()
        other = single(21, name="rows")
        with pytest.raises(LoaderStateError, match="rows gives other samples, for its source changed") as refused:
            loader(other).load_state_dict(state)
        assert isinstance(refused.value, ValueError)
        loader(other, allow_changed=("rows",)).load_state_dict(state)

    @pytest.mark.parametrize(
        ("changed", "sentence"),
        [({"seed": 1}, "seed was 42 and is 1"), ({"length": 32}, "capacity was 64 and is 32")],
    )
    def test_of_other_settings_is_refused_by_their_names(
        self, changed: dict[str, Any], sentence: str, loader: Loader
    ) -> None:
        state = loader(single(20)).state_dict()
        with pytest.raises(LoaderStateError, match=sentence):
            loader(single(20), **changed).load_state_dict(state)

    def test_of_another_mix_is_refused_and_names_what_may_differ(self, loader: Loader) -> None:
        def mix(weight: float) -> DatasetMixConfig:
            child = WeightedDataset(dataset=single(20), weight=weight, name="a")
            return DatasetMixConfig(datasets=(child,), name="mix")

        state = loader(mix(1)).state_dict()
        with pytest.raises(LoaderStateError, match="mix was mixes .* and is mixes"):
            loader(mix(2)).load_state_dict(state)
        with pytest.raises(ConfigError, match=r"allow_changed has 'mixx', .* Did you mean 'mix'\?"):
            loader(mix(2), allow_changed=("mixx",)).load_state_dict(state)

    @pytest.mark.parametrize(
        ("damage", "sentence"),
        [
            ({"version": 1}, "unsupported GrainDataLoader state version 1"),
            ({"row": -1}, "has row -1"),
            ({"row": 10**9}, "there is no such row"),
            ({"graph": "{"}, "has graph '{', which can't be read"),
            ({"graph": '{"seed": 5}'}, "seed was 5 and is 42"),
            ({"graph": "[" * 100_000}, "has graph .*, which can't be read"),
            ({"epoch": 2**40, "row": 0}, "before row 0 of epoch 1099511627776, and there is no such row"),
            ({"way": "grain"}, "ran by Grain, as rows come, and now it runs as a plan"),
        ],
    )
    def test_that_is_damaged_is_a_sentence(self, damage: dict[str, Any], sentence: str, loader: Loader) -> None:
        state = loader(single(20)).state_dict()
        with pytest.raises(LoaderStateError, match=sentence):
            loader(single(20)).load_state_dict({**state, **damage})

    @pytest.mark.parametrize("state", [[1], [], None, 0, ""])
    def test_that_is_no_dict_is_a_sentence(self, state: Any, loader: Loader) -> None:
        with pytest.raises(LoaderStateError, match="The loader's state is a .*. It is the dict of state_dict"):
            loader(single(20)).load_state_dict(state)

    @pytest.mark.parametrize("number", [2, 60])
    def test_of_a_node_that_is_gone_goes_on_where_that_is_allowed(self, number: int, loader: Loader) -> None:
        children = [WeightedDataset(dataset=single(3), name=f"source {child}") for child in range(number)]
        before, now = (DatasetMixConfig(datasets=datasets, name="mix") for datasets in (children, children[:-1]))
        state = loader(before).state_dict()
        gone = f"source {number - 1}"
        with pytest.raises(LoaderStateError, match=f"({gone}|1 node) is gone"):
            loader(now, allow_changed=("mix",)).load_state_dict(state)
        loader(now, allow_changed=(gone, "mix")).load_state_dict(state)

    def test_of_any_epoch_of_a_mix_with_limits_is_found_at_once(self, loader: Loader) -> None:
        children = (
            WeightedDataset(dataset=single(9), name="a", weight={0: 1, 30: 2}, max_epochs=2.5),
            WeightedDataset(dataset=single(4, first=10**5), name="b"),
        )
        graph = DatasetMixConfig(datasets=children, stop="all")
        state = loader(graph, repeat=True).state_dict()
        late = loader(graph, repeat=True)
        late.load_state_dict({**state, "epoch": 10**6})
        firsts = {int(batch["input"][0]) for batch, _ in islice(iter(late), 6)}
        assert firsts <= {first for first, _ in rows_of(4, first=10**5)}

    def test_that_is_empty_changes_nothing(self, loader: Loader) -> None:
        rows = loader(single(20))
        rows.load_state_dict({})
        assert len(list(rows)) == 19

    def test_stands_behind_what_was_given_and_not_what_was_made_ready(self, loader: Loader) -> None:
        rows = loader(single(20), num_prefetch_batches=7)
        batches: Iterator[TrainerBatch] = iter(rows)
        list(islice(batches, 2))
        assert rows.state_dict()["row"] == 2
        rows.close()


def test_every_node_has_a_name_of_its_own_in_a_state(loader: Loader) -> None:
    names = ("a", "a", "a (2)", "seed", "capacity")
    children = tuple(single(3 + number, name=name) for number, name in enumerate(names))
    rows = loader(DatasetConcatConfig(datasets=children))
    state = json.loads(rows.state_dict()["graph"])
    nodes = {"DatasetConcatConfig", "a", "a (2)", "a (2) (2)", "seed (2)", "capacity (2)"}
    assert set(rows.ledger) == nodes < set(state)
    assert (state["seed"], state["capacity"]) == ("42", "64")
    other = loader(DatasetConcatConfig(datasets=(*children[:3], single(9, name="seed"), children[4])))
    with pytest.raises(LoaderStateError, match=r"seed \(2\) gives other samples, for its source changed"):
        other.load_state_dict(rows.state_dict())
