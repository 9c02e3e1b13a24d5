"""Stores are built once, the same by any number of processes, and refuse what can't be stored."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from torchpipe.data.label_lists import labelled
from torchpipe.errors import ConfigError, DataError, SourceError, StoreError
from torchpipe.store import TokenStore
from torchpipe.store.accounts import checked_ledger, ledger_of, sample_counts
from torchpipe.store.build import build_store
from torchpipe.store.rows import RowSamples


def test_a_store_holds_what_the_rows_give(toy: SimpleNamespace, tmp_path: Path) -> None:
    store = build_store(toy.ToyRecipe(), cache_dir=tmp_path, num_proc=2, shard_rows=64)
    rows = toy.ToyRecipe().open()
    expected = [
        (row, labelled(sample))
        for row in range(rows.num_rows)
        if not isinstance(made := rows.samples_of(row), str)
        for sample in made
    ]
    assert store.rows.tolist() == [row for row, _ in expected]
    for index, (_, sample) in enumerate(expected):
        found = store.sample(index)
        assert found["tokens"].tolist() == sample["tokens"]
        assert found["labels"].tolist() == sample["labels"]


def test_any_number_of_processes_writes_the_same_bytes(
    toy: SimpleNamespace, tmp_path: Path, bytes_of: Callable[[Path], dict[str, str]]
) -> None:
    written = [
        bytes_of(build_store(toy.ToyRecipe(), cache_dir=tmp_path / str(n), num_proc=n, shard_rows=32).path)
        for n in (1, 2, 3)
    ]
    assert written[0] == written[1] == written[2]
    assert len(written[0]) > 10 * 8


def test_a_store_that_is_there_is_opened_without_opening_a_row(toy: SimpleNamespace, tmp_path: Path) -> None:
    class Unopened(toy.ToyRecipe):
        def open(self):
            raise AssertionError("rows were opened")

    built = build_store(toy.ToyRecipe(), cache_dir=tmp_path)
    assert build_store(Unopened(), cache_dir=tmp_path).digest == built.digest


@pytest.mark.parametrize(("vocab_size", "dtype"), [(65_536, np.uint16), (65_537, np.uint32), (None, np.uint32)])
def test_tokens_take_two_bytes_where_the_vocabulary_fits(
    toy: SimpleNamespace, tmp_path: Path, vocab_size: int | None, dtype: type
) -> None:
    store = build_store(toy.ToyRecipe(vocab_size=vocab_size), cache_dir=tmp_path)
    assert {shard.array("tokens").dtype.type for shard in store.shards} == {dtype}


def test_a_token_beyond_a_small_vocabulary_names_its_row(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Row 9285 of toys: it has a token id from 65,536 on; the tokenizer's"):
        build_store(Beyond(), cache_dir=tmp_path, shard_rows=10_000)


class Beyond(RowSamples):
    """Two bytes are promised, and a row breaks the promise."""

    name = "toys"
    num_rows = 9_300
    vocab_size = 65_000

    def key_fields(self) -> dict[str, str]:
        return {"source": "toys"}

    def open(self):
        return self

    def samples_of(self, row: int):
        return [{"tokens": [65_536 if row == 9285 else 1], "mask": [False]}]


def test_every_row_is_accounted_for(toy: SimpleNamespace, tmp_path: Path) -> None:
    store = build_store(toy.ToyRecipe(), cache_dir=tmp_path, num_proc=2, shard_rows=64)
    ledger = ledger_of(store.shards)
    ledger.check(num_rows=300)
    filtered = [row for row in range(300) if row % 11 == 10]
    too_long = [row for row in range(300) if row % 17 == 16 and row % 11 != 10]
    assert ledger.left_out["filtered"].tolist() == filtered
    assert ledger.left_out["too_long"].tolist() == too_long
    assert ledger.describe() == (
        f"300 rows read, {300 - len(filtered) - len(too_long)} stored; {len(filtered)} left out by filter_fn; "
        f"{len(too_long)} left out longer than max_seq_len"
    )
    counts = sample_counts(store)
    assert (counts.rows, counts.tokens) == (store.num_samples, store.num_tokens)
    assert counts.filtered_rows == len(filtered)
    assert counts.truncated_tokens > counts.truncated_rows > 0
    assert counts.split_rows == len(ledger.remarks["split"]) > 0
    assert counts.digest == store.digest


@pytest.mark.parametrize("num_proc", [1, 2, 3])
def test_the_first_bad_row_is_named_whatever_num_proc(toy: SimpleNamespace, tmp_path: Path, num_proc: int) -> None:
    recipe = toy.ToyRecipe(bad_rows=(290, 211, 250, 130), num_rows=300)
    with pytest.raises(DataError, match=r"^Row 130 of toys: it is bad\.$"):
        build_store(recipe, cache_dir=tmp_path, num_proc=num_proc, shard_rows=20)


def test_a_bad_row_leaves_finished_shards(toy: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Row 130"):
        build_store(toy.ToyRecipe(bad_rows=(130,)), cache_dir=tmp_path, num_proc=2, shard_rows=20)
    (folder,) = (tmp_path / "store").glob("*/shards")
    assert {"00000", "00001", "00002"} <= {shard.name for shard in folder.iterdir()}


def test_the_users_own_exception_is_raised(toy: SimpleNamespace, tmp_path: Path) -> None:
    class Strange(Exception):  # noqa: N818
        def __init__(self, row: int, why: str) -> None:  # such an exception can't be copied to another process
            super().__init__(f"{row}: {why}")

    class Rows(toy.ToyRows):
        def samples_of(self, row: int):
            if row == 77:
                raise Strange(row, "no")
            return super().samples_of(row)

    class Recipe(toy.ToyRecipe):
        def open(self):
            return Rows(self)

    with pytest.raises(Strange, match="77: no") as caught:
        build_store(Recipe(), cache_dir=tmp_path, num_proc=2, shard_rows=20)
    assert any(entry.name == "samples_of" for entry in caught.traceback)


def test_a_killed_worker_is_told_and_its_finished_shards_stay(toy: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match=r"worker process was killed by signal 9 while it tokenised rows 120 to 139 of toys.*memory"
    ):
        build_store(toy.ToyRecipe(killed_at=130), cache_dir=tmp_path, num_proc=2, shard_rows=20)
    (folder,) = (tmp_path / "store").glob("*/shards")
    kept = {path: path.stat().st_mtime_ns for path in folder.glob("[0-9]*/shard.json")}
    assert len(kept) >= 3
    build_store(toy.ToyRecipe(), cache_dir=tmp_path, num_proc=2, shard_rows=20)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


def test_a_filter_that_keeps_nothing_is_refused_and_nothing_is_published(toy: SimpleNamespace, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(SourceError, match="filter_fn kept none of the 300 rows of toys"):
            build_store(toy.ToyRecipe(keeps=False), cache_dir=tmp_path)


def test_rows_without_samples_make_an_empty_store(toy: SimpleNamespace, tmp_path: Path) -> None:
    class Rows(toy.ToyRows):
        def samples_of(self, row: int):
            return "too_long"

    class Recipe(toy.ToyRecipe):
        def open(self):
            return Rows(self)

    store = build_store(Recipe(), cache_dir=tmp_path)
    assert (store.num_samples, store.num_tokens) == (0, 0)
    assert sample_counts(store).too_long_rows == 300


def test_a_miss_names_what_changed(toy: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build_store(toy.ToyRecipe(), cache_dir=tmp_path)
    assert capsys.readouterr().err == ""
    build_store(toy.ToyRecipe(extra="another"), cache_dir=tmp_path)
    assert capsys.readouterr().err == "toys: no store for these settings yet; the nearest one differs in 'extra'\n"
    build_store(toy.ToyRecipe(name="others"), cache_dir=tmp_path)
    build_store(toy.ToyRecipe(extra="another"), cache_dir=tmp_path)
    assert capsys.readouterr().err == ""


def test_only_one_rank_of_a_machine_speaks(
    toy: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    build_store(toy.ToyRecipe(), cache_dir=tmp_path)
    monkeypatch.setenv("LOCAL_RANK", "1")
    build_store(toy.ToyRecipe(extra="another"), cache_dir=tmp_path)
    assert capsys.readouterr().err == ""


def test_a_damaged_leftover_is_made_anew(
    toy: SimpleNamespace, tmp_path: Path, bytes_of: Callable[[Path], dict[str, str]]
) -> None:
    whole = build_store(toy.ToyRecipe(), cache_dir=tmp_path, shard_rows=64).path
    before = bytes_of(whole)
    (whole / "manifest.json").unlink()
    (whole / "shards" / "00001" / "tokens.npy").write_bytes(b"")
    (whole / "shards" / "00002" / "shard.json").unlink()
    (whole / "shards" / ".00003.0.tmp").mkdir()
    assert bytes_of(build_store(toy.ToyRecipe(), cache_dir=tmp_path, shard_rows=64).path) == before


def test_a_source_that_changes_while_it_is_read_is_refused(toy: SimpleNamespace, tmp_path: Path) -> None:
    class Changing(toy.ToyRecipe):
        asked = 0

        def key_fields(self):
            type(self).asked += 1
            return {**super().key_fields(), "source.stamp": str(self.asked)}

    with pytest.raises(StoreError, match="toys or what it is tokenised with changed meanwhile"):
        build_store(Changing(), cache_dir=tmp_path)


def test_what_has_no_key_is_stored_for_this_run_with_one_warning(toy: SimpleNamespace, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="for this run alone") as caught:
        store = build_store(toy.ToyRecipe(has_key=False), cache_dir=tmp_path, num_proc=2)
    assert [str(one.message) for one in caught] == [
        "toys is tokenised for this run alone, since it can't be told whether the next one could use it: toys are made "
        "of the module random."
    ]
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="for this run alone"):
        other = build_store(toy.ToyRecipe(has_key=False), cache_dir=tmp_path)
    assert store.path != other.path


def test_a_temporary_store_is_removed_at_exit_and_after_a_kill(tmp_path: Path, start_build: Callable) -> None:
    killed = start_build(tmp_path, has_key=False, seconds_a_row=1, num_proc=1)
    while not (left := [path for path in (tmp_path / "store").glob("run-*") if path.is_dir()]):
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    assert left[0].exists()
    process = start_build(tmp_path, has_key=False)
    assert process.wait(60) == 0, process.said()
    assert process.folder().name.startswith("run-")
    assert list((tmp_path / "store").glob("run-*")) == []


def test_ranks_of_one_launch_share_a_temporary_store(tmp_path: Path, start_build: Callable) -> None:
    ranks = [
        start_build(tmp_path, has_key=False, env={"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"}) for rank in (1, 0)
    ]
    assert [rank.wait(60) for rank in ranks] == [0, 0]
    assert ranks[0].folder() == ranks[1].folder()
    assert [rank.said().count("UserWarning") for rank in ranks] == [0, 1]


@pytest.mark.parametrize("name", ["num_proc", "shard_rows"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5])
def test_numbers_that_are_none_are_refused(toy: SimpleNamespace, tmp_path: Path, name: str, value: object) -> None:
    options: dict = {name: value}
    with pytest.raises(ConfigError, match=f"{name} is {value!r}. Give a whole number above 0"):
        build_store(toy.ToyRecipe(), cache_dir=tmp_path, **options)


def test_the_cache_is_where_the_environment_says(
    toy: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("TORCHPIPE_CACHE", raising=False)
    assert build_store(toy.ToyRecipe()).path.parent == tmp_path / "xdg" / "torchpipe" / "store"
    monkeypatch.setenv("TORCHPIPE_CACHE", str(tmp_path / "own"))
    assert build_store(toy.ToyRecipe()).path.parent == tmp_path / "own" / "store"


def test_a_store_says_what_it_was_made_of(toy: SimpleNamespace, tmp_path: Path) -> None:
    path = build_store(toy.ToyRecipe(), cache_dir=tmp_path, shard_rows=64).path
    key = json.loads((path / "key.json").read_text())
    assert {"source": "toys", "source.rows": "300", "shard_rows": "64"}.items() <= key.items()
    assert TokenStore.open(path).key == key


def test_no_warning_is_left_over(toy: SimpleNamespace, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_store(toy.ToyRecipe(), cache_dir=tmp_path, num_proc=3, shard_rows=20)


def test_a_ledger_is_checked_by_its_ids_and_against_the_manifest(toy: SimpleNamespace, tmp_path: Path) -> None:
    store = build_store(toy.ToyRecipe(), cache_dir=tmp_path, shard_rows=64)
    sizes = checked_ledger(store)
    assert sizes == ledger_of(store.shards).as_counts()
    assert sizes["read"] == store.num_rows
    store.ledger["stored"] += 1
    with pytest.raises(StoreError, match=f"its manifest counts {sizes['stored'] + 1} rows as stored, and its shards"):
        checked_ledger(store)
