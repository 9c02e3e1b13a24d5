"""Rows of JSON files, exactly as they are written.

Hugging Face's reader guesses a type for each block of a file and casts later blocks to the first one's: a text that
looks like a date comes back as ``2024-01-01 00:00:00``, and half of a surrogate pair disappears. Here a row is what
``json.loads`` gives, whatever stands in the other rows.
"""

import json
from collections.abc import Mapping
from typing import Any, BinaryIO

from torchpipe.errors import MalformedRow, SourceError
from torchpipe.sources.file_rows import FileRows, after_bom, lines
from torchpipe.sources.json_list import bounds_in_list
from torchpipe.sources.jsonl_index import line_starts
from torchpipe.sources.line_starts import LineStarts
from torchpipe.sources.row_bounds import RowBounds

_LINES = (".jsonl", ".ndjson")
"""Files of such names hold an object a line, or a list; of others it is looked whether all is one object."""

_KEPT_FROM = 2**24
"""Of files with so many bytes together, where the lines are is kept; of fewer it is found as fast as looked up."""

_MOST_MAPPED = 256
"""Of more files, an index is opened for each row that is read: a process may not have so many open."""


class JsonRows(FileRows):
    """The rows of JSON files: lists of objects, an object a line, or one object.

    A list is parsed when it is opened, since only that tells where its items are; a broken one is refused then. Of
    lines, each is a row, and is parsed when it is read.

    Numbers are Python's: integers of any size, and floats, so that ``1.0`` stays a float and ``1e5`` is 100000.0, as
    it is where a model is asked. A key that stands twice in an object, and half of a surrogate pair, make a malformed
    row.
    """

    can_be_read_ahead = True

    def _bounds(self, number: int, opened: BinaryIO) -> RowBounds:
        begin = after_bom(opened)
        start, line, head = _first_filled(opened, begin)
        if not head:
            return RowBounds.of([])
        file = self._source_files[number]
        opened.seek(start)
        if head.startswith((b"PAR1", b"ARROW1")):
            kind = "parquet" if head.startswith(b"PAR1") else "arrow"
            raise SourceError(f"{file.name} is a file of another format, not JSON. Read it with source={kind!r}.")
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise SourceError(f"{file.name} is written in UTF-16. Save it as UTF-8.")
        if head.startswith(b"["):
            return RowBounds.of(bounds_in_list(file.name, opened, start, line=line))
        if file.suffix not in _LINES and _is_one_object(opened, start):
            return RowBounds.of([(start, opened.seek(0, 2))])
        return line_starts(
            self._paths[number],
            begin,
            name=file.name,
            cache_dir=file.cache_dir,
            keep=self._num_bytes >= _KEPT_FROM,
            mapped=len(self._paths) <= _MOST_MAPPED,
        )

    def _parsed(self, number: int, start: int, raw: bytes) -> Mapping[str, Any]:
        if isinstance(self._row_bounds[number], LineStarts):  # which leave the blank lines after a row to it
            raw = raw.partition(b"\n")[0].removesuffix(b"\r")
        text = self.decoded(number, start, raw)
        try:
            # json.loads would make a decoder for each row, but says what a byte order mark is.
            row = json.loads(text) if text.startswith("\ufeff") else _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            raise self._not_json(number, start, raw, text, error) from None
        if not isinstance(row, dict):
            what = f"holds a {type(row).__name__}, and a row is an object of columns"
            raise self.malformed(number, start, raw, 0, what, "Correct that line.")
        if "\\u" in text and _holds_surrogate(row):
            what = "holds a lone surrogate (half of a \\ud83d\\ude00 pair), which has no UTF-8 form"
            raise self.malformed(number, start, raw, 0, what)
        return row

    def fingerprint(self) -> str:
        """What tells these rows from others: path, size, time of change, inode and ends of each file."""
        return self._told_apart_by("json")

    def _not_json(self, number: int, start: int, raw: bytes, text: str, error: Exception) -> MalformedRow:
        place, what = 0, str(error)
        if isinstance(error, RecursionError):
            what = "it nests deeper than can be read"
        elif isinstance(error, json.JSONDecodeError):
            place, what = len(text[: error.pos].encode()), f"{error.msg.removesuffix(' at')} at column {error.colno}"
        return self.malformed(number, start, raw, place, f"is not valid JSON: {what}")


def _first_filled(opened: BinaryIO, place: int) -> tuple[int, int, bytes]:
    """The byte of the first character that is no space, its line, and what begins there; nothing where there is none.

    Args:
        opened: the file, at its text's beginning.
        place: that byte.
    """
    line = 1
    while part := opened.read(2**16):
        filled = part.lstrip()
        space = part[: len(part) - len(filled)]
        line += space.count(b"\n")
        place += len(space)
        if filled:
            return place, line, filled[:16]
    return place, line, b""


def _is_one_object(opened: BinaryIO, start: int) -> bool:
    """Whether a file that is no list is one object over many lines, or at least no object a line.

    Args:
        opened: the file, at its first character that is no space.
        start: that byte.
    """
    filled = (line for _, line in lines(opened, start) if line.strip())
    if _is_json(next(filled)):
        return False
    # Two lines that begin objects are two rows, of which the first is broken; but an object may hold objects.
    if not next(filled, b"").startswith(b"{"):
        return True
    opened.seek(start)
    return _is_json(opened.read())


def _is_json(raw: bytes) -> bool:
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True


def _holds_surrogate(row: Mapping[str, Any]) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)
