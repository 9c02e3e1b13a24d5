"""Mixes that are planned: shares as the weights ask for, orders of their own, no row more often than it may be."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numbered_graphs import Consecutive, Loader, in_run_order, pairs, pairs_of_rows, rows_of, single

from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline import (
    ConcatThenSplitPackingConfig,
    DatasetConcatConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    GrainDataLoader,
    SingleDatasetConfig,
    TextSequence,
    WeightedDataset,
)
from torchpipe.pipeline.planned.batches import PlannedBatches


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
            WeightedDataset(dataset=SingleDatasetConfig(source=own, processor=Consecutive.Config())) for own in rows
        ),
        stop="all",
    )
    found = pairs(list(loader(mix)))
    assert found.keys() == pairs_of_rows([row for own in rows for row in own]).keys()


def test_packs_of_mixed_packs_hold_each_token_once(loader: Loader) -> None:
    halves = [FirstFitPackingConfig(dataset=single(40, first=10**5 * part)) for part in range(2)]
    mix = DatasetMixConfig(datasets=tuple(WeightedDataset(dataset=half) for half in halves), stop="all")
    found = pairs(list(loader(ConcatThenSplitPackingConfig(dataset=mix, last_row="pad"))))
    expected = pairs_of_rows(rows_of(40)) + pairs_of_rows(rows_of(40, first=10**5))
    assert found.keys() == expected.keys()


@pytest.mark.parametrize("weight", [1e8, 1e300, {0: 1, 2: 1e300}])
def test_a_mix_that_would_go_through_a_source_for_ever_is_refused(weight: Any, loader: Loader) -> None:
    children = (
        WeightedDataset(dataset=single(3), name="a"),
        WeightedDataset(dataset=single(3), name="b", weight=weight),
    )
    with pytest.raises(ConfigError, match="b would be gone through more than 4,194,304 times in an epoch"):
        loader(DatasetMixConfig(datasets=children, stop="all"))


def test_two_children_of_a_mix_that_are_given_one_name_are_refused(loader: Loader) -> None:
    with pytest.raises(ConfigError, match="Several are called 'a'. Give each a name of its own"):
        loader(DatasetMixConfig(datasets=[WeightedDataset(dataset=single(3), name="a") for _ in range(2)]))


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


def test_equal_sources_of_any_name_share_a_store(loader: Loader, tmp_path: Path) -> None:
    parts = (single(10), single(10), single(10, name="again"))
    for graph in (DatasetConcatConfig(datasets=parts), single(10, name="renamed")):
        planned = loader(graph)
        assert isinstance(planned.rows, PlannedBatches)
        assert len(planned.rows.graph.stores) == 1
        assert pairs(list(planned)).keys() == pairs_of_rows(rows_of(10)).keys()
    assert len(list(tmp_path.glob("store/*/manifest.json"))) == 1


class Picky(Consecutive):
    """Refuses rows of other lengths."""

    def __call__(self, sample: Sequence[int], rng: np.random.Generator) -> TextSequence | None:
        if len(sample) != 2:
            raise DataError("Two numbers are wanted.")
        return super().__call__(sample, rng)

    def fingerprint(self) -> str:
        return "consecutive ids of two numbers"


def test_errors_of_rows_that_are_left_out_name_their_own_source(loader: Loader, tmp_path: Path) -> None:
    rows: list[Any] = [*rows_of(5), [3, 2, 1]]
    for name in ("one", "two"):
        file = tmp_path / f"{name}.jsonl"
        options: dict[str, Any] = {"on_error": "quarantine", "quarantine_file": str(file), "name": name}
        loader(SingleDatasetConfig(source=rows, processor=Picky.Config(), **options))
        refused = json.loads(file.read_text(encoding="utf-8"))
        assert (refused["source"], refused["error"]) == (name, f"Row 5 of {name}: Two numbers are wanted.")
