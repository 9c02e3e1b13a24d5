"""Rows that stay in their files: where each begins and ends is all that is held in memory."""

import os
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, BinaryIO

from torchpipe._fingerprint import fingerprint
from torchpipe._sentences import printable
from torchpipe._suggest import listed
from torchpipe.errors import MalformedRow, MissingFileError, SourceError
from torchpipe.sources.reading import reading
from torchpipe.sources.row_bounds import RowBounds
from torchpipe.sources.source_file import SourceFile, warn_once

BOM = b"\xef\xbb\xbf"

_MOST_OPEN = 64
"""So many files are kept open; of more, each is opened for the row that is read."""

_MOST_NAMED = 3
"""Files whose names stand for all of them in a line."""

_AT_ONCE = 2**20

_PIECE = 2**18
"""So many bytes of rows are read by one call of the system. More would not stay in a processor's cache."""


class FileRows(ABC):
    """The rows of files, by number. Opening finds where each row stands; a row is parsed when it is read.

    A row costs 16 bytes, and opening holds one row at a time. A row that can't be read as it is written
    raises when it is read, so that the rows around it can be; :func:`~torchpipe.sources.check_rows` reads all of them.

    Args:
        files: read in this order: paths, or files that are elsewhere or compressed.

    Raises:
        SourceError: a file is missing or can't be read, or what is wrong with it leaves open where its rows are; or all
            are empty. When a row is read: the file has changed since it was opened, or was deleted or replaced.
        MalformedRow: when a row is read; the sentence names file, line and byte.
    """

    def __init__(self, files: Sequence[Path | SourceFile]) -> None:
        self._source_files = [file if isinstance(file, SourceFile) else SourceFile.of_path(file) for file in files]
        self._paths = [file.path() for file in self._source_files]
        self._num_bytes = sum(path.stat().st_size for path in self._paths if path.exists())
        self._stamps: list[tuple[int, int, int]] = []
        self._row_bounds: list[RowBounds] = []
        self._opened: dict[int, int] = {}
        self._counted: dict[int, tuple[int, int]] = {}
        empty: list[str] = []
        for number, (file, path) in enumerate(zip(self._source_files, self._paths, strict=True)):
            with reading(file.name, path), path.open("rb") as opened:
                self._stamps.append(_stamp(os.fstat(opened.fileno())))
                self._row_bounds.append(self._bounds(number, opened))
            if not len(self._row_bounds[number]):
                empty.append(f"{file.name} {_how_empty(path)}")
        self._ends = list(accumulate(map(len, self._row_bounds)))
        pass_over(empty, len(self._source_files))

    @abstractmethod
    def _bounds(self, number: int, opened: BinaryIO) -> RowBounds:
        """Where each row of file ``number`` starts and stops.

        Raises:
            SourceError: it can't be told.
        """

    @abstractmethod
    def _parsed(self, number: int, start: int, raw: bytes) -> Mapping[str, Any]:
        """The row of file ``number`` that stands at a byte.

        Raises:
            MalformedRow: it is not written as it should be.
        """

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int, /) -> Mapping[str, Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"Row {index} was asked for, and there are {len(self)} rows.")
        index %= len(self)
        number, (start, stop) = self._place(index)
        return self._parsed(number, start, self._read(number, start, stop))

    def each_of(self, indices: Sequence[int]) -> Iterator[Mapping[str, Any]]:
        """The rows of some numbers, from 0, in their order; those that stand near each other are read in one piece.

        Raises:
            IndexError: there is no such row.
            SourceError, MalformedRow: as for a single row, when its turn comes.
        """
        held, begin, end, raw = -1, 0, 0, b""  # the file and the bytes of the piece that was read last
        for place, index in enumerate(indices):
            if not 0 <= index < len(self):
                raise IndexError(f"Row {index} was asked for, and there are {len(self)} rows.")
            number, (start, stop) = self._place(index)
            if number != held or start < begin or stop > end:
                begin, end = start, self._end_of_piece(indices, place, number)
                held, raw = number, self._read(number, begin, end)
            yield self._parsed(number, start, raw[start - begin : stop - begin])

    def _place(self, index: int) -> tuple[int, tuple[int, int]]:
        """The file of a row, and where the row starts and stops there."""
        number = bisect_right(self._ends, index)
        bounds = self._row_bounds[number]
        return number, bounds[index - self._ends[number] + len(bounds)]

    def _end_of_piece(self, indices: Sequence[int], place: int, number: int) -> int:
        """Where a piece of a file ends that begins with the row at a place, and holds those after it that ascend."""
        before = indices[place]
        _, (begin, end) = self._place(before)
        for following in islice(indices, place + 1, None):
            if not before < following < self._ends[number]:
                break
            _, (_, stop) = self._place(following)
            if stop - begin > _PIECE:
                break
            before, end = following, stop
        return end

    def describe(self) -> str:
        """The names of the files; of many, the first ones and how many more there are.

        >>> from tempfile import TemporaryDirectory
        >>> from torchpipe.sources.json_rows import JsonRows
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder, "news.jsonl")
        ...     _ = file.write_text("{}")
        ...     JsonRows([file]).describe() == str(file)
        True
        """
        names = [file.name for file in self._source_files]
        more = len(names) - _MOST_NAMED
        return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more files" if more > 0 else "")

    @abstractmethod
    def fingerprint(self) -> str:
        """What tells these rows from others; see :meth:`_told_apart_by`.

        Raises:
            NoFingerprint: a file is behind an address whose server doesn't say when it changed.
        """

    def _told_apart_by(self, *settings: Any) -> str:
        """The fingerprint of some settings of a reader, and of what tells each file from others."""
        return fingerprint([*settings, [file.identity() for file in self._source_files]])

    def _read(self, number: int, start: int, stop: int) -> bytes:
        descriptor = self._opened.get(number)
        if descriptor is not None:
            return self._read_unchanged(number, descriptor, start, stop)
        with self._open(number) as descriptor:
            return self._read_unchanged(number, descriptor, start, stop)

    @contextmanager
    def _open(self, number: int) -> Iterator[int]:
        """A descriptor of a file, which stays open while not too many are."""
        descriptor, mine = self._opened.get(number), False
        if descriptor is None:
            name, path = self._source_files[number].name, self._paths[number]
            with reading(name, path):
                try:
                    descriptor, mine = os.open(path, os.O_RDONLY | os.O_CLOEXEC), True
                except FileNotFoundError:
                    raise self._missing(number) from None
        try:
            yield descriptor
        finally:
            if mine and (len(self._opened) >= _MOST_OPEN or self._opened.setdefault(number, descriptor) != descriptor):
                os.close(descriptor)

    def _read_unchanged(self, number: int, descriptor: int, start: int, stop: int) -> bytes:
        stat = os.fstat(descriptor)
        changed = _stamp(stat) != self._stamps[number] or (not stat.st_nlink and self._is_replaced(number))
        raw = b"" if changed else _pread(descriptor, start, stop)
        if changed or len(raw) < stop - start:
            raise SourceError(
                f"{self._source_files[number].name} has changed since it was opened. Start the run again."
            )
        return raw

    def _is_replaced(self, number: int) -> bool:
        """Whether a file without a name, that is open, has a successor; False where it is a copy of our own, which
        another process may have made anew, with the same bytes.

        Raises:
            MissingFileError: it has none.
        """
        path = self._paths[number]
        if path != self._source_files[number].where:
            return False
        try:
            return _stamp(path.stat()) != self._stamps[number]  # some file systems count no names
        except FileNotFoundError:
            raise self._missing(number) from None

    def _missing(self, number: int) -> MissingFileError:
        return MissingFileError(
            f"{self._source_files[number].name} is not there any more: it was deleted or moved after the run began. "
            "Put it back, and start the run again."
        )

    def _line_of(self, number: int, place: int) -> int:
        """The line of a byte, from 1. Counting goes on from where it came to last, if it was before."""
        counted, line = self._counted.get(number, (0, 1))
        if place < counted:
            counted, line = 0, 1
        with self._open(number) as descriptor:
            while counted < place and (part := _pread(descriptor, counted, min(place, counted + _AT_ONCE))):
                counted, line = counted + len(part), line + part.count(b"\n")
        self._counted[number] = counted, line
        return line

    def malformed(self, number: int, start: int, raw: bytes, place: int, what: str, advice: str = "") -> MalformedRow:
        """The error of a row, with the line and the byte where it is wrong.

        Args:
            number: of the file.
            start: the row's first byte in it.
            raw: the row's bytes.
            place: the byte of the row that is wrong.
            what: what is wrong, as "is not valid JSON: ...".
            advice: what to do about it, beside correcting the line.
        """
        name = self._source_files[number].name
        line = self._line_of(number, start) + raw.count(b"\n", 0, place)
        begin = raw.rfind(b"\n", 0, place) + 1
        advice = advice or "Correct or delete that line."
        error = MalformedRow(f"{name}, line {line} {what} (byte {start + place:,} of the file). {advice}")
        error.path, error.line, error.offset = name, line, start + place
        error.column = 1 + len(raw[begin:place].decode("utf-8", "replace"))
        error.text = raw.decode("utf-8", "replace")
        return error

    def decoded(self, number: int, start: int, raw: bytes) -> str:
        """The row's text.

        Raises:
            MalformedRow: it is not UTF-8.
        """
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            what = f"is not UTF-8 ({error.reason})"
            raise self.malformed(number, start, raw, error.start, what, "Save the file as UTF-8.") from None

    def __del__(self) -> None:
        for descriptor in getattr(self, "_opened", {}).values():
            os.close(descriptor)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": {}}  # another process opens its own


def pass_over(empty: Sequence[str], num_files: int) -> None:
    """Warns of files without rows, which are passed over.

    Args:
        empty: a sentence of each, without its full stop.
        num_files: all that there are.

    Raises:
        SourceError: no other file is left.
    """
    if len(empty) == num_files:
        raise SourceError(f"{empty[0] if empty else 'No file'}. Give a file with at least one row.")
    if empty:
        warn_once(
            f"{len(empty)} of {num_files} files hold no rows: {'; '.join(empty[:3])}{'; ...' if empty[3:] else ''}. "
            "They are passed over."
        )


def after_bom(opened: BinaryIO) -> int:
    """Where the text of a file begins, with the file placed there: a byte order mark is none of it."""
    begin = len(BOM) if opened.read(len(BOM)) == BOM else 0
    opened.seek(begin)
    return begin


def lines(opened: BinaryIO, start: int) -> Iterator[tuple[int, bytes]]:
    """Each line with its first byte's place. A line ends after ``\\n``, and nowhere else."""
    for line in opened:
        yield start, line
        start += len(line)


def begins_with(path: Path, num_chars: int = 24) -> str:
    """The first characters of a file, for a sentence."""
    with path.open("rb") as file:
        return repr(printable(file.read(num_chars).decode("utf-8", "backslashreplace")))


def _how_empty(path: Path) -> str:
    if path.stat().st_size == 0:
        return "is empty"
    with path.open("rb") as file:
        after_bom(file)
        blank = all(not part.strip() for part in iter(lambda: file.read(_AT_ONCE), b""))
    return "holds only whitespace" if blank else "holds no rows"


def columns_named(names: Sequence[str], most: int = 12) -> str:
    """Some columns' names, for a sentence."""
    return listed(names[:most]) + (", ..." if len(names) > most else "")


def _pread(descriptor: int, start: int, stop: int) -> bytes:
    """The bytes of a span; fewer where the file ends before. One call of the system gives at most 2 GiB."""
    parts: list[bytes] = []
    while start < stop and (part := os.pread(descriptor, min(stop - start, 2**30), start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _stamp(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_size, stat.st_mtime_ns, stat.st_ino
