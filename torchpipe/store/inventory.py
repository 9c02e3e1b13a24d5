"""The stores in a folder: what they are, how large, when last used, and which of them can go."""

import os
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torchpipe.errors import StoreError
from torchpipe.store.in_use import claimed
from torchpipe.store.manifest import (
    MANIFEST_JSON,
    Manifest,
    OtherFormatError,
    library_versions,
    open_shards,
    read_key,
    read_manifest,
)
from torchpipe.store.publishing import TEMPORARY
from torchpipe.store.verify import problems_of

State = Literal["finished", "unfinished", "damaged", "other format"]

# A key's digest, and what a run keeps for itself. Nothing else in the folder is ever touched.
_NAME = re.compile(r"[0-9a-f]{32}|run-.+-[0-9]+-[0-9a-f]{16}")


@dataclass(frozen=True, kw_only=True)
class StoreEntry:
    """A store on the disk.

    Attributes:
        folder: where it is.
        state: "unfinished" has no manifest: it is being built, or its building was stopped.
        problem: what is wrong with it, a sentence; empty where nothing is.
        size: bytes of all its files.
        last_used: when it was last opened, or written to; seconds since 1970.
        key: what it was made of.
        manifest: its table of contents, where it can be read.
    """

    folder: Path
    state: State
    problem: str
    size: int
    last_used: float
    key: Mapping[str, Any] = field(repr=False)
    manifest: Manifest | None = field(repr=False)

    @property
    def other_libraries(self) -> dict[str, str]:
        """The libraries that built it in another version than is installed here, and that version."""
        here = library_versions()
        built = self.manifest.libraries if self.manifest else {}
        return {name: version for name, version in built.items() if here.get(name) != version}


def list_stores(stores: Path, *, read_all: bool = False) -> list[StoreEntry]:
    """The stores in a folder, the last used first.

    Args:
        stores: the folder (see :func:`~torchpipe.store.cache_dir.stores_folder`); it need not be there.
        read_all: read every byte to see what is damaged, instead of comparing the files' sizes.

    Raises:
        StoreError: the folder can't be read.
    """
    try:
        names = sorted(entry.name for entry in os.scandir(stores) if entry.is_dir(follow_symlinks=False))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{stores} can't be read: {error.strerror}. Give another cache_dir.") from error
    entries = [entry_of(stores / name, read_all=read_all) for name in names if _NAME.fullmatch(name)]
    return sorted(entries, key=lambda entry: -entry.last_used)


def entry_of(folder: Path, *, read_all: bool = False) -> StoreEntry:
    """What is known of the store in one folder; see :func:`list_stores`."""
    files = _files(folder)
    manifest: Manifest | None = None
    state: State = "finished"
    problem = ""
    if not (folder / MANIFEST_JSON).exists():
        state = "unfinished"
    else:
        try:
            manifest = read_manifest(folder)
            open_shards(folder, range(len(manifest.shards)), hashes=manifest.shards)
            problem = next(problems_of(folder), "") if read_all else ""
        except OtherFormatError as error:
            state, problem = "other format", str(error)
        except StoreError as error:
            problem = str(error)
        if problem and state == "finished":
            state = "damaged"
    return StoreEntry(
        folder=folder,
        state=state,
        problem=problem,
        size=sum(file.st_size for file in files),
        last_used=max((file.st_mtime for file in files), default=0.0),
        key=_key_or_nothing(folder),
        manifest=manifest,
    )


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """What a pruning did: the stores that were removed, and those that would have been but are in use."""

    removed: Sequence[StoreEntry]
    in_use: Sequence[StoreEntry]


def prune(entries: Sequence[StoreEntry], *, dry_run: bool = False) -> Pruned:
    """Removes stores. One that is being built or read stays; a folder is gone from its place before it is emptied.

    Args:
        entries: the stores to remove (see :func:`to_prune`).
        dry_run: remove nothing, and return what would have been removed.

    Raises:
        StoreError: a folder can't be removed.
    """
    removed: list[StoreEntry] = []
    in_use: list[StoreEntry] = []
    for entry in entries:
        try:
            with claimed(entry.folder) as free:
                (removed if free else in_use).append(entry)
                if free and not dry_run:
                    _remove(entry.folder)
        except OSError as error:
            raise StoreError(f"{entry.folder} can't be removed: {error.strerror or error}.") from error
    return Pruned(removed=removed, in_use=in_use)


def to_prune(
    entries: Sequence[StoreEntry],
    *,
    unfinished: bool = False,
    damaged: bool = False,
    unused_since: float | None = None,
    keep_bytes: int | None = None,
) -> list[StoreEntry]:
    """Those stores that any of the conditions names.

    Args:
        entries: from :func:`list_stores`, the last used first.
        unfinished: stores that were never finished.
        damaged: stores that are not what was written.
        unused_since: stores that were last used before this time, in seconds since 1970.
        keep_bytes: all but the last used that together take so many bytes at most.
    """
    chosen: list[StoreEntry] = []
    kept = 0
    for entry in entries:
        named = (unfinished and entry.state == "unfinished") or (damaged and entry.state == "damaged")
        named = named or (unused_since is not None and entry.last_used < unused_since)
        if named or (keep_bytes is not None and kept + entry.size > keep_bytes):
            chosen.append(entry)
        else:
            kept += entry.size
    return chosen


def remove_leftovers(stores: Path) -> None:
    """Removes what was left of a pruning that was stopped."""
    for folder in stores.glob(f".*{TEMPORARY}"):
        shutil.rmtree(folder, ignore_errors=True)


def _remove(folder: Path) -> None:
    aside = folder.with_name(f".{folder.name}.{uuid.uuid4().hex[:12]}{TEMPORARY}")
    os.replace(folder, aside)
    shutil.rmtree(aside)


def _files(folder: Path) -> list[os.stat_result]:
    found: list[os.stat_result] = []
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # a builder moves its files meanwhile
                found.append(os.lstat(os.path.join(parent, name)))
    return found


def _key_or_nothing(folder: Path) -> dict[str, Any]:
    try:
        return read_key(folder)
    except StoreError:
        return {}
