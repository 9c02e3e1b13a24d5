"""Rows of CSV files: cells are text, as they are written."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from torchpipe._suggest import listed
from torchpipe.errors import ConfigError, SourceError
from torchpipe.sources.file_rows import FileRows, after_bom, columns_named, lines
from torchpipe.sources.row_bounds import RowBounds
from torchpipe.sources.source_file import SourceFile

_LONGEST_CELL = 2**31 - 1
"""Characters. Python's own limit is 131,072; it guards those who hold whole files in memory."""

_OTHER_SUFFIXES = (".json", ".jsonl", ".ndjson", ".parquet", ".arrow")


class CsvRows(FileRows):
    """The rows of CSV files: a quoted cell may hold line ends and delimiters, and all of it is content.

    Every cell is a string: ``007`` and ``1.10`` stay so, an empty cell is ``""``, and there is no null. Each file has
    its own header. Empty lines are no rows.

    Args:
        files: read in this order.
        delimiter: between cells; None: a tab in files that end with ``.tsv``, else a comma.
        quotechar: around cells that hold a delimiter, a quote (doubled) or a line end.
        column_names: of files without a header; None: the first line is the header.

    Raises:
        ConfigError: the delimiter or the quote is not one character.
        SourceError: a header names a column twice, or a quote is not closed.
        MalformedRow: when a row is read: it has more or fewer cells than the header.
    """

    can_be_read_ahead = True

    def __init__(
        self,
        files: Sequence[Path | SourceFile],
        *,
        delimiter: str | None = None,
        quotechar: str = '"',
        column_names: Sequence[str] | None = None,
    ) -> None:
        for name, value in (("delimiter", delimiter), ("quotechar", quotechar)):
            if value is not None and (not isinstance(value, str) or len(value) != 1 or value in "\r\n"):
                raise ConfigError(f"{name} is {value!r}. Give one character.")
        self._delimiter = delimiter
        self._quotechar = quotechar
        self._column_names = None if column_names is None else list(column_names)
        self._columns: list[list[str]] = []
        super().__init__(files)

    def _bounds(self, number: int, opened: BinaryIO) -> RowBounds:
        return RowBounds.of(self._records(number, opened))

    def _records(self, number: int, opened: BinaryIO) -> Iterator[tuple[int, int]]:
        file = self._source_files[number]
        if file.suffix in _OTHER_SUFFIXES:
            raise SourceError(
                f"{file.name} is no CSV file, by its name. Read it with source="
                f"{file.suffix[1:] if 'json' not in file.suffix else 'json'!r}."
            )
        self._columns.append(self._column_names or [])
        records = _Records(self._reader, number, lines(opened, after_bom(opened)))
        for cells in records:
            if isinstance(cells, csv.Error) and "unexpected end of data" in str(cells):
                raise SourceError(
                    f"{file.name} can't be read as CSV: a quote that is opened at byte {records.start:,} or later is "
                    "never closed, which leaves open where the rows after it are. Close it."
                )
            if self._columns[number]:
                yield records.start, records.stop
            elif isinstance(cells, csv.Error):
                raise SourceError(f"{file.name} has no header that can be read: {_in_words(cells)}. Correct it.")
            else:
                self._columns[number] = _checked_header(file.name, cells)

    def _parsed(self, number: int, start: int, raw: bytes) -> Mapping[str, Any]:
        text = self.decoded(number, start, raw)
        columns = self._columns[number]
        try:
            cells = next(self._reader(number, iter([text])))
        except csv.Error as error:
            num_lines = raw.rstrip(b"\r\n").count(b"\n") + 1
            over = f", in the {num_lines} lines that a quote holds together" if num_lines > 1 else ""
            raise self.malformed(number, start, raw, 0, f"is not valid CSV: {_in_words(error)}{over}") from None
        if len(cells) != len(columns):
            what = f"has {len(cells)} cells, and there are {len(columns)} columns ({columns_named(columns)})"
            advice = "Put a cell that holds a delimiter in quotes, or correct or delete that line."
            raise self.malformed(number, start, raw, 0, what, advice)
        return dict(zip(columns, cells, strict=True))

    def _reader(self, number: int, texts: Iterator[str]) -> Iterator[list[str]]:
        if csv.field_size_limit() < _LONGEST_CELL:
            csv.field_size_limit(_LONGEST_CELL)  # one for the process
        delimiter = self._delimiter or ("\t" if self._source_files[number].suffix == ".tsv" else ",")
        return csv.reader(texts, delimiter=delimiter, quotechar=self._quotechar, strict=True)

    def fingerprint(self) -> str:
        """What tells these rows from others: how cells are told apart, and the files."""
        return self._told_apart_by("csv", self._delimiter, self._quotechar, self._column_names)


class _Records:
    """The records of some lines: their cells, or why they can't be read.

    Attributes:
        start: the byte where the record that was given last starts.
        stop: where it stops.
    """

    def __init__(
        self,
        reader: Callable[[int, Iterator[str]], Iterator[list[str]]],
        number: int,
        numbered: Iterator[tuple[int, bytes]],
    ) -> None:
        self.start, self.stop = -1, 0
        self._numbered = numbered
        self._reader = reader(number, self._texts())

    def __iter__(self) -> Iterator[list[str] | csv.Error]:
        while True:
            self.start = -1
            try:
                cells = next(self._reader)
            except StopIteration:
                return
            except csv.Error as error:  # the reader goes on after the line where it met it
                yield error
            else:
                if cells:
                    yield cells

    def _texts(self) -> Iterator[str]:
        for place, line in self._numbered:
            if self.start < 0:
                self.start = place
            self.stop = place + len(line)
            # What is no UTF-8 is found when the row is read.
            yield line.decode("utf-8", "surrogateescape")


def _checked_header(name: str, cells: list[str]) -> list[str]:
    try:
        "".join(cells).encode()
    except UnicodeEncodeError:
        raise SourceError(f"{name}, line 1 is not UTF-8. Save the file as UTF-8, or give its encoding=...") from None
    twice = sorted({cell for cell in cells if cells.count(cell) > 1})
    if twice:
        raise SourceError(
            f"{name} names {listed(twice)} more than once in its header, so that one column would hide the other. "
            "Rename them; of a file without a header, give column_names=[...]."
        )
    return cells


def _in_words(error: csv.Error) -> str:
    if "new-line character" in str(error):
        return (
            "a carriage return stands outside quotes. Lines end with \\n or \\r\\n; quote the cell, or convert the file"
        )
    return str(error)
