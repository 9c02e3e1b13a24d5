"""Stores of what can't be told apart by a key: they live as long as the run that made them."""

import atexit
import hashlib
import os
import shutil
import socket
from contextlib import suppress
from itertools import count
from pathlib import Path

from torchpipe.store.in_use import lock_file
from torchpipe.store.lock import is_locked

_PREFIX = "run"
_numbers = count()


def temporary_folder(stores: Path, name: str) -> Path:
    """The folder of a store that this run alone uses, and which is removed when its first rank of a machine exits.

    All ranks that one launcher started on a machine get the same folder from the same call, so that they train on the
    same samples. Folders of runs that are over are removed.

    Args:
        stores: the folder of all stores.
        name: of the source.
    """
    remove_leftovers(stores)
    shared = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))) > 1
    owner = os.getppid() if shared else os.getpid()
    told_apart_by = f"{next(_numbers)} {name} {_start_of(owner)} {os.environ.get('MASTER_PORT', '')}"
    digest = hashlib.blake2b(told_apart_by.encode(), digest_size=8).hexdigest()
    folder = stores / f"{_PREFIX}-{socket.gethostname()}-{owner}-{digest}"
    if os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) == "0":
        atexit.register(_remove, folder, os.getpid())
    return folder


def remove_leftovers(stores: Path) -> None:
    """Removes the temporary stores of this machine whose run is over."""
    for folder in stores.glob(f"{_PREFIX}-{socket.gethostname()}-*-*"):
        owner = folder.name.removesuffix(".lock").rsplit("-", 2)[1]
        if not owner.isdigit() or _is_alive(int(owner)):
            continue
        if folder.suffix == ".lock":
            with suppress(OSError):
                folder.unlink()
        elif not is_locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # a forked process has the same list of what to do at exit
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            lock_file(folder).unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _start_of(process: int) -> str:
    """When a process started, where the system says it: process numbers are used again."""
    try:
        # Field 22 of proc(5)'s stat; the command's name, field 2, may hold spaces and brackets.
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
