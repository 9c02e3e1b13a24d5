"""The files that a source names: paths, patterns, folders and addresses, in the order of their names."""

import difflib
import glob
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torchpipe._suggest import listed
from torchpipe.errors import ConfigError, SourceError
from torchpipe.sources import remote
from torchpipe.sources.source_file import SourceFile


@dataclass(frozen=True, kw_only=True)
class FileFinder:
    """Finds files.

    Attributes:
        suffixes: of the files that are taken from a folder; a compression's may follow.
        folder: where names start from: a path or an address; "": the working directory.
        storage_options: of addresses.
        cache_dir: where copies are kept.
    """

    suffixes: Collection[str]
    folder: str = ""
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    cache_dir: str | None = None

    def files(self, names: Any) -> list[SourceFile]:
        """The files of one name or several, in their order; those of a pattern or a folder sorted by path.

        Raises:
            SourceError: a name stands for no file.
            ConfigError: a name is no text.
        """
        each = [names] if isinstance(names, str | Path) else names
        return [file for name in each for file in self._files(name)]

    def in_folder(self, folder: Path) -> list[SourceFile]:
        """The files of a folder and of those in it, sorted by path, without hidden ones.

        Raises:
            SourceError: it holds none with one of the suffixes.
        """
        files = [self._local(path) for path in walked(folder)]
        kept = [file for file in files if file.suffix in self.suffixes]
        if not kept:
            held = sorted({file.suffix or "no ending" for file in files})
            raise SourceError(
                f"The folder {folder} holds no file that ends with {listed(self.suffixes)}"
                f"{f'; its files end with {listed(held[:8])}' if held else ''}. Give the files: data_files={folder}/*"
            )
        return kept

    def _files(self, name: Any) -> Iterator[SourceFile]:
        if not isinstance(name, str | Path) or not str(name):
            raise ConfigError(f"data_files holds {name!r}. Give paths or addresses.")
        if is_address(name) or is_address(self.folder):
            address = str(name) if is_address(name) else f"{self.folder.rstrip('/')}/{name}"
            for found in remote.found(address, self.storage_options):
                yield SourceFile(name=found, storage_options=self.storage_options, cache_dir=self.cache_dir)
            return
        path = Path(self.folder, name).expanduser()
        if os.path.isdir(path):
            yield from self.in_folder(path)
        elif os.path.lexists(path):
            yield self._local(path)
        elif glob.has_magic(str(path)):
            found = [each for each in sorted(glob.glob(str(path), recursive=True)) if not os.path.isdir(each)]
            if not found:
                raise SourceError(f"No file matches {path} (looked from {Path.cwd()}). {_held(path)}")
            yield from map(self._local, found)
        else:
            raise no_such_file(path)

    def _local(self, path: str | Path) -> SourceFile:
        return SourceFile.of_path(path, self.cache_dir)


def is_address(name: object) -> bool:
    """Whether a name is an address, with a protocol."""
    return "://" in str(name)


def walked(folder: Path) -> list[Path]:
    """The files of a folder and of those in it, sorted by path, without hidden ones.

    Raises:
        SourceError: a folder may not be read.
    """

    def refuse(error: OSError) -> None:
        raise SourceError(f"The folder {error.filename} can't be read: {error.strerror}.") from error

    found: list[Path] = []
    seen: set[str] = set()
    for root, folders, names in os.walk(folder, onerror=refuse, followlinks=True):
        if os.path.realpath(root) in seen:  # links may lead round in a circle
            folders.clear()
            continue
        seen.add(os.path.realpath(root))
        folders[:] = [name for name in folders if not name.startswith((".", "__"))]
        found += [Path(root, name) for name in names if not name.startswith((".", "__"))]
    return sorted(found)


def no_such_file(path: Path) -> SourceError:
    """The error of a file that isn't there; it says what is near."""
    return SourceError(f"There is no file {path} (looked from {Path.cwd()}). {_nearest_file(path)}")


def _nearest_file(path: Path) -> str:
    names = _names_in(path.parent)
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else "Check data_files."


def _held(pattern: Path) -> str:
    """What there is instead of what a pattern matches."""
    names = _names_in(pattern.parent)
    if not names:
        return "Check data_files."
    return f"{pattern.parent} holds {listed(names[:5])}{', ...' if names[5:] else ''}."


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:  # it isn't there, or isn't shown; the sentence does without
        return []
