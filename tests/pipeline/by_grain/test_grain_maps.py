"""Sources that are read by number, as Grain runs them: filters, processors, orders, ranks and epochs."""

import json
import pickle
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

from torchpipe.errors import ConfigError, DataError, KindError
from torchpipe.pipeline import (
    DatasetConcatConfig,
    DatasetIterationPolicy,
    DatasetMixConfig,
    IndexedJsonlSource,
    SampleProcessor,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchpipe.pipeline.by_grain.ledger import graph_ledger

Build = Callable[..., Any]
Rows = Callable[[Any], list[Any]]


class Drawing(SampleProcessor):
    """A row, and the first random number that it is given."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        return sample, int(rng.integers(2**62))


class SaidToBeDeterministic(Drawing):
    """It is not."""

    deterministic = True


class Numbers(grain.IterDataset[int]):
    """0, 1, 2, ...; of which this rank has its part."""

    def __init__(self, policy: DatasetIterationPolicy, num_rows: int) -> None:
        super().__init__()
        self._rows = range(num_rows)[policy.dp_rank :: policy.dp_world_size]

    def __iter__(self) -> Any:
        return grain.MapDataset.source(self._rows).to_iter_dataset().__iter__()


class NumbersConfig:
    """Builds them."""

    def build(self, *, dataset_iteration_policy: DatasetIterationPolicy) -> Numbers:
        return Numbers(dataset_iteration_policy, 60)


def test_indexed_jsonl_random_access(grain_of: Build, tmp_path: Path, shared_data: Path) -> None:
    lines = (shared_data / "gsm8k" / "train.jsonl").read_bytes().splitlines(keepends=True)[:50]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines[:20]))
    (tmp_path / "b.jsonl").write_bytes(b"\n".join(lines[20:]))  # with blank lines
    source = IndexedJsonlSource.Config(patterns=(str(tmp_path / "*.jsonl"),), cache_dir=str(tmp_path / "cache"))
    dataset = grain_of(SingleDatasetConfig(source=source))
    assert isinstance(dataset, grain.MapDataset)
    assert len(dataset) == 50
    for number in (49, 0, 20, 7):
        assert dataset[number] == json.loads(lines[number])
    assert dataset[50] == dataset[0]


def test_shuffled_repeat_advances_epoch(grain_of: Build) -> None:
    dataset = grain_of(SingleDatasetConfig(source=range(50)), shuffle=True, repeat=True)
    rows = iter(dataset.to_iter_dataset())
    epochs = [[next(rows) for _ in range(50)] for _ in range(3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(50))] * 3
    assert len({tuple(epoch) for epoch in epochs}) == 3


@pytest.mark.parametrize("shuffle", [False, True])
def test_resume_mid_second_epoch(grain_of: Build, shuffle: bool) -> None:
    config = SingleDatasetConfig(source=range(23), processor=Drawing.Config(), pre_filters=(lambda row: row % 5,))
    built = [grain_of(config, shuffle=shuffle, repeat=True).to_iter_dataset() for _ in range(2)]
    rows = iter(built[0])
    for _ in range(18 + 7):
        next(rows)
    state = json.loads(json.dumps(rows.get_state()))
    rest = [next(rows) for _ in range(40)]
    again = iter(built[1])
    again.set_state(state)
    assert [next(again) for _ in range(40)] == rest


def test_repeat_and_data_parallelism(grain_of: Build) -> None:
    config = SingleDatasetConfig(source=range(24))
    ranks = [grain_of(config, shuffle=True, repeat=True, dp_rank=rank, dp_world_size=3) for rank in range(3)]
    epochs = [[[ranked[8 * epoch + place] for place in range(8)] for ranked in ranks] for epoch in range(2)]
    for epoch in epochs:
        assert sorted(row for part in epoch for row in part) == list(range(24))
    assert set(epochs[0][0]) != set(epochs[1][0])


def test_concat_shards_after_one_global_index_space(grain_of: Build, graph_rows: Rows) -> None:
    config = DatasetConcatConfig(
        datasets=[
            SingleDatasetConfig(source=[f"{name}{row}" for row in range(size)]) for name, size in (("a", 5), ("b", 6))
        ]
    )
    ranks = [graph_rows(grain_of(config, dp_rank=rank, dp_world_size=2)) for rank in range(2)]
    assert ranks == [["a0", "a1", "a2", "a3", "a4", "b0"], ["b1", "b2", "b3", "b4", "b5"]]
    shuffled = [graph_rows(grain_of(config, shuffle=True, dp_rank=rank, dp_world_size=2)) for rank in range(2)]
    assert sorted(shuffled[0] + shuffled[1]) == sorted(ranks[0] + ranks[1])
    assert all({row[0] for row in part} == {"a", "b"} for part in shuffled)


def test_every_row_of_103_is_given_once_by_4_ranks(grain_of: Build, graph_rows: Rows) -> None:
    config = SingleDatasetConfig(source=range(103))
    ranks = [graph_rows(grain_of(config, shuffle=True, dp_rank=rank, dp_world_size=4)) for rank in range(4)]
    assert [len(part) for part in ranks] == [26, 26, 26, 25]
    assert sorted(row for part in ranks for row in part) == list(range(103))


def test_a_child_that_stands_three_times_in_a_concat_draws_other_numbers_each_time(
    grain_of: Build, graph_rows: Rows
) -> None:
    child = SingleDatasetConfig(source=range(10), processor=Drawing.Config())
    rows = graph_rows(grain_of(DatasetConcatConfig(datasets=(child, child, child))))
    assert Counter(row for row, _ in rows) == dict.fromkeys(range(10), 3)
    assert len({number for _, number in rows}) == 30


def test_a_row_draws_the_same_numbers_wherever_the_order_puts_it_and_others_in_each_epoch(grain_of: Build) -> None:
    config = SingleDatasetConfig(source=range(10), processor=Drawing.Config())
    plain, shuffled = (grain_of(config, shuffle=shuffle, repeat=True) for shuffle in (False, True))
    assert dict(plain[place] for place in range(10)) == dict(shuffled[place] for place in range(10))
    assert not {number for _, number in (plain[place] for place in range(10))} & {
        number for _, number in (plain[place] for place in range(10, 20))
    }


def test_a_processor_that_is_said_to_draw_nothing_and_draws_is_refused(grain_of: Build, graph_rows: Rows) -> None:
    config = SingleDatasetConfig(source=range(3), processor=SaidToBeDeterministic.Config())
    with pytest.raises(ConfigError, match="SaidToBeDeterministic is said to be deterministic, and asked the random"):
        graph_rows(grain_of(config))


def test_two_children_of_one_length_have_orders_of_their_own_in_all_epochs(grain_of: Build) -> None:
    children = [SingleDatasetConfig(source=range(40), name=name) for name in ("one", "two")]
    policies = [{"seed": seed} for seed in (11, 12, 13)]  # seeds that are neighbours
    orders = {
        tuple(dataset[40 * epoch + place] for place in range(40))
        for child in children[:1]
        for policy in policies
        for dataset in [grain_of(child, shuffle=True, repeat=True, **policy)]
        for epoch in range(4)
    }
    assert len(orders) == 12


def test_filters_and_the_processor_are_applied_in_their_order(grain_of: Build, graph_rows: Rows) -> None:
    config = SingleDatasetConfig(
        source=range(10),
        pre_filters=[lambda row: row > 2],
        processor=Drawing.Config(),
        post_filters=[lambda made: made[0] % 2 == 0],
    )
    assert [row for row, _ in graph_rows(grain_of(config))] == [4, 6, 8]


def test_a_stream_is_this_ranks_part_and_is_shuffled_some_rows_at_a_time(grain_of: Build, graph_rows: Rows) -> None:
    config = SingleDatasetConfig(source=NumbersConfig(), processor=Drawing.Config(), pre_filters=[lambda row: row % 3])
    ranks = [graph_rows(grain_of(config, shuffle=True, dp_rank=rank, dp_world_size=2)) for rank in range(2)]
    assert all(isinstance(grain_of(config), grain.IterDataset) for _ in ranks)
    numbers = [row for part in ranks for row, _ in part]
    assert sorted(numbers) == [row for row in range(60) if row % 3]
    assert numbers[:20] != sorted(numbers[:20])
    assert len({drawn for part in ranks for _, drawn in part}) == 40
    plain = graph_rows(grain_of(config, dp_world_size=2))
    assert dict(plain) == dict(ranks[0])  # a row draws by its number, not by its place


def test_a_stream_that_is_given_as_it_is_is_shared_out_row_by_row(grain_of: Build, graph_rows: Rows) -> None:
    config = SingleDatasetConfig(source=grain.MapDataset.range(20).to_iter_dataset(), processor=Drawing.Config())
    assert [row for row, _ in graph_rows(grain_of(config))] == list(range(20))
    ranks = [graph_rows(grain_of(config, dp_rank=rank, dp_world_size=3)) for rank in range(3)]
    assert [[row for row, _ in rows] for rows in ranks] == [list(range(rank, 20, 3)) for rank in range(3)]
    assert len({drawn for rows in ranks for _, drawn in rows}) == 20


def test_a_stream_that_is_given_as_it_is_begins_again_where_rows_repeat(grain_of: Build) -> None:
    config = SingleDatasetConfig(source=grain.MapDataset.range(5).to_iter_dataset(), processor=Drawing.Config())
    ranks = [iter(grain_of(config, repeat=True, dp_rank=rank, dp_world_size=2)) for rank in range(2)]
    rows = [[next(rows) for _ in range(10)] for rows in ranks]
    assert [[row for row, _ in some] for some in rows] == [[0, 2, 4, 1, 3] * 2, [1, 3, 0, 2, 4] * 2]
    assert len({drawn for some in rows for _, drawn in some}) == 20, "other numbers in each pass"
    few = iter(grain_of(config, repeat=True, dp_rank=6, dp_world_size=7))
    assert [next(few)[0] for _ in range(5)] == [1, 3, 0, 2, 4], "fewer rows than ranks"


def test_a_stream_that_repeats_by_itself_is_not_begun_again(grain_of: Build) -> None:
    stream = grain.MapDataset.range(4).repeat().map_with_index(lambda index, row: (index, row)).to_iter_dataset()
    rows = iter(grain_of(SingleDatasetConfig(source=stream), repeat=True))
    assert list(islice(rows, 11)) == [(index, index % 4) for index in range(11)]


def test_a_stream_without_rows_can_not_begin_again(grain_of: Build) -> None:
    stream = grain.MapDataset.range(4).filter(lambda row: row > 4).to_iter_dataset()
    with pytest.raises(DataError, match="web has no rows, and repeat is True: it would be begun again for ever"):
        next(iter(grain_of(SingleDatasetConfig(source=stream, name="web"), repeat=True)))


def test_a_shared_stream_goes_on_from_any_of_its_states_also_where_a_pass_ends(grain_of: Build) -> None:
    def rows() -> Any:
        stream = grain.MapDataset.range(11).to_iter_dataset()
        config = SingleDatasetConfig(source=stream, processor=Drawing.Config())
        return iter(grain_of(config, shuffle=True, repeat=True, dp_rank=1, dp_world_size=3))

    whole = list(islice(rows(), 40))
    for number in range(20):
        first, again = rows(), rows()
        assert list(islice(first, number)) == whole[:number]
        again.set_state(json.loads(json.dumps(first.get_state())))
        assert list(islice(again, 20)) == whole[number : number + 20]


def test_a_shuffled_stream_goes_on_from_any_of_its_states(grain_of: Build) -> None:
    def rows() -> Any:
        return iter(grain_of(SingleDatasetConfig(source=NumbersConfig()), shuffle=True, dp_world_size=4))

    once = rows()
    states, given = [once.get_state()], []
    for row in once:
        given.append(row)
        states.append(once.get_state())
    assert sorted(given) == list(range(0, 60, 4))
    for number, state in enumerate(states):
        again = rows()
        again.set_state(state)
        assert list(again) == given[number:]


def test_fewer_rows_than_ranks_are_refused(grain_of: Build) -> None:
    with pytest.raises(ValueError, match="^dataset has 3 rows, fewer than dp_world_size=4: list. Give it more rows"):
        grain_of(SingleDatasetConfig(source=[1, 2, 3]), dp_world_size=4)
    two = DatasetConcatConfig(datasets=[SingleDatasetConfig(source=[1])] * 2, name="both")
    with pytest.raises(ConfigError, match="^dataset has 2 rows, fewer than dp_world_size=4: both. "):
        grain_of(two, dp_world_size=4)


def test_a_stream_in_a_concat_is_refused(grain_of: Build) -> None:
    config = DatasetConcatConfig(datasets=[SingleDatasetConfig(source=NumbersConfig(), name="web")])
    with pytest.raises(TypeError, match="^DatasetConcatConfig requires map-style children; web gives a stream"):
        grain_of(config)


def test_a_source_that_builds_neither_rows_nor_a_stream_is_refused(grain_of: Build) -> None:
    class Config:
        def build(self, *, dataset_iteration_policy: DatasetIterationPolicy) -> int:
            return 3

    with pytest.raises(KindError, match="^source must be a RandomAccessDataSource or grain.IterDataset; got int of"):
        grain_of(SingleDatasetConfig(source=Config()))


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_data_set_that_repeats_and_gives_nothing_ends_with_an_error(grain_of: Build, shuffle: bool) -> None:
    config = SingleDatasetConfig(source=range(9), pre_filters=[lambda row: False], name="news")
    dataset = grain_of(config, repeat=True, shuffle=shuffle, dp_rank=1, dp_world_size=2)
    with pytest.raises(DataError, match="news: none of its 9 rows is left. Loosen its filters, or take it out"):
        next(iter(dataset.to_iter_dataset()))


def test_read_options_that_are_given_are_obeyed_and_change_no_row(grain_of: Build) -> None:
    child = SingleDatasetConfig(source=range(50), processor=Drawing.Config(), pre_filters=[lambda row: row % 7])
    config = DatasetMixConfig(datasets=(WeightedDataset(dataset=child), WeightedDataset(dataset=child, weight=2)))
    given, names = [], set()
    for threads in (0, 4):
        options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=5 * threads)
        rows = iter(grain_of(config, context={"read_options": options}, shuffle=True, repeat=True).to_iter_dataset())
        given.append([next(rows) for _ in range(200)])
        names |= {thread.name for thread in threading.enumerate()}
        rows.close()
    assert given[0] == given[1]
    assert "torchpipe rows" in names


def test_what_is_built_can_be_sent_to_another_process(grain_of: Build, graph_rows: Rows) -> None:
    dataset = grain_of(SingleDatasetConfig(source=[3, 4], processor=Drawing.Config()))
    assert graph_rows(pickle.loads(pickle.dumps(dataset))) == graph_rows(dataset)
    assert graph_ledger(dataset).nodes[0].rows_out == 2
