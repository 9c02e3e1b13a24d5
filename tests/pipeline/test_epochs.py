"""A loop is told where an epoch ends, and no row is lost or given twice there."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from torchpipe.errors import ConfigError
from torchpipe.pipeline import GrainDataLoader, SampleProcessor, SingleDatasetConfig, TextSequence

Loader = Callable[..., GrainDataLoader]


class OneToken(SampleProcessor):
    """A row to one token."""

    def __call__(self, sample: int, rng: np.random.Generator) -> TextSequence:
        return TextSequence(input_ids=np.array([sample]), labels=np.array([sample]))

    def fingerprint(self) -> str:
        return "one token"


@pytest.fixture
def loader(tmp_path: Path) -> Loader:
    """Function (number of rows, rank=, world_size=, ...) -> a loader of so many rows; row k is token k + 1."""

    def make(number: int, *, rank: int = 0, world_size: int = 1, **options: Any) -> GrainDataLoader:
        rows = SingleDatasetConfig(source=list(range(1, number + 1)), processor=OneToken.Config(), name="rows")
        config = GrainDataLoader.Config(dataset=rows, cache_dir=str(tmp_path), num_proc=1, **options)
        return config.build(
            tokenizer=None, max_context_length=4, num_tokens_per_batch=4, dp_rank=rank, dp_world_size=world_size
        )

    return make


def rows_of(batches: Any) -> list[int]:
    return [int(batch["input"][0]) for batch, _ in batches if not batch["padding_mask"].all()]


def by_epoch(ranks: Sequence[GrainDataLoader]) -> dict[int, list[int]]:
    """The rows of each epoch, of all ranks, tick by tick."""
    found: dict[int, list[int]] = {}
    for given in zip(*(rank.epochs() for rank in ranks), strict=True):
        (epoch,) = {number for number, _ in given}
        found[epoch] = [row for tick in zip(*(batches for _, batches in given), strict=True) for row in rows_of(tick)]
    return found


@pytest.mark.parametrize("options", [{"repeat": False, "num_epochs": 3}, {"num_epochs": 3, "num_prefetch_batches": 0}])
def test_an_epoch_has_each_row_once(options: dict[str, Any], loader: Loader) -> None:
    found = by_epoch([loader(7, **options)])
    assert list(found) == [0, 1, 2]
    assert all(sorted(rows) == [1, 2, 3, 4, 5, 6, 7] for rows in found.values())


def test_an_endless_run_has_one_epoch_after_the_other(loader: Loader) -> None:
    found = []
    for epoch, batches in loader(5).epochs():
        found.append((epoch, sorted(rows_of(batches))))
        if epoch == 3:
            break
    assert found == [(epoch, [1, 2, 3, 4, 5]) for epoch in range(4)]


@pytest.mark.parametrize("world_size", [2, 3, 4])
def test_ranks_agree_on_the_epoch_of_each_batch_which_is_that_of_its_first_row(world_size: int, loader: Loader) -> None:
    whole = rows_of(loader(7, num_epochs=3))
    found = by_epoch([loader(7, num_epochs=3, rank=rank, world_size=world_size) for rank in range(world_size)])
    assert [row for rows in found.values() for row in rows] == whole
    starts = {epoch: -(-7 * epoch // world_size) * world_size for epoch in range(4)}
    assert found == {epoch: whole[starts[epoch] : starts[epoch + 1]] for epoch in range(3)}


def test_an_epoch_within_the_batches_of_one_before_it_is_not_given(loader: Loader) -> None:
    found = by_epoch([loader(3, num_epochs=4, rank=rank, world_size=8) for rank in range(8)])
    assert {epoch: Counter(rows).total() for epoch, rows in found.items()} == {0: 8, 2: 4}


@pytest.mark.parametrize(("before", "after"), [(1, 1), (1, 3), (3, 2)])
def test_a_run_that_goes_on_within_an_epoch_gives_the_rest_of_it(before: int, after: int, loader: Loader) -> None:
    whole = rows_of(loader(11, num_epochs=3))
    first = [loader(11, num_epochs=3, rank=rank, world_size=before) for rank in range(before)]
    each = [iter(one) for one in first]
    given = [row for _ in range(15 // before) for row in rows_of([next(batches) for batches in each])]
    state = json.loads(json.dumps(first[0].state_dict()))
    rest = [loader(11, num_epochs=3, rank=rank, world_size=after) for rank in range(after)]
    for one in rest:
        one.load_state_dict(state)
    found = by_epoch(rest)
    assert list(found) == [1, 2]
    assert given + [row for rows in found.values() for row in rows] == whole


def test_a_loop_that_was_left_goes_on_with_the_rest_of_its_epoch(loader: Loader) -> None:
    rows, found = loader(6, num_epochs=2), []
    for _, batches in rows.epochs():
        found += rows_of([next(batches), next(batches)])
        break
    for epoch, batches in rows.epochs():
        assert (epoch, rows.epoch) in ((0, 0), (1, 1))
        found += rows_of(batches)
    assert found == rows_of(loader(6, num_epochs=2))
    assert list(rows.epochs()) == []


def test_an_epoch_that_is_left_before_its_end_is_not_passed_over(loader: Loader) -> None:
    rows = loader(6, num_epochs=2)
    epochs = rows.epochs()
    _, batches = next(epochs)
    next(batches)
    with pytest.raises(ConfigError, match="Epoch 0 was left before its last batch. Take all of its batches"):
        next(epochs)
    with pytest.raises(ConfigError, match="Epoch 0 was left"):
        list(rows.epochs())
    assert rows.state_dict()["row"] == 1


def test_epochs_of_a_graph_that_grain_runs_are_refused(loader: Loader) -> None:
    with pytest.raises(ConfigError, match=r"Grain runs this graph \(planned is False\), and where its epochs end"):
        loader(5, planned=False, repeat=False).epochs()
