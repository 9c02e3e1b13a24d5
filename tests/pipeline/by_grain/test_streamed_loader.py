"""Graphs that Grain runs: the same batches for any number of ranks and workers, resumed to the bit."""

import dataclasses
import json
import threading
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

import grain
import pytest
from numbered_graphs import Consecutive, Cropped, Loader, Numbers, Stream, cropped, in_run_order, stream

from torchpipe.errors import ConfigError, DataError, LoaderStateError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    SingleDatasetConfig,
    TrainerBatch,
    merged_states,
)


def as_it_is(number: int = 60) -> SingleDatasetConfig:
    """A stream that knows neither of ranks nor of repetition."""
    rows = [[100 * row, 2 + row * 7 % 20] for row in range(number)]
    source = grain.MapDataset.source(rows).to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    return SingleDatasetConfig(source=source, processor=Consecutive.Config(), name="as it is")


GRAPHS = {
    "stream": stream,
    "packed stream": lambda: ConcatThenSplitPackingConfig(dataset=stream()),
    "packed stream as it is": lambda: FirstFitPackingConfig(dataset=as_it_is(37)),
    "random processor": cropped,
    "packed random processor": lambda: FirstFitPackingConfig(dataset=cropped()),
}
graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))


def tokens(batches: Sequence[TrainerBatch]) -> list[list[int]]:
    return [[*batch["input"].tolist(), *labels.tolist(), *batch["positions"].tolist()] for batch, labels in batches]


def given(loaders: Sequence[GrainDataLoader], ticks: int) -> list[list[int]]:
    """The batches of so many turns of all ranks, in the order of the run."""
    return in_run_order([tokens(list(islice(iter(one), ticks))) for one in loaders])


def test_a_graph_with_a_random_processor_is_run_by_grain_and_a_line_says_so(
    loader: Loader, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not loader(cropped()).is_planned
    assert "Grain runs this graph, as rows come: Cropped draws random numbers (integers)." in capsys.readouterr().err
    assert not loader(stream()).is_planned
    assert "Grain runs this graph, as rows come: stream is a stream." in capsys.readouterr().err
    assert loader(SingleDatasetConfig(source=[[0, 5]], processor=Consecutive.Config())).is_planned


def test_a_graph_that_has_to_be_planned_and_can_not_be_is_an_error(loader: Loader) -> None:
    with pytest.raises(ConfigError, match="planned is True, and the graph can't be planned: stream is a stream"):
        loader(stream(), planned=True)


def test_a_processor_that_says_it_is_deterministic_may_not_draw(loader: Loader) -> None:
    class Steady(Cropped):
        deterministic = True

    rows = SingleDatasetConfig(source=[[0, 9]], processor=Steady.Config())
    with pytest.raises(ConfigError, match="Steady is said to be deterministic, and asked the random generator for"):
        loader(rows)


@graphs
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 3), (4, 1), (3, 8)])
def test_a_run_goes_on_with_the_same_batches_on_another_number_of_ranks(
    graph: Any, before: int, after: int, loader: Loader
) -> None:
    whole = given([loader(graph(), num_logical_shards=before)], 72)
    for ticks in (0, 1, 7):
        first = [loader(graph(), rank=rank, world_size=before) for rank in range(before)]
        start = given(first, ticks)
        state = json.loads(json.dumps(merged_states([one.state_dict() for one in first])))
        rest = [loader(graph(), rank=rank, world_size=after, num_prefetch_batches=rank) for rank in range(after)]
        for one in [*first, *rest]:
            one.close()
        for one in rest:
            one.load_state_dict(state)
        found = [*start, *given(rest, 4)]
        assert found == whole[: len(found)]
        for one in rest:
            one.close()


@graphs
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_batches_do_not_depend_on_the_number_of_workers(graph: Any, loader: Loader) -> None:
    alone = given([loader(graph(), num_logical_shards=4)], 24)
    for num_workers in (1, 2, 4):
        with_workers = loader(graph(), num_logical_shards=4, num_workers=num_workers)
        assert given([with_workers], 11) == alone[:11]
        state = with_workers.state_dict()
        with_workers.close()
        resumed = loader(graph(), num_workers=3)
        resumed.load_state_dict(state)
        assert given([resumed], 13) == alone[11:]
        resumed.close()


def test_threads_that_read_ahead_change_neither_batches_nor_states_nor_counts(loader: Loader) -> None:
    def run(threads: int, **options: Any) -> GrainDataLoader:
        read_options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=2 * threads)
        packed = FirstFitPackingConfig(dataset=cropped())
        return loader(packed, read_options=read_options, num_prefetch_batches=0, **options)

    plain, ahead = (run(threads, num_logical_shards=2) for threads in (0, 3))
    assert given([plain], 9) == given([ahead], 9)
    assert plain.ledger == ahead.ledger
    state = ahead.state_dict()
    assert state == plain.state_dict()
    ahead.close()
    resumed = run(4)
    resumed.load_state_dict(state)
    assert given([resumed], 9) == given([plain], 9)
    resumed.close()
    assert "torchpipe rows" not in {thread.name for thread in threading.enumerate()}


def test_a_part_whose_state_is_missing_is_read_again(loader: Loader, capsys: pytest.CaptureFixture[str]) -> None:
    whole = given([loader(cropped(), num_logical_shards=2)], 30)
    first = [loader(cropped(), rank=rank, world_size=2) for rank in range(2)]
    start = given(first, 7)
    resumed = loader(cropped())
    resumed.load_state_dict(first[0].state_dict())  # of one rank alone
    assert [*start, *given([resumed], 9)] == whole[:23]
    assert "1 part of the graph is read again up to batch 14: its state isn't here" in capsys.readouterr().err


@pytest.mark.parametrize("graph", [stream, as_it_is])
def test_a_finite_stream_gives_each_row_once(graph: Any, loader: Loader) -> None:
    for num_logical_shards in (1, 4, 7):
        batches = list(loader(graph(33), repeat=False, shuffle=False, num_logical_shards=num_logical_shards))
        firsts = Counter(int(batch["input"][0]) for batch, _ in batches if batch["num_valid_tokens"])
        assert firsts == Counter(100 * row for row in range(33))


def test_what_became_of_the_rows_is_counted_over_all_parts(loader: Loader) -> None:
    rows = loader(
        ConcatThenSplitPackingConfig(dataset=stream(33)), repeat=False, num_logical_shards=3, num_prefetch_batches=0
    )
    batches = list(rows)
    told = rows.ledger
    assert (told["stream"]["rows_in"], told["stream"]["rows_out"]) == (33, 33)
    packed = told["ConcatThenSplitPackingConfig"]
    assert packed["rows_out"] == sum(bool(batch["num_valid_tokens"]) for batch, _ in batches)
    assert packed["tokens_in"] == packed["tokens_out"] + sum(packed["tokens_left_out"].values())


def test_a_finite_stream_of_several_ranks_needs_them_to_agree(loader: Loader) -> None:
    with pytest.raises(ConfigError, match=r"needs ranks that agree where it does. Call\s.*init_process_group first"):
        iter(loader(stream(), repeat=False, world_size=2))


def test_a_stream_that_ends_where_it_should_repeat_is_an_error(loader: Loader) -> None:
    class Once(Stream):
        def build(self, *, dataset_iteration_policy: Any) -> Numbers:
            return super().build(dataset_iteration_policy=dataclasses.replace(dataset_iteration_policy, repeat=False))

    rows = SingleDatasetConfig(source=Once(5), processor=Consecutive.Config())
    with pytest.raises(DataError, match=r"Part 0 of 1 of the graph has ended, and repeat is True. Its\s+source has to"):
        list(loader(rows))


def test_epochs_of_a_stream_are_not_counted(loader: Loader) -> None:
    with pytest.raises(ConfigError, match="num_epochs=3 has no meaning for a graph that Grain runs"):
        loader(stream(), repeat=False, num_epochs=3)


class TestState:
    def test_is_small(self, loader: Loader) -> None:
        rows = loader(FirstFitPackingConfig(dataset=cropped()))
        list(islice(iter(rows), 9))
        assert len(json.dumps(rows.state_dict())) < 1024
        rows.close()

    @pytest.mark.parametrize(
        ("damage", "sentence"),
        [
            ({"num_logical_shards": 0}, "is of 0 logical shards"),
            ({"parts": '{"0":7}'}, "has a part '0' that stands at 7"),
            ({"parts": "7"}, "has parts '7', which can't be read"),
            ({"parts": "[" * 100_000}, "has parts .*, which can't be read"),
            ({"parts": '{"0":[1,{}]}'}, "Part 0 of the graph can't go on from its state {}"),
            ({"way": "planned"}, "ran as a plan, from a store, and now it runs by Grain"),
        ],
    )
    def test_that_is_damaged_is_a_sentence(self, damage: dict[str, Any], sentence: str, loader: Loader) -> None:
        rows = loader(cropped())
        next(iter(rows))
        state = rows.state_dict()
        rows.close()
        other = loader(cropped())

        def resume() -> None:
            other.load_state_dict({**state, **damage})
            next(iter(other))

        with pytest.raises(LoaderStateError, match=sentence):
            resume()

    def test_of_another_source_is_refused_by_its_name(self, loader: Loader) -> None:
        state = loader(cropped(60)).state_dict()
        with pytest.raises(LoaderStateError, match="cropped gives other samples, for its source changed"):
            loader(cropped(61)).load_state_dict(state)

    def test_of_two_moments_can_not_be_merged(self, loader: Loader) -> None:
        rows = loader(cropped())
        states = [rows.state_dict()]
        next(iter(rows))
        with pytest.raises(LoaderStateError, match="batch is 0 and 1"):
            merged_states([*states, rows.state_dict()])
        rows.close()
