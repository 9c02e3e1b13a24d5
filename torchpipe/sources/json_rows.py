"""Rows of local JSON files, exactly as they are written.

Hugging Face's reader guesses a type for each block of a file and casts later blocks to the first one's: a text that
looks like a date comes back as ``2024-01-01 00:00:00``, and half of a surrogate pair disappears. Here a row is what
``json.loads`` gives, whatever stands in the other rows. Text stays in the file: a row costs 16 bytes of memory.
"""

import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe.errors import SourceError
from torchpipe.sources.identity import file_identity

SUFFIXES = (".json", ".jsonl", ".ndjson")
_BOM = b"\xef\xbb\xbf"
_READ_AT_ONCE = 1 << 20


class JsonRows:
    """The rows of JSON files, by number: lists of objects, an object a line, or one object.

    All rows are parsed once when the files are opened, so that a malformed one is found then.

    Args:
        paths: the files, read in this order.
        check: False leaves that to when a row is read, for who reads each row once: files of an object a line are only
            cut into lines when they are opened.

    Raises:
        SourceError: a file is missing or empty, or a line is not one JSON object in UTF-8; the sentence names it. When
            a row is read: the file has changed since it was opened.
    """

    def __init__(self, paths: Sequence[Path], *, check: bool = True) -> None:
        self._paths = [Path(path) for path in paths]
        self._is_checked: list[bool] = []
        self._starts, self._stops = array("q"), array("q")
        self._first_rows: list[int] = []
        self._stamps: list[tuple[int, int]] = []
        for path in self._paths:
            self._first_rows.append(len(self._starts))
            self._stamps.append(_stamp(os.stat(path)))
            bounds, is_checked = _row_bounds(path, check)
            self._is_checked.append(is_checked)
            for start, stop in bounds:
                self._starts.append(start)
                self._stops.append(stop)
        self._files: list[int] = []

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int, /) -> Mapping[str, Any]:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int], /) -> list[Mapping[str, Any]]:
        """Several rows; whether a file has changed is looked at once for all of them."""
        if not self._files:
            self._files = [os.open(path, os.O_RDONLY) for path in self._paths]
        unchanged = -1  # the file that was looked at last
        rows: list[Mapping[str, Any]] = []
        for index in indices:
            if not -len(self) <= index < len(self):
                raise IndexError(f"Row {index} was asked for, and there are {len(self)} rows.")
            index %= len(self)
            file = bisect_right(self._first_rows, index) - 1
            if file != unchanged:
                if _stamp(os.fstat(self._files[file])) != self._stamps[file]:
                    raise SourceError(f"{self._paths[file]} has changed since it was opened. Start the run again.")
                unchanged = file
            start = self._starts[index]
            raw = os.pread(self._files[file], self._stops[index] - start, start)
            if self._is_checked[file]:
                rows.append(_DECODER.decode(raw.decode("utf-8", "surrogatepass")))
            else:
                rows.append(_row_at(self._paths[file], start, raw))
        return rows

    def fingerprint(self) -> str:
        """What tells these rows from others: path, size, time of change, inode and ends of each file."""
        return fingerprint([file_identity(path) for path in self._paths])

    def __del__(self) -> None:
        for file in getattr(self, "_files", ()):
            os.close(file)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": []}  # another process opens its own


def _stamp(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_size, stat.st_mtime_ns


def _row_bounds(path: Path, check: bool) -> tuple[list[tuple[int, int]], bool]:
    """Where each row's bytes start and stop, and whether the rows are known to be objects."""
    with path.open("rb", buffering=_READ_AT_ONCE) as file:
        begin = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        file.seek(begin)
        first_line = next((line.strip() for line in file if not line.isspace()), b"")
        if not first_line:
            raise SourceError(f"{path} is empty. Give a file with at least one row.")
        is_list = first_line.startswith(b"[")
        if not is_list and (path.suffix != ".json" or _is_json(first_line)):
            file.seek(begin)
            return _bounds_of_lines(path, file, begin, check), check
    raw = path.read_bytes()
    if is_list:
        bounds = _bounds_in_list(path, raw, begin)
        if not bounds:
            raise SourceError(f"{path} holds an empty list. Give a file with at least one row.")
        return bounds, True
    # one object over many lines
    _parsed(path, 1 + raw.count(b"\n", 0, raw.index(first_line[:1], begin)), raw[begin:])
    return [(begin, len(raw))], True


def _bounds_of_lines(path: Path, lines: Iterable[bytes], start: int, check: bool) -> list[tuple[int, int]]:
    bounds: list[tuple[int, int]] = []
    for number, line in enumerate(lines, start=1):
        if not line.isspace():
            size = len(line) - line.endswith(b"\n")
            if check:
                _parsed(path, number, line[:size])
            bounds.append((start, start + size))
        start += len(line)
    return bounds


def _bounds_in_list(path: Path, raw: bytes, begin: int) -> list[tuple[int, int]]:
    """The list's items, found by decoding them one after another; offsets are counted in bytes."""
    text = _decoded(path, 1, raw[begin:])
    bounds: list[tuple[int, int]] = []
    place, line, counted, offset = text.index("[") + 1, 1, 0, begin
    while True:
        place = _skip_space(text, place)
        if text[place : place + 1] == "]" and not bounds:
            place += 1
            break
        line += text.count("\n", counted, place)
        offset += len(text[counted:place].encode())
        counted = place
        try:
            row, end = _CHECKING.raw_decode(text, place)
        except (ValueError, RecursionError) as error:
            # A decoding error counts lines from the text's beginning itself.
            raise _malformed(path, 1 if isinstance(error, json.JSONDecodeError) else line, error) from None
        size = len(text[place:end].encode())
        _check_object(path, line, row, text[place:end])
        bounds.append((offset, offset + size))
        offset += size
        line += text.count("\n", place, end)
        counted = end
        place = _skip_space(text, end)
        if text[place : place + 1] not in (",", "]"):
            line += text.count("\n", counted, place)
            raise SourceError(
                f"{path}, line {line} is not valid JSON: a ',' or the ']' that ends the list is missing. "
                "Correct that line."
            )
        place += 1
        if text[place - 1] == "]":
            break
    if rest := text[place:].strip():
        line = 1 + text.count("\n", 0, text.rindex(rest[-1]))
        raise SourceError(
            f"{path}, line {line} is not valid JSON: there is more after the list's end. Correct that line."
        )
    return bounds


def _skip_space(text: str, place: int) -> int:
    while text[place : place + 1] in (" ", "\n", "\r", "\t"):
        place += 1
    return place


def _row_at(path: Path, start: int, raw: bytes) -> dict[str, Any]:
    """The row of a line that begins at a byte of the file."""
    try:
        return _parsed(path, 0, raw)
    except SourceError:
        with path.open("rb") as file:  # lines are counted only where one has to be named
            return _parsed(path, 1 + file.read(start).count(b"\n"), raw)


def _parsed(path: Path, line: int, raw: bytes) -> dict[str, Any]:
    text = _decoded(path, line, raw)
    try:
        row = _CHECKING.decode(text)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, line, error) from None
    _check_object(path, line, row, text)
    return row


def _check_object(path: Path, line: int, row: Any, text: str) -> None:
    if not isinstance(row, dict):
        raise SourceError(
            f"{path}, line {line} holds a {type(row).__name__}, and a row is an object of columns. Correct that line."
        )
    if "\\u" in text:
        try:
            json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise SourceError(
                f"{path}, line {line} holds a lone surrogate (half of a \\ud83d\\ude00 pair), which has no UTF-8 form. "
                "Correct or delete that line."
            ) from None


def _decoded(path: Path, first_line: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        raise SourceError(f"{path}, line {line} is not UTF-8 ({error.reason}). Save the file as UTF-8.") from None


def _is_json(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except ValueError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


_DECODER = json.JSONDecoder()
_CHECKING = json.JSONDecoder(object_pairs_hook=_unique)


def _malformed(path: Path, line: int, error: Exception) -> SourceError:
    what = "it nests deeper than can be read" if isinstance(error, RecursionError) else str(error)
    if isinstance(error, json.JSONDecodeError):
        what = f"{error.msg} at column {error.colno}"
        line += error.lineno - 1
    return SourceError(f"{path}, line {line} is not valid JSON: {what}. Correct or delete that line.")
