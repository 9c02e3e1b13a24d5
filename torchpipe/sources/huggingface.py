"""Rows from Hugging Face's ``load_dataset``, with its failures put in words."""

import difflib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from torchpipe.data.protocols import RandomAccessDataSource
from torchpipe.errors import ConfigError, SourceError

Rows = RandomAccessDataSource[Mapping[str, Any]]


class SourceConfig(Protocol):
    """A value that describes rows, such as a ``Configurable.Config``, and builds them."""

    def build(self) -> Rows:
        """The rows."""
        ...


Source = str | Rows | SourceConfig


def load_rows(source: Source, **load_dataset_kwargs: Any) -> Rows:
    """The rows of a source.

    Args:
        source: a name for ``load_dataset`` ("json", a folder, a Hub repository); any object with ``__len__`` and
            ``__getitem__``, which is returned as it is; or a value (``Configurable.Config``) whose ``build()``
            gives one.
        load_dataset_kwargs: passed through: ``split``, ``data_files``, ``data_dir``, ``name``, ...

    Raises:
        SourceError: nothing is there, it holds no rows, or a file can't be read; the sentence names file and line.
        ConfigError: the source is a stream or has several splits, or options were given beside an object.
    """
    if not isinstance(source, str):
        return _checked_object(source, load_dataset_kwargs)
    import datasets

    name = describe_source(source, load_dataset_kwargs)
    try:
        with _quiet():
            rows = datasets.load_dataset(source, **load_dataset_kwargs)
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
    """The sentence for a failure of ``load_dataset``. Local files are read once more, to find the line at fault."""
    name = describe_source(source, load_dataset_kwargs)
    paths = list(_local_files(load_dataset_kwargs))
    missing = [path for path in paths if not path.exists()]
    if missing and not any(character in str(missing[0]) for character in "*?["):
        return SourceError(f"There is no file {missing[0]} (looked from {Path.cwd()}). {_nearest_file(missing[0])}")
    for path in paths:
        fault = _fault_in_json(path) if path.is_file() and path.suffix in (".json", ".jsonl") else None
        if fault:
            return SourceError(fault)
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


def _local_files(load_dataset_kwargs: Mapping[str, Any]) -> Iterator[Path]:
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


def _nearest_file(path: Path) -> str:
    names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return f"Did you mean {path.parent / near[0]}?" if near else "Check data_files."


def _fault_in_json(path: Path) -> str | None:
    """What is wrong with a JSON file, in one sentence with its line; None if nothing is."""
    raw = path.read_bytes()
    if not raw.strip():
        return f"{path} is empty. Give a file with at least one row."
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return f"{path}, line {line} is not UTF-8 ({error.reason} at byte {error.start}). Save the file as UTF-8."
    if path.suffix == ".json" and text.lstrip().startswith("["):
        if not text.strip(" \t\r\n[]"):
            return f"{path} holds an empty list. Give a file with at least one row."
        return _fault_in_text(path, text, first_line=1)
    for number, line in enumerate(text.split("\n"), start=1):
        fault = _fault_in_text(path, line, first_line=number) if line.strip() else None
        if fault:
            # A .json file may also hold one object over many lines.
            whole = path.suffix == ".json" and _fault_in_text(path, text, first_line=1) is None
            return None if whole else fault
    return None


def _fault_in_text(path: Path, text: str, *, first_line: int) -> str | None:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        return (
            f"{path}, line {line} is not valid JSON: {error.msg} at column {error.colno}. Correct or delete that line."
        )
    except RecursionError:
        return f"{path}, line {first_line} nests deeper than can be read. Correct or delete that line."
    if "\\u" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            return (
                f"{path}, line {first_line} holds a lone surrogate (half of a \\ud83d\\ude00 pair), which has no UTF-8 "
                "form. Correct or delete that line."
            )
    return None
