"""Who holds a store: a builder holds its lock file, a reader holds its manifest. Neither is waited for here."""

import fcntl
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchpipe.store.manifest import MANIFEST_JSON


def lock_file(folder: Path) -> Path:
    """The file that a builder of a store locks; beside the store's folder."""
    return folder.with_name(f"{folder.name}.lock")


def hold(owner: object, manifest: Path) -> None:
    """Marks a store as read for as long as ``owner`` lives, so that it isn't pruned under it.

    Readers don't hinder each other. Forked processes share the mark. A file system without locks has no marks.
    """
    try:
        descriptor = os.open(manifest, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # it was there a moment ago; what is read next says what is missing
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return
    weakref.finalize(owner, os.close, descriptor)


@contextmanager
def claimed(folder: Path) -> Iterator[bool]:
    """True where nobody builds or reads the store in a folder; nobody begins to build it until the end either."""
    # Imported here: it is what opening a store would mostly wait for.
    from filelock import FileLock, Timeout

    lock = FileLock(lock_file(folder))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield not _is_read(folder)
    finally:
        lock.release()


def _is_read(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / MANIFEST_JSON, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
