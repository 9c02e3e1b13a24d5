"""The one process that builds a store, and those that wait for it."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from torchpipe._progress import bar, say
from torchpipe.errors import StoreError
from torchpipe.store.publishing import publish_json, writing

PROGRESS_JSON = "building.json"
"""What is known of a store while it is built, for those who wait: its rows, and how many of them a shard takes."""

_POLL_SECONDS = 0.2


def lock_file(folder: Path) -> Path:
    """The file that the builder of a store holds locked."""
    return folder.with_name(f"{folder.name}.lock")


@contextmanager
def builder_lock(folder: Path, name: str) -> Iterator[None]:
    """Held by one process at a time. Others wait, and see how far the one is; its death ends the wait as well.

    Args:
        folder: of the store.
        name: of the source, for messages.

    Raises:
        StoreError: the lock file can't be written, or the file system knows no locks.
    """
    path = lock_file(folder)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            try:
                lock.acquire(timeout=0)
            except Timeout:
                say(f"{name}: another process tokenises it; waiting for {folder}")
                _wait(lock, folder, name)
        except NotImplementedError as error:
            raise StoreError(
                f"{path} can't be locked: its file system has no locks. Choose another cache_dir."
            ) from error
    try:
        yield
    finally:
        lock.release()


def is_locked(folder: Path) -> bool:
    """Whether some process builds the store now."""
    path = lock_file(folder)
    if not path.exists():
        return False
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def let_go_of_lock(path: Path) -> None:
    """Closes a lock file in a forked process, which would otherwise hold the lock for as long as it lives."""
    try:
        held = os.stat(path)
        descriptors = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return  # nothing was inherited: the file is gone, or this system does not fork
    for descriptor in descriptors:
        with suppress(OSError):  # the listing's own descriptor is closed by now
            found = os.fstat(descriptor)
            if (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino):
                os.close(descriptor)


def write_progress(folder: Path, *, num_rows: int, shard_rows: int) -> None:
    """Says to those who wait how much there is to do."""
    publish_json(folder / PROGRESS_JSON, {"num_rows": num_rows, "shard_rows": shard_rows})


def read_progress(folder: Path) -> tuple[int, int] | None:
    """Rows of the store that is being built, and rows a shard; None where nobody has said so yet."""
    try:
        facts = json.loads((folder / PROGRESS_JSON).read_bytes())
        return facts["num_rows"], facts["shard_rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def num_finished_shards(folder: Path) -> int:
    """How many shards are there, in any order."""
    try:
        return sum(name.isdigit() for name in os.listdir(folder / "shards"))
    except OSError:
        return 0


def _wait(lock: FileLock, folder: Path, name: str) -> None:
    """Waits until this process has the lock, with a bar of what the builder has done."""
    while True:
        facts = read_progress(folder)
        num_rows, shard_rows = facts or (0, 0)
        with bar(num_rows, f"Waiting for {name}") as advance:
            seen = 0
            while (facts is not None) == (read_progress(folder) is not None):
                done = min(num_finished_shards(folder) * shard_rows, num_rows)
                advance(done - seen)
                seen = done
                with suppress(Timeout):
                    lock.acquire(timeout=_POLL_SECONDS)
                    return
