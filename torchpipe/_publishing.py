"""Folders that are there whole or not at all, even where their writer is killed or another writes the same one."""

import ctypes
import errno
import fcntl
import os
import shutil
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

UNFINISHED = ".unfinished"
"""The ending of a folder that is being written. Its writer holds a lock on it; without one it is a leftover."""

_RENAME_EXCHANGE = 2  # linux/fs.h


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new, empty folder to fill, which becomes ``folder`` in one step at the end, in place of what is there.

    Its files and itself are on the disk before it gets its name. Where the body raises, nothing is left of it; what a
    killed process left beside ``folder`` is removed first. Of two that write the same folder the last one stays, whole.

    Raises:
        OSError: it can't be written; ``folder`` is as it was.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(folder.parent)
    temporary, lock = _locked_folder(folder)
    try:
        yield temporary
        for path in (*temporary.rglob("*"), temporary):
            sync(path)
        replace_folder(temporary, folder)
        sync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def remove_folder(folder: Path) -> None:
    """Removes a folder so that a kill in between leaves nothing under its name; one that is not there is no error."""
    aside = beside(folder, UNFINISHED)
    with suppress(FileNotFoundError):  # another process is removing it too
        os.rename(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)


def beside(path: Path, ending: str) -> Path:
    """A hidden name of its own next to ``path``, on the same file system."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{ending}")


def replace_folder(new: Path, folder: Path) -> None:
    """Gives ``new`` the name ``folder`` and removes what had it.

    On Linux the two change places in one step, so ``folder`` is never absent. Elsewhere the old one steps aside first.
    """
    while True:
        try:
            return os.rename(new, folder)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        if _exchange(new, folder):
            return shutil.rmtree(new, ignore_errors=True)
        remove_folder(folder)


def sync(path: Path) -> None:
    """Returns when the file's bytes, or the folder's names, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Whether the system and this file system could make two paths change places in one step."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    # The folders that relative paths would start from are not looked at for absolute ones.
    paths = [os.fsencode(path.absolute()) for path in (one, other)]
    return rename(-1, paths[0], -1, paths[1], _RENAME_EXCHANGE) == 0


def _locked_folder(folder: Path) -> tuple[Path, int]:
    """A new folder beside ``folder``, and a descriptor that holds its lock."""
    while True:
        temporary = beside(folder, UNFINISHED)
        temporary.mkdir()
        try:
            descriptor = os.open(temporary, os.O_RDONLY)
        except FileNotFoundError:  # taken for a leftover, between the two calls
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # being taken for one
            os.close(descriptor)
            continue
        except OSError:  # a file system without locks: nothing there is ever taken for a leftover
            return temporary, descriptor
        if temporary.exists():
            return temporary, descriptor
        os.close(descriptor)


def _remove_leftovers(parent: Path) -> None:
    for leftover in parent.glob(f".*{UNFINISHED}"):
        with suppress(OSError):  # locked, gone already, or on a file system without locks
            descriptor = os.open(leftover, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(leftover)
            finally:
                os.close(descriptor)
