"""The one process that builds a store, and those that wait for it."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from torchpipe._progress import bar, say
from torchpipe.errors import StoreError
from torchpipe.store.in_use import lock_file
from torchpipe.store.publishing import publish_json, writing

ROWS_JSON = "rows.json"
"""Rows of the source, and how many of them a shard takes: written before the first shard, for those who wait."""

POLL_SECONDS = 0.2
"""Between two looks at what another process does."""

_SECONDS_BEFORE_A_WORD = 1.0


@contextmanager
def builder_lock(folder: Path, name: str, *, quiet: bool = False) -> Iterator[None]:
    """Held by one process at a time. Others wait, and see how far the one is; its death ends the wait as well.

    Args:
        folder: of the store.
        name: of the source, for messages.
        quiet: True waits without a word.

    Raises:
        StoreError: the lock file can't be written, or the file system knows no locks.
    """
    from filelock import FileLock, Timeout  # a finished store is opened without it

    path = lock_file(folder)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            try:
                lock.acquire(timeout=_SECONDS_BEFORE_A_WORD)
            except Timeout:
                if not quiet:
                    say(f"{name}: another process tokenises it; waiting for {folder}")
                with progress_of(folder, name, quiet=quiet) as look:
                    while not lock.is_locked:
                        look()
                        with suppress(Timeout):
                            lock.acquire(timeout=POLL_SECONDS)
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
    from filelock import FileLock, Timeout

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


def write_num_rows(folder: Path, *, num_rows: int, shard_rows: int) -> None:
    """Says to those who wait how much there is to do."""
    publish_json(folder / ROWS_JSON, {"num_rows": num_rows, "shard_rows": shard_rows})


def read_num_rows(folder: Path) -> tuple[int, int] | None:
    """Rows of the source and rows a shard; None where no builder has said so yet."""
    try:
        facts = json.loads((folder / ROWS_JSON).read_bytes())
        return facts["num_rows"], facts["shard_rows"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def num_finished_shards(folder: Path) -> int:
    """How many shards are there, in any order."""
    try:
        return sum(name.isdigit() for name in os.listdir(folder / "shards"))
    except OSError:
        return 0


@contextmanager
def progress_of(folder: Path, name: str, *, quiet: bool = False) -> Iterator[Callable[[], None]]:
    """A function that looks how far the builder of a store is, and draws a bar of it."""
    with ExitStack() as stack:
        advance: Callable[[int], None] | None = None
        num_rows = shard_rows = seen = 0

        def look() -> None:
            nonlocal advance, num_rows, shard_rows, seen
            if advance is None:
                facts = read_num_rows(folder)
                if facts is None:
                    return  # the builder still opens the rows
                num_rows, shard_rows = facts
                advance = stack.enter_context(bar(0 if quiet else num_rows, f"Waiting for {name}"))
            done = min(num_finished_shards(folder) * shard_rows, num_rows)
            advance(done - seen)
            seen = done

        yield look
