"""A published folder is whole at every moment, whoever is killed and whoever else writes it."""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from torchpipe import _publishing
from torchpipe._publishing import UNFINISHED, replace_folder, whole_folder


def publish(folder: Path, value: int, num_files: int = 6) -> None:
    with whole_folder(folder) as new:
        for number in range(num_files):
            (new / f"{number}.txt").write_text(str(value))


def value_of(folder: Path, num_files: int = 6) -> int:
    """What every file of the folder says; fails where they differ or one is missing."""
    (value,) = {(folder / f"{number}.txt").read_text() for number in range(num_files)}
    return int(value)


def in_children(*actions: Callable[[], None]) -> list[int]:
    """Starts a process for each action; returns their ids."""
    pids = []
    for action in actions:
        if not (pid := os.fork()):
            try:
                action()
            except BaseException:
                os._exit(1)
            os._exit(0)
        pids.append(pid)
    return pids


@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_folder_replaces_an_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool) -> None:
    if not can_exchange:
        monkeypatch.setattr(_publishing, "_exchange", lambda one, other: False)
    for value in range(3):
        publish(tmp_path / "new" / "a", value)
        assert value_of(tmp_path / "new" / "a") == value
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["a"]


def test_nothing_is_left_where_the_writer_raises(tmp_path: Path) -> None:
    publish(tmp_path / "a", 1)

    def fail() -> None:
        with whole_folder(tmp_path / "a") as new:
            (new / "0.txt").write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert value_of(tmp_path / "a") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_folder(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    publish(folder, 0)
    receive, send = os.pipe()

    def write_on() -> None:
        for value in range(1, 10**6):
            publish(folder, value)
            os.write(send, b".")

    left, values = 0, set()
    for kill in range(20):
        (pid,) = in_children(write_on)
        os.read(receive, 1)  # one is written
        start = time.perf_counter()
        os.read(receive, 1)
        took = time.perf_counter() - start  # and another one in this time
        time.sleep(took * kill / 20)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        values.add(value_of(folder))
        left += len(list(tmp_path.glob(f".*{UNFINISHED}")))
        os.set_blocking(receive, False)
        with suppress(BlockingIOError):
            os.read(receive, 2**16)
        os.set_blocking(receive, True)
    assert values - {0}
    assert left > 0  # kills in the middle of writing did happen
    publish(folder, 7)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]  # what they left is removed


@pytest.mark.parametrize("can_exchange", [True, False])
def test_two_writers_of_one_folder_leave_that_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, can_exchange: bool
) -> None:
    if not can_exchange:
        monkeypatch.setattr(_publishing, "_exchange", lambda one, other: False)

    def writer(value: int) -> Callable[[], None]:
        def write() -> None:
            for _ in range(30):
                publish(tmp_path / "a", value)

        return write

    pids = in_children(writer(1), writer(2), writer(3))
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0, 0]
    assert value_of(tmp_path / "a") in (1, 2, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_folder_that_is_being_written_is_no_leftover(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "a") as new:
        publish(tmp_path / "b", 2)
        assert new.is_dir()
        for number in range(6):
            (new / f"{number}.txt").write_text("1")
    assert (value_of(tmp_path / "a"), value_of(tmp_path / "b")) == (1, 2)


def test_a_file_is_not_replaced_by_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    (tmp_path / "new").mkdir()
    with pytest.raises(NotADirectoryError):
        replace_folder(tmp_path / "new", tmp_path / "a")
    assert (tmp_path / "a").read_text() == "mine"
