"""Graphs that are planned: each row once, the same rows for any number of ranks and workers, resumed to the bit."""

import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest
import torch

from torchpipe.errors import ConfigError, DataError, LoaderStateError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetConcatConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    SampleProcessor,
    SingleDatasetConfig,
    TextCollator,
    TextSequence,
    WeightedDataset,
)
from torchpipe.pipeline.planned.batches import PlannedBatches
from torchpipe.pipeline.planned.graph import PlannedGraph
from torchpipe.pipeline.planned.row_steps import ROW_BITS, Cursor, RowSteps

Loader = Callable[..., GrainDataLoader]
Batch = tuple[dict[str, Any], torch.Tensor]


class Counting(SampleProcessor):
    """A row ``[first, tokens]`` to that many consecutive ids; of one token, nothing."""

    def __call__(self, sample: Sequence[int], rng: np.random.Generator) -> TextSequence | None:
        first, num_tokens = sample
        if num_tokens < 2:
            return None
        ids = np.arange(first, first + num_tokens)
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])

    def fingerprint(self) -> str:
        return "consecutive ids"


class Picky(Counting):
    """Refuses rows of other lengths."""

    def __call__(self, sample: Sequence[int], rng: np.random.Generator) -> TextSequence | None:
        if len(sample) != 2:
            raise DataError("Two numbers are wanted.")
        return super().__call__(sample, rng)

    def fingerprint(self) -> str:
        return "consecutive ids of two numbers"


def rows_of(number: int, *, first: int = 0, longest: int = 30) -> list[list[int]]:
    return [[first + 100 * row, 1 + row * 7 % longest] for row in range(number)]


def single(number: int, **options: Any) -> SingleDatasetConfig:
    name = options.pop("name", None)
    return SingleDatasetConfig(source=rows_of(number, **options), processor=Counting.Config(), name=name)


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """Makes a loader of a graph, whose stores are this test's."""

    def make(dataset: Any, *, rank: int = 0, world_size: int = 1, length: int = 64, **options: Any) -> GrainDataLoader:
        config = GrainDataLoader.Config(
            dataset=dataset, cache_dir=str(tmp_path), num_proc=1, **{"planned": True, "repeat": False, **options}
        )
        return config.build(
            tokenizer=None,
            max_context_length=length,
            num_tokens_per_batch=length,
            dp_rank=rank,
            dp_world_size=world_size,
        )

    return make


def pairs(batches: Sequence[Batch]) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for batch, labels in batches:
        trained = labels != -100
        found.update(zip(batch["input"][trained].tolist(), labels[trained].tolist(), strict=True))
    return found


def pairs_of_rows(rows: Sequence[Sequence[int]]) -> Counter[tuple[int, int]]:
    return Counter((token, token + 1) for first, number in rows for token in range(first, first + number - 1))


def in_run_order(by_rank: Sequence[Sequence[Batch]]) -> list[Batch]:
    return [batch for tick in zip(*by_rank, strict=True) for batch in tick]


def equal(one: Sequence[Batch], two: Sequence[Batch]) -> bool:
    return len(one) == len(two) and all(
        torch.equal(a[1], b[1]) and a[0].keys() == b[0].keys() and torch.equal(a[0]["input"], b[0]["input"])
        for a, b in zip(one, two, strict=True)
    )


def without_padding(batches: Sequence[Batch]) -> list[Batch]:
    return [batch for batch in batches if not batch[0]["padding_mask"].all()]


GRAPHS = {
    "unpacked": lambda rows: rows,
    "first fit": lambda rows: FirstFitPackingConfig(dataset=rows),
    "concatenated": lambda rows: ConcatThenSplitPackingConfig(dataset=rows, last_row="pad"),
}


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=list(GRAPHS))
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 8])
def test_every_row_is_there_once_and_all_ranks_end_together(graph: Any, world_size: int, loader: Loader) -> None:
    by_rank = [list(loader(graph(single(103)), rank=rank, world_size=world_size)) for rank in range(world_size)]
    assert len({len(batches) for batches in by_rank}) == 1
    assert pairs(in_run_order(by_rank)) == pairs_of_rows(rows_of(103))
    assert all(batch["num_valid_tokens"] == int((labels != -100).sum()) for batch, labels in in_run_order(by_rank))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_103_rows_over_4_ranks_and_3_workers_each_are_there_once(loader: Loader) -> None:
    by_rank = [list(loader(single(103, longest=20), rank=rank, world_size=4, num_workers=3)) for rank in range(4)]
    assert [len(batches) for batches in by_rank] == [25] * 4  # 5 rows have one token, and become nothing
    assert pairs(in_run_order(by_rank)) == pairs_of_rows(rows_of(103, longest=20))


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_batches_do_not_depend_on_the_number_of_workers(num_workers: int, loader: Loader) -> None:
    graph = FirstFitPackingConfig(dataset=single(60))
    assert equal(list(loader(graph, num_workers=num_workers)), list(loader(graph, num_prefetch_batches=0)))


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


def test_threads_that_ask_for_rows_at_once_get_the_same_ones(loader: Loader) -> None:
    def places(graph: PlannedGraph) -> list[int]:
        steps = RowSteps(graph.num_rows, start=Cursor(0, 0), num_epochs=None, global_batch_size=3)
        with ThreadPoolExecutor(8) as pool:
            return [int(row) for found in pool.map(lambda step: steps.packs(0, step), range(200)) for row in found]

    rows = loader(FirstFitPackingConfig(dataset=single(9)), repeat=True)
    assert isinstance(rows.rows, PlannedBatches)
    sizes = [len(rows.rows.graph.rows(epoch)) for epoch in range(600)]
    expected = [epoch << ROW_BITS | row for epoch, size in enumerate(sizes) for row in range(size)]
    for _ in range(5):
        assert places(rows.rows.graph) == expected[:600]


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


def test_rows_are_in_their_order_without_shuffle(loader: Loader) -> None:
    found = [batch["input"][0].item() for batch, _ in loader(single(6, longest=5), shuffle=False)]
    assert found == [first for first, number in rows_of(6, longest=5) if number > 1]


def test_what_stands_beside_a_source_does_not_change_its_order(loader: Loader) -> None:
    def order(*names: str) -> list[int]:
        children = tuple(
            WeightedDataset(dataset=single(20, first=10_000 * "abc".index(name), longest=9), name=name)
            for name in names
        )
        rows = [int(batch["input"][0]) for batch, _ in loader(DatasetMixConfig(datasets=children, stop="all"))]
        return [row for row in dict.fromkeys(rows) if row < 10_000]

    assert order("a", "b") == order("c", "a", "b")


@pytest.mark.parametrize("by", ["rows", "tokens", "trained_tokens"])
def test_a_mix_serves_what_its_weights_ask_for(by: Any, loader: Loader) -> None:
    mix = DatasetMixConfig(
        datasets=(
            WeightedDataset(dataset=single(400, longest=30), weight=3, name="long"),
            WeightedDataset(dataset=single(400, first=10**6, longest=9), weight=1, name="short"),
        ),
        by=by,
    )
    rows = loader(FirstFitPackingConfig(dataset=mix))
    batches = list(rows)
    shares = rows.ledger["DatasetMixConfig"]
    assert shares["long"]["served"] == pytest.approx(0.75, abs=0.01)
    if by != "rows":
        tokens = Counter(int(token >= 10**6) for token, _ in pairs(batches).elements())
        assert tokens[0] / tokens.total() == pytest.approx(0.75, abs=0.01)


@pytest.mark.filterwarnings("ignore:Left out of the mix")
@pytest.mark.parametrize("sizes", [[0, 2, 1], [3, 4, 3]])
def test_a_mix_of_a_few_rows_gives_each_of_them(sizes: list[int], loader: Loader) -> None:
    rows = [[[100 * (10 * child + row), 5] for row in range(size)] for child, size in enumerate(sizes)]
    mix = DatasetMixConfig(
        datasets=tuple(
            WeightedDataset(dataset=SingleDatasetConfig(source=own, processor=Counting.Config())) for own in rows
        ),
        stop="all",
    )
    found = pairs(list(loader(mix)))
    assert found.keys() == pairs_of_rows([row for own in rows for row in own]).keys()


def test_a_child_three_times_in_a_concatenation_gives_its_rows_three_times(loader: Loader) -> None:
    child = single(10)
    found = pairs(list(loader(DatasetConcatConfig(datasets=(child, child, single(5, first=10**5), child)))))
    thrice = {pair: 3 * count for pair, count in pairs_of_rows(rows_of(10)).items()}
    assert found == Counter(thrice) + pairs_of_rows(rows_of(5, first=10**5))


def test_equal_sources_of_any_name_share_a_store(loader: Loader, tmp_path: Path) -> None:
    parts = (single(10), single(10), single(10, name="again"))
    for graph in (DatasetConcatConfig(datasets=parts), single(10, name="renamed")):
        planned = loader(graph)
        assert isinstance(planned.rows, PlannedBatches)
        assert len(planned.rows.graph.stores) == 1
        assert pairs(list(planned)).keys() == pairs_of_rows(rows_of(10)).keys()
    assert len(list(tmp_path.glob("store/*/manifest.json"))) == 1


def test_errors_of_rows_that_are_left_out_name_their_own_source(loader: Loader, tmp_path: Path) -> None:
    for name in ("one", "two"):
        rows: list[Any] = [*rows_of(5), [3, 2, 1]]
        source = SingleDatasetConfig(
            source=rows,
            processor=Picky.Config(),
            on_error="quarantine",
            quarantine_file=str(tmp_path / f"{name}.jsonl"),
            name=name,
        )
        loader(source)
        refused = json.loads((tmp_path / f"{name}.jsonl").read_text(encoding="utf-8"))
        assert (refused["source"], refused["error"]) == (name, f"Row 5 of {name}: Two numbers are wanted.")


def test_packs_of_mixed_packs_hold_each_token_once(loader: Loader) -> None:
    halves = [FirstFitPackingConfig(dataset=single(40, first=10**5 * part)) for part in range(2)]
    mix = DatasetMixConfig(datasets=tuple(WeightedDataset(dataset=half) for half in halves), stop="all")
    found = pairs(list(loader(ConcatThenSplitPackingConfig(dataset=mix, last_row="pad"))))
    expected = pairs_of_rows(rows_of(40)) + pairs_of_rows(rows_of(40, first=10**5))
    assert found.keys() == expected.keys()


def test_documents_of_a_row_begin_at_position_0_and_padding_is_marked(loader: Loader) -> None:
    (batch, labels), *_ = loader(FirstFitPackingConfig(dataset=single(9, longest=20)), shuffle=False)
    begins = torch.nonzero(batch["positions"] == 0).flatten().tolist()
    kept = [int(batch["input"][begin]) for begin in begins if not batch["padding_mask"][begin]]
    assert len(kept) > 1
    assert {first % 100 for first in kept} == {0}
    assert (labels[batch["padding_mask"]] == -100).all()


def test_a_row_holds_no_more_documents_than_the_cap(loader: Loader) -> None:
    for graph in (FirstFitPackingConfig, ConcatThenSplitPackingConfig):
        batches = list(loader(graph(dataset=single(60, longest=9)), max_num_documents=3))
        for batch, _ in batches:
            kept = ~batch["padding_mask"]
            assert int((batch["positions"][kept] == 0).sum()) <= 3
            assert len(batch["cu_seqlens"]) == 3 + 1 + 1


@pytest.mark.parametrize(
    ("overflow", "num_tokens"), [("drop", 4 * 9), ("truncate", 4 * 9 + 2 * 16), ("split", 4 * 9 + 2 * 39)]
)
def test_long_documents_go_by_policy_and_are_counted(overflow: Any, num_tokens: int, loader: Loader) -> None:
    rows = [[1000 * row, 10 if row % 3 else 40] for row in range(6)]
    source = SingleDatasetConfig(source=rows, processor=Counting.Config())
    packed = loader(FirstFitPackingConfig(dataset=source, overflow=overflow), length=16)
    assert pairs(list(packed)).total() == num_tokens
    told = packed.ledger["FirstFitPackingConfig"]
    counted = {"drop": ("too_long", 2), "truncate": ("truncated_tokens", 46), "split": ("split", 2)}[overflow]
    assert told[counted[0]] == counted[1]


def test_a_long_document_is_an_error_where_that_is_asked_for(loader: Loader) -> None:
    source = SingleDatasetConfig(source=[[0, 40], [500, 5], [1000, 40]], processor=Counting.Config())
    with pytest.raises(DataError, match=r"2 rows are too long for rows of 16 tokens and documents of 16"):
        loader(FirstFitPackingConfig(dataset=source, overflow="error"), length=16)


def test_what_became_of_every_row_is_counted(loader: Loader) -> None:
    source = SingleDatasetConfig(
        source=rows_of(50), processor=Counting.Config(), pre_filters=(is_even,), post_filters=(is_short,), name="rows"
    )
    ledger = loader(ConcatThenSplitPackingConfig(dataset=source)).ledger
    told = ledger["rows"]
    assert told["read"] == 50 == told["stored"] + told["filtered"] + told["dropped"]
    assert ledger["ConcatThenSplitPackingConfig"]["last_row_tokens"] > 0


def is_even(row: Sequence[int]) -> bool:
    return row[0] // 100 % 2 == 0


def is_short(sequence: TextSequence) -> bool:
    return len(sequence.input_ids) < 20


def test_a_graph_of_empty_sources_is_a_sentence(loader: Loader) -> None:
    with pytest.raises(DataError, match=r"No row is left of the graph \(nothing: it has no rows\)"):
        loader(SingleDatasetConfig(source=[], processor=Counting.Config(), name="nothing"))


def test_a_source_that_is_filtered_out_is_a_sentence_and_is_left_out_of_a_mix(loader: Loader) -> None:
    nothing = SingleDatasetConfig(
        source=rows_of(5), processor=Counting.Config(), pre_filters=(keeps_none,), name="nothing"
    )
    with pytest.raises(DataError, match=r"No row is left of the graph \(nothing: 5 filtered, 5 read\). Check"):
        loader(nothing)
    mix = DatasetMixConfig(datasets=(WeightedDataset(dataset=nothing), WeightedDataset(dataset=single(5))))
    with pytest.warns(UserWarning, match="Left out of the mix DatasetMixConfig, for they have no rows: 'nothing'"):
        assert pairs(list(loader(mix))) == pairs_of_rows(rows_of(5))


def keeps_none(row: Sequence[int]) -> bool:
    return False


def test_fewer_rows_than_ranks_give_the_others_padding(loader: Loader) -> None:
    by_rank = [list(loader(single(2), rank=rank, world_size=4)) for rank in range(4)]
    assert [len(batches) for batches in by_rank] == [1] * 4
    assert [batches[0][0]["num_valid_tokens"] for batches in by_rank] == [7, 0, 0, 0]


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
            ({"way": "grain"}, "ran by Grain, as rows come, and now it runs as a plan"),
        ],
    )
    def test_that_is_damaged_is_a_sentence(self, damage: dict[str, Any], sentence: str, loader: Loader) -> None:
        state = loader(single(20)).state_dict()
        with pytest.raises(LoaderStateError, match=sentence):
            loader(single(20)).load_state_dict({**state, **damage})

    def test_that_is_no_dict_is_a_sentence(self, loader: Loader) -> None:
        state: Any = [1]
        with pytest.raises(LoaderStateError, match="The loader's state is a list. It is the dict of state_dict"):
            loader(single(20)).load_state_dict(state)

    def test_that_is_empty_changes_nothing(self, loader: Loader) -> None:
        rows = loader(single(20))
        rows.load_state_dict({})
        assert len(list(rows)) == 19

    def test_stands_behind_what_was_given_and_not_what_was_made_ready(self, loader: Loader) -> None:
        rows = loader(single(20), num_prefetch_batches=7)
        batches: Iterator[Batch] = iter(rows)
        list(islice(batches, 2))
        assert rows.state_dict()["row"] == 2
        rows.close()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ({"num_workers": -1}, "num_workers is -1. Give a whole number, 0 or more"),
        ({"num_epochs": 0}, "num_epochs is 0. Give a whole number, 1 or more"),
        ({"allow_changed": "seed"}, "allow_changed is 'seed'. Give a list of names"),
        ({"allow_changed": 3}, "allow_changed is 3. Give a list of names"),
        ({"shuffle": "no"}, "shuffle is 'no'. It is one of 'True', 'False'"),
        ({"repeat": "false"}, "repeat is 'false'. It is one of"),
        ({"planned": 1}, "planned is 1. It is one of 'True', 'False', 'None'"),
        ({"read_options": 3}, "read_options is 3. Give a grain.ReadOptions"),
        ({"collator": None}, "collator is None. Give the Config of a Collator, such as"),
        ({"collator": TextCollator}, "collator is <class .*TextCollator'>. Give the Config of a Collator"),
    ],
)
def test_an_option_that_can_not_be_is_named(option: dict[str, Any], sentence: str, loader: Loader) -> None:
    with pytest.raises(ConfigError, match=sentence):
        loader(single(5), **option)


@pytest.mark.parametrize("number", [0, 2.0, True])
@pytest.mark.parametrize("planned", [None, False])
def test_a_batch_has_a_whole_number_of_rows(number: Any, planned: bool | None, loader: Loader) -> None:
    class Several(TextCollator):
        def num_rows_per_batch(self) -> int:
            return number

    with pytest.raises(ConfigError, match=f"num_rows_per_batch of Several gives {number}. It is a whole number"):
        loader(single(5), collator=Several.Config(), planned=planned)


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


def test_two_children_of_a_mix_that_are_given_one_name_are_refused(loader: Loader) -> None:
    with pytest.raises(ConfigError, match="Several are called 'a'. Give each a name of its own"):
        loader(DatasetMixConfig(datasets=[WeightedDataset(dataset=single(3), name="a") for _ in range(2)]))


@pytest.mark.filterwarnings("ignore:some is tokenised for this run alone")
def test_a_row_that_a_data_set_of_grain_left_out_is_no_row(loader: Loader) -> None:
    rows = grain.MapDataset.source(rows_of(9, longest=8)).filter(lambda row: row[0] >= 300)
    found = loader(SingleDatasetConfig(source=rows, processor=Counting.Config(), name="some"))
    assert pairs(list(found)) == pairs_of_rows(rows_of(9, longest=8)[3:])
    assert found.ledger["some"]["empty"] == 3


def test_a_source_without_end_can_not_be_planned(loader: Loader) -> None:
    endless = SingleDatasetConfig(source=grain.MapDataset.source(rows_of(9)).repeat(), name="numbers")
    with pytest.raises(ConfigError, match="can't be planned: numbers has no end: it says that it has 9,223"):
        loader(endless)


def test_a_run_that_repeats_ends_where_no_child_may_be_gone_through_again(loader: Loader) -> None:
    def mixed(**options: Any) -> GrainDataLoader:
        few = WeightedDataset(dataset=single(5, longest=9), name="few", max_epochs=2)
        return loader(DatasetMixConfig(datasets=(few,), stop="all"), repeat=True, **options)

    by_rank = [mixed(rank=rank, world_size=3) for rank in range(3)]
    batches = in_run_order([list(one) for one in by_rank])
    assert pairs(batches) == Counter({pair: 2 * count for pair, count in pairs_of_rows(rows_of(5, longest=9)).items()})
    again = mixed()
    again.load_state_dict(by_rank[1].state_dict())
    assert list(again) == []


@pytest.mark.parametrize("weight", [1, {0: 1, 7: 3}], ids=["steady", "changing"])
@pytest.mark.parametrize("stop", ["first", "all"])
@pytest.mark.parametrize("by", ["rows", "tokens"])
@pytest.mark.parametrize("max_epochs", [0.5, 1, 1.5, 2])
def test_no_row_is_given_more_often_than_its_child_may_be_gone_through(
    max_epochs: float, by: Any, stop: Any, weight: Any, loader: Loader
) -> None:
    few = single(7, longest=40)  # 6 of its rows have tokens, one has none
    mix = DatasetMixConfig(
        datasets=(
            WeightedDataset(dataset=few, max_epochs=max_epochs, weight=weight, name="few"),
            WeightedDataset(dataset=single(4, first=10**5, longest=9), name="more", max_epochs=20),
        ),
        by=by,
        stop=stop,
    )
    firsts = Counter(int(batch["input"][0]) for batch, _ in loader(mix, repeat=True))
    given = [count for first, count in firsts.items() if first < 10**5]
    assert sum(given) == int(max_epochs * 6)
    assert max(given) <= -(-max_epochs // 1)
    assert max_epochs < 1 or (min(given) >= max_epochs // 1 and len(given) == 6)
    assert sum(firsts.values()) - sum(given) == 20 * 3  # one of the others has one token


def test_an_argument_that_there_is_not_is_refused() -> None:
    config: Any = GrainDataLoader.Config(dataset=single(5))
    with pytest.raises(TypeError, match="dp_wold_size"):
        config.build(tokenizer=None, max_context_length=8, num_tokens_per_batch=8, dp_wold_size=2)


def test_a_copy_of_a_plan_for_another_process_has_no_recipes(loader: Loader) -> None:
    planned = loader(single(9, name="a"))
    assert planned.why_not_planned is None
    assert isinstance(planned.rows, PlannedBatches)
    graph = planned.rows.graph
    assert graph.recipes["a"].described_source == "list"
    copied = pickle.loads(pickle.dumps(graph))
    assert copied.recipes == {}
    assert copied.num_rows(0) == graph.num_rows(0)


def test_a_run_without_an_end_ends_where_every_child_of_its_mix_had_its_epochs(loader: Loader) -> None:
    children = (
        WeightedDataset(dataset=single(4, longest=5), max_epochs=2, name="a"),
        WeightedDataset(dataset=single(9, first=10**5, longest=5), max_epochs=1, name="b"),
    )
    graph = DatasetMixConfig(datasets=children, stop="all")
    rows = loader(graph, repeat=True)
    twice = Counter({pair: 2 * count for pair, count in pairs_of_rows(rows_of(4, longest=5)).items()})
    assert pairs(list(rows)) == twice + pairs_of_rows(rows_of(9, first=10**5, longest=5))
    resumed = loader(graph, repeat=True)
    resumed.load_state_dict(rows.state_dict())
    assert list(resumed) == []
