"""Rows from Hugging Face's ``load_dataset``, with its failures put in words."""

import csv
import difflib
import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from torchpipe._fingerprint import fingerprint
from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.errors import ConfigError, SourceError
from torchpipe.sources.identity import file_identity
from torchpipe.sources.json_rows import SUFFIXES, JsonRows
from torchpipe.sources.views import JoinedRows, KeptRows

Rows = RandomAccessDataSource[Mapping[str, Any]]


FILE_FORMATS = ("json", "csv", "parquet", "arrow", "text", "xml", "webdataset")


SPEED_OPTIONS = frozenset({"num_proc", "cache_dir", "keep_in_memory", "download_mode", "token", "save_infos"})
"""Options of load_dataset that change how fast it is, and where it keeps its files, not the rows."""


class SourceConfig(Protocol):
    """A value that describes rows, such as a ``Configurable.Config``, and builds them."""

    def build(self) -> Rows:
        """The rows."""
        ...


Source = str | Rows | SourceConfig


def load_rows(source: Source, *, check_rows: bool = True, **load_dataset_kwargs: Any) -> Rows:
    """The rows of a source.

    Local JSON files are read by :class:`~torchpipe.sources.json_rows.JsonRows`, which leaves every text as it is
    written; ``load_dataset`` reads all else. The cells of a local CSV file stay text, unless ``features`` says
    otherwise.

    Args:
        source: a name for ``load_dataset`` ("json", a folder, a Hub repository); any object with ``__len__`` and
            ``__getitem__``, which is returned as it is; or a value (``Configurable.Config``) whose ``build()``
            gives one.
        check_rows: False leaves the check of each row of local JSON files to when it is read (see
            :class:`~torchpipe.sources.json_rows.JsonRows`).
        load_dataset_kwargs: passed through: ``split``, ``data_files``, ``data_dir``, ``name``, ...

    Raises:
        SourceError: nothing is there, it holds no rows, or a file can't be read; the sentence names file and line.
        ConfigError: the source is a stream or has several splits, or options were given beside an object.
    """
    if not isinstance(source, str):
        return _checked_object(source, load_dataset_kwargs)
    name = describe_source(source, load_dataset_kwargs)
    if source in FILE_FORMATS and not {"data_files", "data_dir"} & {k for k, v in load_dataset_kwargs.items() if v}:
        raise ConfigError(
            f"source={source!r} reads files, and no data_files were given. Give their path: data_files=..."
        )
    files = _plain_json_files(source, load_dataset_kwargs)
    if files is not None:
        return _rows_of_split(files, load_dataset_kwargs.get("split"), name, check_rows)
    import datasets

    if source == "csv":
        load_dataset_kwargs = {**_as_text(load_dataset_kwargs), **load_dataset_kwargs}
    try:
        with _quiet():
            rows = datasets.load_dataset(source, **_told_apart(source, load_dataset_kwargs), **load_dataset_kwargs)
    except Exception as error:
        raise _in_words(error, source, load_dataset_kwargs) from error
    if isinstance(rows, Mapping):
        raise ConfigError(f"{name} has the splits {', '.join(map(str, rows))}. Name one: split=...")
    if not isinstance(rows, RandomAccessDataSource):
        raise ConfigError(
            f"{name} gave a {type(rows).__name__}, which has no length or index: a stream. Leave out streaming=True."
        )
    if len(rows) == 0:
        raise SourceError(f"{name} holds no rows. Check the split and the file.")
    return rows


def describe_source(source: object, load_dataset_kwargs: Mapping[str, Any]) -> str:
    """The shortest name by which the user knows the source: its file or the data set's name, and a split that cuts it.

    >>> describe_source("json", {"data_files": "chats.json", "split": "train[:90%]"})
    'chats.json (train[:90%])'
    """
    if not isinstance(source, str):
        return type(source).__name__
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


def _told_apart(source: str, load_dataset_kwargs: Mapping[str, Any]) -> dict[str, str]:
    """An option that names what local files hold now.

    The library keeps what it has read under their paths and times of change alone, and gives that again for files that
    were replaced by others of the same time.
    """
    paths = list(local_files(load_dataset_kwargs))
    if source not in FILE_FORMATS or load_dataset_kwargs.get("name") or not paths or not all(map(Path.is_file, paths)):
        return {}
    return {"name": f"files-{fingerprint([file_identity(path) for path in paths])}"}


def _as_text(load_dataset_kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Options that keep the cells of local CSV files as written: guessed types turn 007 into 7, and NA into null."""
    paths = list(local_files(load_dataset_kwargs))
    if {"features", "names", "column_names", "header"} & set(load_dataset_kwargs) or not all(map(Path.is_file, paths)):
        return {}
    import datasets

    delimiter = load_dataset_kwargs.get("delimiter") or load_dataset_kwargs.get("sep") or ","
    with paths[0].open(newline="", encoding=load_dataset_kwargs.get("encoding") or "utf-8-sig") as file:
        header = next(csv.reader(file, delimiter=delimiter), [])
    columns = datasets.Features({name: datasets.Value("string") for name in header})
    return {"features": columns, "keep_default_na": False} if header else {}


def _plain_json_files(source: str, load_dataset_kwargs: Mapping[str, Any]) -> dict[str, list[Path]] | None:
    """The local JSON files of each split, if that is all that is asked for; they are read by :class:`JsonRows`."""
    files = load_dataset_kwargs.get("data_files")
    # What makes the library faster must not change by whom rows are read.
    known = {"data_files", "data_dir", "split"} | SPEED_OPTIONS
    if source != "json" or not files or not set(load_dataset_kwargs) <= known:
        return None
    folder = load_dataset_kwargs.get("data_dir")
    groups = files if isinstance(files, Mapping) else {"train": files}
    found = {split: list(local_files({"data_files": names, "data_dir": folder})) for split, names in groups.items()}
    paths = [path for group in found.values() for path in group]
    return found if paths and all(path.is_file() and path.suffix in SUFFIXES for path in paths) else None


def _rows_of_split(files: Mapping[str, list[Path]], split: Any, name: str, check: bool) -> Rows:
    """The rows of ``split``: a name, or ``load_dataset``'s grammar of parts and sums (``train[:90%]``)."""
    if split is None:
        raise ConfigError(f"{name} has the splits {', '.join(files)}. Name one: split=...")
    if split in files:
        return JsonRows(files[split], check=check)
    import datasets

    rows = {name: JsonRows(paths, check=check) for name, paths in files.items()}
    try:
        instruction = datasets.ReadInstruction.from_spec(str(split))
        parts = instruction.to_absolute({name: len(group) for name, group in rows.items()})
    except (ValueError, AssertionError) as error:
        raise ConfigError(
            f"{name}: split={split!r} can't be read: {error} The splits are {', '.join(files)}."
        ) from error
    kept = [KeptRows(rows[part.splitname], np.arange(part.from_, part.to)) for part in parts if part.from_ < part.to]
    if not kept:
        raise SourceError(
            f"{name} holds no rows: nothing is left for split={split!r}. Choose a split that holds some (a recipe does "
            "without held-out rows by dataset_val=null)."
        )
    return kept[0] if len(kept) == 1 else JoinedRows(kept)


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


def _in_words(error: Exception, source: str, load_dataset_kwargs: Mapping[str, Any]) -> SourceError | ConfigError:
    """The sentence for a failure of ``load_dataset``."""
    name = describe_source(source, load_dataset_kwargs)
    full = next((each for each in _causes(error) if getattr(each, "errno", None) in _NO_SPACE), None)
    if full is not None:
        where = load_dataset_kwargs.get("cache_dir") or os.environ.get("HF_DATASETS_CACHE") or "its cache folder"
        return SourceError(
            f"{name} can't be loaded: load_dataset can't write to {where} ({full.strerror}). Free some space, or name "
            "another folder: cache_dir=..."
        )
    paths = list(local_files(load_dataset_kwargs))
    missing = [path for path in paths if not path.exists()]
    if missing and not any(character in str(missing[0]) for character in "*?["):
        return no_such_file(missing[0])
    if isinstance(error, TypeError):
        return ConfigError(
            f"load_dataset refused an option for {name}: {error}. Check the spelling of the dataset's keys."
        )
    first_line = (str(error.__cause__ or error).splitlines() or [""])[0]
    if "corresponds to no data" in first_line:
        split = load_dataset_kwargs.get("split")
        return SourceError(
            f"{name} holds no rows: nothing is left for split={split!r}. Choose a split that holds some (a recipe does "
            "without held-out rows by dataset_val=null)."
        )
    return SourceError(
        f"{name} can't be loaded: {first_line or type(error).__name__}. Check source={source!r} and "
        f"{_options(load_dataset_kwargs)}"
    )


def _options(load_dataset_kwargs: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in load_dataset_kwargs.items()) or "its options."


def local_files(load_dataset_kwargs: Mapping[str, Any]) -> Iterator[Path]:
    """The paths that ``data_files`` and ``data_dir`` name on this machine, in order; a file need not be there."""
    files = load_dataset_kwargs.get("data_files")
    folder = Path(load_dataset_kwargs.get("data_dir") or "")
    groups = files.values() if isinstance(files, Mapping) else [files]
    for group in groups:
        for name in [group] if isinstance(group, str | Path) else group or []:
            if "://" in str(name):
                continue
            path = folder / name
            found = sorted(path.parent.glob(path.name)) if any(character in path.name for character in "*?[") else []
            yield from found or [path]


_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def _causes(error: BaseException | None) -> Iterator[Any]:
    """An error, what caused it, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def no_such_file(path: Path) -> SourceError:
    """The error of a file that isn't there; it says what is near."""
    return SourceError(f"There is no file {path} (looked from {Path.cwd()}). {_nearest_file(path)}")


def _nearest_file(path: Path) -> str:
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else "Check data_files."
