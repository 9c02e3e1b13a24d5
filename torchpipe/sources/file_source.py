"""What a source's options say about files: their format, the files of each split, and who reads them."""

import glob
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from torchpipe._suggest import listed
from torchpipe.errors import ConfigError
from torchpipe.sources.file_formats import BY_NAME, FORMATS, FileFormat, format_of_suffix
from torchpipe.sources.file_names import FileFinder, is_address, no_such_file, walked
from torchpipe.sources.source_file import SourceFile

SPEED_OPTIONS = frozenset({"num_proc", "cache_dir", "keep_in_memory", "download_mode", "token", "save_infos"})
"""Options of load_dataset that change how fast it is, and where it keeps its files, not the rows."""

_NAMES_FILES = frozenset({"data_files", "data_dir", "storage_options"})


@dataclass(frozen=True, kw_only=True)
class FileSource:
    """The files of a source.

    Attributes:
        format: of all of them.
        groups: split to its files, in the order in which they are read.
        options: what else was given, without ``split``.
    """

    format: FileFormat
    groups: Mapping[str, Sequence[SourceFile]]
    options: Mapping[str, Any]

    @property
    def is_ours(self) -> bool:
        """Whether our own reader reads them: there is one, and it knows all that is asked for."""
        # What makes load_dataset faster must not change by whom rows are read.
        return self.format.rows is not None and set(self.options) <= self.format.options | SPEED_OPTIONS

    @property
    def deciding(self) -> dict[str, Any]:
        """The options that decide the rows."""
        return {name: value for name, value in self.options.items() if name not in SPEED_OPTIONS}

    def of_splits(self, split: Any) -> dict[str, Sequence[SourceFile]]:
        """The splits that ``split`` names ("train[:90%]+test"), or all where it names none."""
        named = [name for name in self.groups if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(split))]
        return {name: self.groups[name] for name in named or self.groups}


def file_source(source: str, options: Mapping[str, Any]) -> FileSource | None:
    """The files that a source names; None: it names none, but a repository of the Hub, or what load_dataset knows.

    Args:
        source: a format's name, with ``data_files`` or ``data_dir``; a folder; a file, a pattern or an address.
        options: ``data_files``, ``data_dir``, and more. Names in ``data_files`` start from ``data_dir``.

    Raises:
        ConfigError: no files are named, or their format can't be told.
        SourceError: a name stands for no file.
    """
    given = {name: value for name, value in options.items() if value is not None and name != "split"}
    files, folder = given.get("data_files"), str(given.get("data_dir") or "")
    rest = {name: value for name, value in given.items() if name not in _NAMES_FILES}
    known = BY_NAME.get(source)
    if known is not None and not files and not folder:
        raise ConfigError(
            f"source={source!r} reads files, and no data_files were given. Give their path: data_files=..."
        )
    if known is None and _names_a_file(source):
        if files or folder:
            raise ConfigError(f"source={source!r} is a file by itself. Leave out data_files and data_dir.")
        files = source
    elif known is None and os.path.isdir(source):
        if not files and _is_for_load_dataset(Path(source)):
            return None
        folder = os.path.join(source, folder)
    elif known is None:
        return None
    storage_options = dict(given.get("storage_options") or {})
    suffixes = known.suffixes if known else [suffix for each in FORMATS for suffix in each.suffixes]
    finder = FileFinder(
        suffixes=suffixes, folder=folder, storage_options=storage_options, cache_dir=given.get("cache_dir")
    )
    if files:
        named = files if isinstance(files, Mapping) else {"train": files}
        groups = {str(split): finder.files(names) for split, names in named.items()}
        kind = known or _format_of([file for group in groups.values() for file in group], source)
    else:
        path = _checked_folder(folder)
        held = finder.in_folder(path)
        kind = known or _format_of(held, source)
        groups = _by_split([file for file in held if file.suffix in kind.suffixes], path)
    return FileSource(format=kind, groups=groups, options=rest)


def names_files(source: object) -> bool:
    """Whether a source names files: by their format, by themselves, or by their folder. What else a text names is a
    repository of the Hub.
    """
    return isinstance(source, str) and (source in BY_NAME or _names_a_file(source) or os.path.isdir(source))


def _names_a_file(source: str) -> bool:
    """Whether a source is a file's path, a pattern or an address, rather than a repository's name."""
    if os.path.isdir(source):
        return False
    is_known = format_of_suffix(SourceFile.of_path(source).suffix) is not None
    return is_known or is_address(source) or glob.has_magic(source) or os.path.lexists(source)


def _is_for_load_dataset(folder: Path) -> bool:
    """Whether a folder holds none of our formats (pictures, ...), or says itself how it is read.

    That it does by the head of its README, or as ``save_to_disk`` left it.
    """
    held = walked(folder)
    if not any(format_of_suffix(SourceFile.of_path(path).suffix) for path in held):
        return True
    # What stands beside pictures and sounds, and what save_to_disk writes.
    if any(path.name in ("state.json", "dataset_dict.json") or path.stem == "metadata" for path in held):
        return True
    readme = folder / "README.md"
    if not readme.is_file():
        return False
    head = re.match(
        r"---\r?\n(.*?)^---", readme.read_text(encoding="utf-8", errors="replace"), re.DOTALL | re.MULTILINE
    )
    return head is not None and re.search(r"^configs:", head[1], re.MULTILINE) is not None


_SPLIT_WORDS = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "dev", "val"),
    "test": ("test", "testing", "eval", "evaluation"),
}
"""The words by which load_dataset knows a split in a file's or a folder's name, between spaces, digits or ``-._``."""


def split_of_name(path: PurePath) -> str | None:
    """The split that a file belongs to by its name, or else by the folders that it is in; None: no word says it.

    >>> [split_of_name(PurePath(name)) for name in ("train-00.jsonl", "eval/a.csv", "my_dev.json", "contest.json")]
    ['train', 'test', 'validation', None]
    """
    for part in reversed(path.parts):
        words = re.split(r"[-._ 0-9]+", part.lower())
        for split, names in _SPLIT_WORDS.items():
            if set(names) & set(words):
                return split
    return None


def _checked_folder(folder: str) -> Path:
    if is_address(folder):
        raise ConfigError(f"data_dir={folder!r} is an address. Name the files in it: data_files=...")
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise no_such_file(path)
    return path


def _by_split(held: Sequence[SourceFile], folder: Path) -> dict[str, Sequence[SourceFile]]:
    """The files of a folder by the splits in their names (``test/a.jsonl``); all are "train" if none is named."""
    groups: dict[str | None, list[SourceFile]] = {}
    for file in held:
        groups.setdefault(split_of_name(PurePath(file.name).relative_to(folder)), []).append(file)
    untold = groups.pop(None, [])
    if untold and groups:
        raise ConfigError(
            f"The folder {folder} has files of {listed(groups)} by their names, and {untold[0].name}, whose name says "
            "no split. Name the files of each split: data_files={train: ..., test: ...}"
        )
    return {"train": untold} if untold else {str(split): files for split, files in groups.items()}


def _format_of(files: Sequence[SourceFile], source: str) -> FileFormat:
    """The format that all files have, by their names."""
    found = {format_of_suffix(file.suffix): file.name for file in files}
    # A text beside data is about it.
    kinds = [kind for kind in found if kind is not None and kind.name != "text"] or [kind for kind in found if kind]
    if len(kinds) == 1 and None not in found:
        return kinds[0]
    held = listed(found.values())
    raise ConfigError(
        f"source={source!r}: the format can't be told from the names of the files ({held}). Give it, and the files: "
        f"source='json', data_files=..."
    )
