"""Shards are used in order while the store is built."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from torchpipe.errors import DataError, SourceError, StoreError
from torchpipe.store.build import build_store
from torchpipe.store.by_shard import GrowingStore


def test_its_shards_are_those_of_the_whole_store(toy: SimpleNamespace, tmp_path: Path) -> None:
    whole = build_store(toy.ToyRecipe(), cache_dir=tmp_path / "whole", shard_rows=40)
    with GrowingStore(toy.ToyRecipe(), cache_dir=tmp_path / "grown", num_proc=2, shard_rows=40) as growing:
        assert (growing.num_shards, growing.num_rows) == (8, 300)
        shards = list(growing)
        grown = growing.whole()
    assert grown.digest == whole.digest
    assert np.concatenate([shard.lengths for shard in shards]).tolist() == whole.lengths.tolist()
    assert np.concatenate([shard.rows for shard in shards]).tolist() == whole.rows.tolist()
    sample = shards[3].sample(2)
    index = sum(shard.num_samples for shard in shards[:3]) + 2
    assert sample["tokens"].tolist() == whole.sample(index)["tokens"].tolist()


def test_a_shard_is_there_before_the_store_is(toy: SimpleNamespace, tmp_path: Path) -> None:
    recipe = toy.ToyRecipe(seconds_a_row=0.02)
    with GrowingStore(recipe, cache_dir=tmp_path, num_proc=1, shard_rows=10) as growing:
        first = growing.shard(0)
        assert not growing.is_published
        assert first.rows.tolist() == [row for row in first.rows.tolist() if row < 10]


def test_a_finished_store_is_used_at_once(toy: SimpleNamespace, tmp_path: Path) -> None:
    class Unopened(toy.ToyRecipe):
        def open(self):
            raise AssertionError("rows were opened")

    built = build_store(toy.ToyRecipe(), cache_dir=tmp_path, shard_rows=40)
    growing = GrowingStore(Unopened(), cache_dir=tmp_path, shard_rows=40)
    assert growing.is_published
    assert sum(shard.num_samples for shard in growing) == built.num_samples


def test_the_builders_error_comes_where_its_shard_is_waited_for(toy: SimpleNamespace, tmp_path: Path) -> None:
    with GrowingStore(toy.ToyRecipe(bad_rows=(130,)), cache_dir=tmp_path, num_proc=2, shard_rows=20) as growing:
        seen = []
        with pytest.raises(DataError, match=r"^Row 130 of toys: it is bad\.$"):
            seen += [shard.num_samples for shard in growing]
        with pytest.raises(DataError, match="Row 130"):
            growing.shard(6)  # the one after it may be finished by then


def test_what_refuses_the_whole_store_comes_at_the_end(toy: SimpleNamespace, tmp_path: Path) -> None:
    with (
        GrowingStore(toy.ToyRecipe(keeps=False), cache_dir=tmp_path, shard_rows=100) as growing,
        pytest.raises(SourceError, match="filter_fn kept none of the 300 rows"),
    ):
        list(growing)


@pytest.fixture
def new_children() -> Callable[[], list[str]]:
    """Function () -> the processes that this one has started since the test began."""
    before = children()
    return lambda: [child for child in children() if child not in before]


def test_a_killed_builder_is_told_and_the_next_goes_on(
    toy: SimpleNamespace, tmp_path: Path, new_children: Callable[[], list[str]]
) -> None:
    recipe = toy.ToyRecipe(seconds_a_row=0.01)
    with GrowingStore(recipe, cache_dir=tmp_path, num_proc=1, shard_rows=20) as growing:
        growing.shard(1)
        (builder,) = map(int, new_children())
        os.kill(builder, signal.SIGKILL)
        with pytest.raises(
            StoreError, match=r"process that tokenises toys ended with code -9.*Finished shards are kept"
        ):
            growing.whole()
    with GrowingStore(recipe, cache_dir=tmp_path, num_proc=2, shard_rows=20) as growing:
        assert len(list(growing)) == 15


def test_closing_ends_the_builder_and_its_workers(
    toy: SimpleNamespace, tmp_path: Path, new_children: Callable[[], list[str]]
) -> None:
    growing = GrowingStore(toy.ToyRecipe(seconds_a_row=5.0), cache_dir=tmp_path, num_proc=2, shard_rows=20)
    while not (builder := new_children()) or len(workers := children(int(builder[0]))) < 2:
        time.sleep(0.01)
    growing.close()
    while any(Path(f"/proc/{worker}").exists() for worker in workers):
        time.sleep(0.01)
    growing.close()


def test_another_rank_uses_the_first_ones_builder(
    toy: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_children: Callable[[], list[str]]
) -> None:
    recipe = toy.ToyRecipe(seconds_a_row=0.005)
    with GrowingStore(recipe, cache_dir=tmp_path, num_proc=1, shard_rows=20) as first:
        monkeypatch.setenv("LOCAL_RANK", "1")
        second = GrowingStore(recipe, cache_dir=tmp_path, num_proc=1, shard_rows=20)
        assert [shard.digest for shard in second] == [shard.digest for shard in first]
        assert len(new_children()) <= 1


def test_a_shard_that_is_none_is_refused(toy: SimpleNamespace, tmp_path: Path) -> None:
    build_store(toy.ToyRecipe(), cache_dir=tmp_path, shard_rows=40)
    with pytest.raises(IndexError, match="Shard 8 was asked for, and the store of toys has 8"):
        GrowingStore(toy.ToyRecipe(), cache_dir=tmp_path, shard_rows=40).shard(8)


def children(process: int | None = None) -> list[str]:
    process = process or os.getpid()
    return [
        child for task in Path(f"/proc/{process}/task").iterdir() for child in (task / "children").read_text().split()
    ]
