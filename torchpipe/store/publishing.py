"""Files and folders that are there whole or not at all."""

import errno
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torchpipe.errors import StoreError

TEMPORARY = ".tmp"
"""The ending of what is being written. Whatever has it and no writer is a leftover."""

_WHY = {
    errno.ENOSPC: "the disk is full. Free space, or choose another cache_dir",
    errno.EDQUOT: "your disk quota is used up. Free space, or choose another cache_dir",
    errno.EFBIG: "a file may not grow that large there (ulimit -f). Raise the limit, or use smaller shards",
    errno.EROFS: "the file system is read-only. Choose another cache_dir",
    errno.EACCES: "you may not write there. Choose another cache_dir",
    errno.EPERM: "you may not write there. Choose another cache_dir",
}


@contextmanager
def published_folder(folder: Path) -> Iterator[Path]:
    """A new, empty folder to fill, which becomes ``folder`` in one step at the end, in place of what is there.

    Where the body raises, nothing is left of it.

    Raises:
        StoreError: it can't be written; says why and what to do.
    """
    temporary = beside(folder)
    try:
        with writing(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            temporary.mkdir()
            yield temporary
            _sync(temporary)
            _replace_folder(temporary, folder)
            _sync(folder.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish_json(path: Path, value: Mapping[str, Any]) -> bytes:
    """Writes a JSON file in one step, its keys sorted, and returns its bytes.

    Raises:
        StoreError: it can't be written; says why and what to do.
    """
    content = json_bytes(value)
    temporary = beside(path)
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(temporary, content)
            os.replace(temporary, path)
            _sync(path.parent)
    finally:
        with suppress(OSError):
            temporary.unlink()
    return content


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """The value as JSON, the same bytes wherever it is equal."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a new file; its bytes are on the disk then."""
    with open(path, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns what the system says of a failed writing into a sentence.

    Raises:
        StoreError: the body raised an OSError that was no StoreError.
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        why = _WHY.get(error.errno or 0, f"{error.strerror or error}. Choose another cache_dir if it can't be mended")
        raise StoreError(f"{path} can't be written: {why}.") from error


def beside(path: Path) -> Path:
    """A new name beside a path, for what is being written."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}{TEMPORARY}")


def _replace_folder(temporary: Path, folder: Path) -> None:
    if not folder.exists():
        os.replace(temporary, folder)
        return
    # A folder can't be replaced while it holds files, so the old one steps aside first.
    aside = beside(folder)
    os.replace(folder, aside)
    os.replace(temporary, folder)
    shutil.rmtree(aside, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
