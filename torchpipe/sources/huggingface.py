"""Rows from Hugging Face's ``load_dataset``, with its failures put in words."""

import csv
import errno
import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from torchpipe._fingerprint import fingerprint
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.errors import ConfigError, SourceError
from torchpipe.sources.file_source import FileSource, file_source
from torchpipe.sources.identity import file_identity
from torchpipe.sources.parquet_files import check_parquet
from torchpipe.sources.views import JoinedRows, KeptRows, described_rows

Rows = RandomAccessDataSource[Mapping[str, Any]]


class SourceConfig(Protocol):
    """A value that describes rows, such as a ``Configurable.Config``, and builds them."""

    def build(self) -> Rows:
        """The rows."""
        ...


Source = str | Rows | SourceConfig


def load_rows(source: Source, **load_dataset_kwargs: Any) -> Rows:
    """The rows of a source.

    Files of JSON, CSV and text are read by our own readers, which leave every text as it is written, wherever the files
    are; ``load_dataset`` reads all else, and those files too where it is given an option that is its own. See
    docs/sources.md.

    Args:
        source: a format ("json", "csv", "text", "parquet", ...) with ``data_files`` or ``data_dir``; a file, a pattern,
            an address or a folder; a repository of the Hub; any object with ``__len__`` and ``__getitem__``, which is
            returned as it is; or a value (``Configurable.Config``) whose ``build()`` gives one.
        load_dataset_kwargs: passed through: ``split``, ``data_files``, ``data_dir``, ``name``, ... Files of one split,
            such as a single file, need no ``split``.

    Raises:
        SourceError: nothing is there, it holds no rows, or a file can't be read. A row that is malformed raises
            :class:`~torchpipe.errors.MalformedRow` when it is read; :func:`~torchpipe.sources.check_rows` reads all.
        ConfigError: the source is a stream or has several splits, or options were given beside an object.
    """
    if not isinstance(source, str):
        return _checked_object(source, load_dataset_kwargs)
    name = describe_source(source, load_dataset_kwargs)
    if load_dataset_kwargs.pop("streaming", None):
        raise ConfigError(
            f"{name}: streaming=True gives a stream, whose rows have no number and no count, and torchpipe.datasets "
            "numbers rows. Leave it out, since rows of files are read from the disk one by one and are not held in "
            "memory; or use torchpipe.pipeline.HuggingFaceStreamingSource (docs/pipeline.md)."
        )
    files = file_source(source, load_dataset_kwargs)
    split = load_dataset_kwargs.get("split")
    if files is None:
        return _load_dataset(source, name, load_dataset_kwargs)
    if split is None and len(files.groups) > 1:
        raise ConfigError(f"{name} has the splits {', '.join(files.groups)}. Name one: split=...")
    split = next(iter(files.groups)) if split is None else split  # files of one split leave nothing to choose
    if files.is_ours:
        return _rows_of_split(files, split, name)
    return _load_dataset(files.format.name, name, _as_load_dataset_takes_it(files, split, name))


def as_load_dataset_takes(source: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The first argument of ``load_dataset`` for a source, and the others: files, wherever they are, by their format.

    Args:
        source, options: as :func:`load_rows` takes them.

    Raises:
        SourceError: there is no such file.
        ConfigError: files have several splits, and none is named.
    """
    files = file_source(source, options)
    if files is None:
        return source, dict(options)
    split = options.get("split")
    if split is None and len(files.groups) > 1:
        raise ConfigError(f"{source} has the splits {', '.join(files.groups)}. Name one: split=...")
    split = next(iter(files.groups)) if split is None else split
    name = describe_source(source, options)
    return files.format.name, _as_load_dataset_takes_it(files, split, name)


def loaded(source: str, options: Mapping[str, Any], *, name: str) -> Any:
    """What ``load_dataset`` gives.

    Args:
        source: its first argument.
        options: its others.
        name: what messages call it.

    Raises:
        SourceError: it can't be loaded.
        ConfigError: an option is refused.
    """
    import datasets

    try:
        with _quiet():
            return datasets.load_dataset(source, **options)
    except Exception as error:
        raise _in_words(error, source, name, options) from error


def _load_dataset(source: str, name: str, options: Mapping[str, Any]) -> Rows:
    rows = loaded(source, options, name=name)
    if isinstance(rows, Mapping):
        raise ConfigError(f"{name} has the splits {', '.join(map(str, rows))}. Name one: split=...")
    if not isinstance(rows, RandomAccessDataSource):
        raise ConfigError(f"{name} gave a {type(rows).__name__}, which has no length or index. Choose another split.")
    if len(rows) == 0:
        raise SourceError(f"{name} holds no rows. Check the split and the file.")
    return rows


def describe_source(source: object, load_dataset_kwargs: Mapping[str, Any]) -> str:
    """The shortest name by which the user knows the source: its file or the data set's name, and a split that cuts it.

    >>> describe_source("json", {"data_files": "chats.json", "split": "train[:90%]"})
    'chats.json (train[:90%])'
    """
    if not isinstance(source, str):
        return described_rows(source)
    files = load_dataset_kwargs.get("data_files")
    split = load_dataset_kwargs.get("split")
    name = source
    if isinstance(files, str):
        name = files
    elif isinstance(files, Sequence) and files:
        name = ", ".join(map(str, files))
    elif isinstance(files, Mapping) and split in files:
        name = str(files[split])
    return f"{name} ({split})" if isinstance(split, str) and "[" in split else name


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's log lines before an error that we put in words, or its progress bars in log files."""
    import datasets

    hide_bars = not sys.stderr.isatty() and not datasets.are_progress_bars_disabled()
    verbosity = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    if hide_bars:
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        datasets.logging.set_verbosity(verbosity)
        if hide_bars:
            datasets.enable_progress_bars()


def _as_load_dataset_takes_it(files: FileSource, split: Any, name: str) -> dict[str, Any]:
    """The options by which load_dataset reads files: plain ones of this machine."""
    sources = [file for group in files.of_splits(split).values() for file in group]
    groups = {split: [file.path() for file in group] for split, group in files.of_splits(split).items()}
    paths = [path for group in groups.values() for path in group]
    options = dict(files.options)
    if files.format.name == "parquet":
        paths = check_parquet(sources, paths, options)
        kept = {split: [path for path in group if path in paths] for split, group in groups.items()}
        groups = {split: group for split, group in kept.items() if group}
    if files.format.name == "csv":
        options = {**_as_text(paths[0], options), **options}
    # The library keeps what it has read under their paths and times of change alone, and gives that again for files
    # that were replaced by others of the same time.
    options.setdefault("name", f"files-{fingerprint([file_identity(path) for path in paths])}")
    # It takes names for patterns.
    named = {split: [glob.escape(str(path)) for path in group] for split, group in groups.items()}
    return {**options, "data_files": named, "split": split}


def _as_text(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that keep the cells of CSV files as written: guessed types turn 007 into 7, and NA into null."""
    if {"features", "names", "column_names", "header"} & set(options):
        return {}
    import datasets

    delimiter = options.get("delimiter") or options.get("sep") or ","
    with path.open(newline="", encoding=options.get("encoding") or "utf-8-sig") as file:
        header = next(csv.reader(file, delimiter=delimiter), [])
    columns = datasets.Features({name: datasets.Value("string") for name in header})
    return {"features": columns, "keep_default_na": False} if header else {}


def _rows_of_split(files: FileSource, split: Any, name: str) -> Rows:
    """The rows of ``split``: a name, or ``load_dataset``'s grammar of parts and sums (``train[:90%]``)."""
    read = files.format.rows
    assert read is not None
    options = files.deciding
    if split in files.groups:
        return read(files.groups[split], options)
    import datasets

    rows = {name: read(group, options) for name, group in files.of_splits(split).items()}
    try:
        instruction = datasets.ReadInstruction.from_spec(str(split))
        parts = instruction.to_absolute({name: len(group) for name, group in rows.items()})
    except (ValueError, AssertionError) as error:
        raise ConfigError(
            f"{name}: split={split!r} can't be read: {error} The splits are {', '.join(files.groups)}."
        ) from error
    kept = [KeptRows(rows[part.splitname], np.arange(part.from_, part.to)) for part in parts if part.from_ < part.to]
    if not kept:
        raise _nothing_left(name, split)
    return kept[0] if len(kept) == 1 else JoinedRows(kept)


def _nothing_left(name: str, split: Any) -> SourceError:
    return SourceError(
        f"{name} holds no rows: nothing is left for split={split!r}. Choose a split that holds some (a recipe does "
        "without held-out rows by dataset_val=null)."
    )


def _checked_object(source: Any, load_dataset_kwargs: Mapping[str, Any]) -> Rows:
    if not isinstance(source, RandomAccessDataSource) and callable(getattr(source, "build", None)):
        source = source.build()
    options = {key: value for key, value in load_dataset_kwargs.items() if (key, value) != ("split", "train")}
    if options:
        raise ConfigError(
            f"The source is a {type(source).__name__}, not a name for load_dataset, so {', '.join(sorted(options))} "
            "would be ignored. Leave them out, or give source as a name such as 'json'."
        )
    if isinstance(source, Mapping | bytes) or not isinstance(source, RandomAccessDataSource):
        raise ConfigError(
            f"The source is a {type(source).__name__}. It has to be a name for load_dataset, or an object with __len__ "
            "and __getitem__ that gives rows by number (a _component_ may build one)."
        )
    if len(source) == 0:
        raise SourceError(f"The source, a {type(source).__name__}, holds no rows.")
    return source


def _in_words(error: Exception, source: str, name: str, options: Mapping[str, Any]) -> SourceError | ConfigError:
    """The sentence for a failure of ``load_dataset``."""
    full = next((each for each in _causes(error) if getattr(each, "errno", None) in _NO_SPACE), None)
    if full is not None:
        where = options.get("cache_dir") or os.environ.get("HF_DATASETS_CACHE") or "its cache folder"
        return SourceError(
            f"{name} can't be loaded: load_dataset can't write to {where} ({full.strerror}). Free some space, or name "
            "another folder: cache_dir=..."
        )
    if isinstance(error, TypeError) and (unknown := _UNKNOWN_KEYWORD.search(str(error))):
        return ConfigError(
            f"{unknown[1]!r} is not an option of this builder or of load_dataset. Check its spelling, or remove it; "
            "docs/coming_from.md says what options of axolotl, TRL and LLaMA-Factory are called here."
        )
    if isinstance(error, TypeError):
        return ConfigError(
            f"load_dataset refused an option for {name}: {error}. Check the spelling of the dataset's keys."
        )
    if isinstance(error, StopIteration):  # of a look at the first row
        return SourceError(f"{name} holds no rows. Check the split and the file.")
    first_line = (str(error.__cause__ or error).splitlines() or [""])[0]
    if "corresponds to no data" in first_line:
        return _nothing_left(name, options.get("split"))
    return SourceError(
        f"{name} can't be loaded: {first_line or type(error).__name__}. Check source={source!r} and {_options(options)}"
    )


def _options(load_dataset_kwargs: Mapping[str, Any]) -> str:
    told = {key: value for key, value in load_dataset_kwargs.items() if not str(value).startswith("files-")}
    return ", ".join(f"{key}={value!r}" for key, value in told.items()) or "its options."


_UNKNOWN_KEYWORD = re.compile(r"unexpected keyword argument '(\w+)'")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _causes(error: BaseException | None) -> Iterator[Any]:
    """An error, what caused it, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
