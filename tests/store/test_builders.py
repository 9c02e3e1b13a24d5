"""Builders that are killed, raced, or have no place to write: one correct store, or a sentence."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from torchpipe.errors import DataError, StoreError
from torchpipe.store import TokenStore
from torchpipe.store.build import build_store
from torchpipe.store.lock import is_locked

Start = Callable[..., Any]
BytesOf = Callable[[Path], dict[str, str]]

ROWS = {"num_rows": 300, "shard_rows": 10}


def children_of(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in text.split()]


def is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def finished(cache_dir: Path) -> list[Path]:
    return list(cache_dir.glob("store/*/shards/[0-9]*"))


def killed_builds(cache_dir: Path, start_build: Start, num_kills: int, *, seed: int) -> int:
    """Starts and kills builders, each after it has finished some more shards, and returns how many were killed."""
    moments = random.Random(seed)
    kills = 0
    for _ in range(num_kills):
        before = len(finished(cache_dir))
        wanted = min(before + moments.randint(1, 9), 30)  # 30: while it is published
        builder = start_build(cache_dir, num_proc=moments.choice([1, 2, 3]), seconds_a_row=0.001, **ROWS)
        wait_for(
            lambda wanted=wanted, builder=builder: len(finished(cache_dir)) >= wanted or builder.poll() is not None
        )
        time.sleep(moments.random() * 0.05)
        builder.kill()
        kills += builder.wait() == -signal.SIGKILL
    return kills


@pytest.mark.sized("num_kills", "killed_builders")
def test_a_store_is_the_same_after_builders_were_killed(
    tmp_path: Path, toy: SimpleNamespace, start_build: Start, bytes_of: BytesOf, num_kills: int
) -> None:
    undisturbed = build_store(toy.ToyRecipe(num_rows=300), cache_dir=tmp_path / "undisturbed", shard_rows=10)
    done = 0
    for attempt in range(num_kills):
        cache_dir = tmp_path / str(attempt)
        killed = killed_builds(cache_dir, start_build, min(3, num_kills - done), seed=attempt)
        done += killed
        kept = {path: path.stat().st_mtime_ns for path in finished(cache_dir)}
        store = build_store(toy.ToyRecipe(num_rows=300), cache_dir=cache_dir, num_proc=2, shard_rows=10)
        assert bytes_of(store.path) == bytes_of(undisturbed.path)
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        TokenStore.open(store.path, verify="full")
        if done >= num_kills:
            break
    assert done >= num_kills


def test_the_bytes_are_the_same_in_each_process(tmp_path: Path, start_build: Start, bytes_of: BytesOf) -> None:
    builds = [start_build(tmp_path / seed, env={"PYTHONHASHSEED": seed}, num_proc=1) for seed in ("1", "2", "3")]
    assert [build.wait(60) for build in builds] == [0, 0, 0]
    written = [bytes_of(build.folder()) for build in builds]
    assert written[0] == written[1] == written[2]


def test_two_builders_at_once_make_one_store(
    tmp_path: Path, toy: SimpleNamespace, start_build: Start, bytes_of: BytesOf
) -> None:
    undisturbed = build_store(toy.ToyRecipe(num_rows=300), cache_dir=tmp_path / "undisturbed", shard_rows=10)
    gate = tmp_path / "gate"
    builders = [start_build(tmp_path / "raced", num_proc=2, gate=str(gate), **ROWS) for _ in range(2)]
    wait_for(lambda: any("waiting" in builder.said() for builder in builders))
    gate.touch()
    assert [builder.wait(60) for builder in builders] == [0, 0]
    folder = builders[0].folder()
    assert folder == builders[1].folder()
    assert sorted(builder.said() for builder in builders) == [
        "",
        f"toys: another process tokenises it; waiting for {folder}\n",
    ]
    assert bytes_of(folder) == bytes_of(undisturbed.path)


def test_workers_die_with_their_builder_and_never_hold_its_lock(tmp_path: Path, start_build: Start) -> None:
    builder = start_build(tmp_path, num_proc=2, seconds_a_row=30.0, **ROWS)
    wait_for(lambda: builder.poll() is not None or len(children_of(builder.pid)) == 2)
    workers = children_of(builder.pid)
    (lock,) = tmp_path.glob("store/*.lock")
    assert is_locked(lock.with_suffix(""))
    for worker in workers:
        wait_for(lambda worker=worker: str(lock) not in open_files(worker))
    assert str(lock) in open_files(builder.pid)
    builder.kill()
    builder.wait()
    assert not is_locked(lock.with_suffix(""))
    wait_for(lambda: not any(is_alive(worker) for worker in workers))


def test_a_builder_in_the_background_dies_with_the_run_and_lets_go_of_its_lock(
    tmp_path: Path, start_build: Start
) -> None:
    run = start_build(tmp_path, grows=True, num_proc=2, gate=str(tmp_path / "never"), **ROWS)
    wait_for(lambda: len(finished(tmp_path)) >= 1)
    (builder,) = children_of(run.pid)
    workers = children_of(builder)
    assert len(workers) == 2
    (lock,) = tmp_path.glob("store/*.lock")
    assert is_locked(lock.with_suffix(""))
    run.kill()
    run.wait()
    wait_for(lambda: not any(is_alive(process) for process in (builder, *workers)))
    assert not is_locked(lock.with_suffix(""))


def open_files(process: int) -> list[str]:
    return [os.readlink(entry) for entry in Path(f"/proc/{process}/fd").iterdir()]


def test_one_who_waits_builds_on_when_the_builder_is_killed(
    tmp_path: Path, toy: SimpleNamespace, start_build: Start, bytes_of: BytesOf
) -> None:
    builder = start_build(tmp_path, num_proc=1, gate=str(tmp_path / "never"), **ROWS)
    wait_for(lambda: len(finished(tmp_path)) >= 1)
    waiting = start_build(tmp_path, num_proc=2, **ROWS)
    wait_for(lambda: "waiting" in waiting.said())
    kept = {path: path.stat().st_mtime_ns for path in finished(tmp_path)}
    builder.kill()
    builder.wait()
    assert waiting.wait(60) == 0
    undisturbed = build_store(toy.ToyRecipe(num_rows=300), cache_dir=tmp_path / "undisturbed", shard_rows=10)
    assert bytes_of(waiting.folder()) == bytes_of(undisturbed.path)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept


BUILD = f"""
import runpy
from torchpipe.store.build import build_store
ToyRecipe = runpy.run_path({str(Path(__file__).with_name("toy_build.py"))!r})["ToyRecipe"]
def told(**options):
    try:
        return str(build_store(options.pop("recipe"), cache_dir=folder, **options).digest)
    except Exception as error:
        return f"{{type(error).__name__}}: {{error}}"
"""


def test_nothing_half_written_is_left_where_a_row_ends_the_build(toy: SimpleNamespace, tmp_path: Path) -> None:
    class Rows(toy.ToyRows):
        def samples_of(self, row: int) -> Any:
            if row == 33:  # as a process does that is ended in the middle of a shard
                (shards,) = tmp_path.glob("store/*/shards")
                (shards / ".00007.0123456789ab.tmp").mkdir(exist_ok=True)
            return super().samples_of(row)

    class Recipe(toy.ToyRecipe):
        def open(self) -> Rows:
            return Rows(self)

    for num_proc in (1, 2):
        with pytest.raises(DataError, match="Row 35 of toys: it is bad"):
            build_store(Recipe(num_rows=40, bad_rows=(35,)), cache_dir=tmp_path, num_proc=num_proc, shard_rows=10)
        assert not list(tmp_path.glob("store/*/shards/.*"))


def test_a_full_disk_is_a_sentence(on_small_disk: Callable[..., str]) -> None:
    code = (
        BUILD
        + """
for num_proc in (1, 2):
    print(told(recipe=ToyRecipe(num_rows=5000), num_proc=num_proc, shard_rows=200))
print([path.name for path in folder.glob("store/*/shards/*") if not path.name.isdigit()])
"""
    )
    *sentences, left = on_small_disk(code, size="256k").splitlines()
    assert left == "[]"
    assert len(sentences) == 2
    for sentence in sentences:
        assert sentence.startswith("StoreError: ")
        assert "can't be written: the disk is full. Free space, or choose another cache_dir" in sentence


def test_a_read_only_cache_is_a_sentence_on_a_miss_and_opened_on_a_hit(on_small_disk: Callable[..., str]) -> None:
    code = BUILD + "print(told(recipe=ToyRecipe()))\n"
    digest, hit, miss = on_small_disk(
        code, then_read_only=code + "print(told(recipe=ToyRecipe(num_rows=9)))"
    ).splitlines()
    assert hit == digest
    assert miss.startswith("StoreError: ")
    assert "can't be written: the file system is read-only. Choose another cache_dir" in miss


def test_a_cache_dir_below_a_file_is_a_sentence(toy: SimpleNamespace, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="can't be written: .*cache_dir"):
        build_store(toy.ToyRecipe(), cache_dir=tmp_path / "file")
