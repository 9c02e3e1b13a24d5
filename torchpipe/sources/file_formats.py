"""Which reader reads which files: one row a format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchpipe.sources.csv_rows import CsvRows
from torchpipe.sources.file_rows import FileRows
from torchpipe.sources.json_rows import JsonRows
from torchpipe.sources.source_file import SourceFile
from torchpipe.sources.text_rows import TextRows

READERS_VERSION = "2"
"""Goes up where the same files give other rows than before."""


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """One format of files.

    Attributes:
        name: of ``source``, and of load_dataset's reader of it.
        suffixes: by which its files are known where no ``source`` names it, and which are taken from a folder.
        rows: our own reader, given the files and ``options``; None: load_dataset alone reads it.
        options: what our own reader takes. Files that are read with any other option are load_dataset's.
        others: names of ``source`` that mean the same.
    """

    name: str
    suffixes: tuple[str, ...]
    rows: Callable[[Sequence[SourceFile], Mapping[str, Any]], FileRows] | None = None
    options: frozenset[str] = frozenset()
    others: tuple[str, ...] = ()


def _csv_rows(files: Sequence[SourceFile], options: Mapping[str, Any]) -> CsvRows:
    # load_dataset has two names for each of these.
    return CsvRows(
        files,
        delimiter=options.get("delimiter") or options.get("sep"),
        quotechar=options.get("quotechar", '"'),
        column_names=options.get("column_names") or options.get("names"),
    )


FORMATS: tuple[FileFormat, ...] = (
    FileFormat(
        name="json",
        suffixes=(".json", ".jsonl", ".ndjson"),
        rows=lambda files, options: JsonRows(files),
        others=("jsonl", "ndjson"),
    ),
    FileFormat(
        name="csv",
        suffixes=(".csv", ".tsv"),
        rows=_csv_rows,
        options=frozenset({"delimiter", "sep", "quotechar", "column_names", "names"}),
        others=("tsv",),
    ),
    FileFormat(
        name="text",
        suffixes=(".txt", ".text", ".md"),
        rows=lambda files, options: TextRows(files, **options),
        options=frozenset({"sample_by", "keep_linebreaks"}),
        others=("txt",),
    ),
    FileFormat(name="parquet", suffixes=(".parquet",)),
    FileFormat(name="arrow", suffixes=(".arrow",)),
    FileFormat(name="xml", suffixes=(".xml",)),
    FileFormat(name="webdataset", suffixes=(".tar",)),
)

BY_NAME: Mapping[str, FileFormat] = {name: each for each in FORMATS for name in (each.name, *each.others)}
"""The names that ``source`` may be for files."""


def format_of_suffix(suffix: str) -> FileFormat | None:
    """The format whose files end so; None: it isn't known."""
    return next((each for each in FORMATS if suffix in each.suffixes), None)
