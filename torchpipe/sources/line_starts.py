"""Where the lines of one file start: in memory, or in a file of their own that is mapped."""

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe.errors import SourceError
from torchpipe.sources.file_cache import Output
from torchpipe.sources.row_bounds import RowBounds

_FORMAT = "torchpipe line starts 1"
_CHUNK = 2**16
"""So many starts have a checksum together."""
_ITEM = 8


class LineStarts(RowBounds):
    """The bytes where lines start, and where the last one stops, in memory. A line stops where the next one starts, so
    that blank lines after it are in its span.

    Args:
        starts: int64 [lines + 1].

    >>> LineStarts(np.array([0, 5, 9]))[1]
    (5, 9)
    """

    def __init__(self, starts: np.ndarray) -> None:
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, row: int) -> tuple[int, int]:
        start, stop = self._starts[row : row + 2].tolist()
        return start, stop


class KeptStarts(LineStarts):
    """Starts that stay in their file, of which all processes share one copy in memory.

    The file holds int64 [lines + 1], little-endian, then a description in JSON, then its length as 8 bytes. A part is
    checked when it is read for the first time. Another process opens the file by itself.

    Args:
        path: of the file.
        name: what messages call the file that the lines are in.
        mapped: False: no file stays open, and each row's bytes are read when they are asked for, unchecked.

    Raises:
        SourceError: the file is gone, or is not as it was written.
    """

    def __init__(self, path: Path, *, name: str, mapped: bool = True) -> None:
        self._path = path
        self._name = name
        self._mapped = mapped
        described = _description(path)
        if described is None:
            raise self._unusable("is damaged")
        self._described = described
        self._checked = bytearray(len(described["sums"]))
        self._map: np.ndarray | None = None

    def __len__(self) -> int:
        return self._described["starts"] - 1

    def __getitem__(self, row: int) -> tuple[int, int]:
        if not self._mapped:
            return self._read(row)
        starts = self._opened() if self._map is None else self._map
        for chunk in (row // _CHUNK, (row + 1) // _CHUNK):
            if not self._checked[chunk]:
                self._check(starts, chunk)
        start, stop = starts[row : row + 2].tolist()
        return start, stop

    def _read(self, row: int) -> tuple[int, int]:
        try:
            start, stop = np.fromfile(self._path, "<i8", 2, offset=row * _ITEM).tolist()
        except (FileNotFoundError, ValueError):
            raise self._unusable("is gone, or was made anew") from None
        return start, stop

    def _opened(self) -> np.ndarray:
        if _description(self._path) != self._described:
            raise self._unusable("is gone, or was made anew")
        self._map = np.memmap(self._path, "<i8", "r", shape=(self._described["starts"],)).view(np.ndarray)
        return self._map

    def _check(self, starts: np.ndarray, chunk: int) -> None:
        if zlib.crc32(starts[chunk * _CHUNK : (chunk + 1) * _CHUNK].data) != self._described["sums"][chunk]:
            raise self._unusable("is damaged")
        self._checked[chunk] = 1

    def _unusable(self, why: str) -> SourceError:
        return SourceError(f"The index of {self._name}, {self._path}, {why}. Delete it, and start the run again.")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_map": None, "_checked": bytearray(len(self._checked))}


def write_starts(parts: Iterable[np.ndarray], out: Output, *, of: str) -> None:
    """Writes a file of :class:`KeptStarts`, holding little of it at a time.

    Args:
        parts: int64 [any], in order.
        out: takes its bytes.
        of: what tells the file that the lines are in from others.
    """
    sums: list[int] = []
    count = 0
    for chunk in _chunks(parts):
        raw = chunk.tobytes()
        sums.append(zlib.crc32(raw))
        count += len(chunk)
        out.write(raw)
    described = json.dumps({"format": _FORMAT, "of": of, "starts": count, "sums": sums}).encode()
    out.write(described + len(described).to_bytes(_ITEM, "little"))


def starts_are_of(path: Path, of: str) -> bool:
    """Whether a file holds the starts of ``of``, and its description and its ends are as they were written."""
    described = _description(path)
    if described is None or described["of"] != of:
        return False
    with path.open("rb") as file:
        for chunk in {0, len(described["sums"]) - 1}:
            file.seek(chunk * _CHUNK * _ITEM)
            count = min(_CHUNK, described["starts"] - chunk * _CHUNK)
            if zlib.crc32(file.read(count * _ITEM)) != described["sums"][chunk]:
                return False
    return True


def _description(path: Path) -> dict[str, Any] | None:
    """What a file of starts says of itself; None: it is no such file, or is damaged or gone."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _ITEM))
            length = int.from_bytes(file.read(), "little")
            file.seek(max(0, size - _ITEM - length))
            described = json.loads(file.read(min(length, size)))
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(described, dict) or described.get("format") != _FORMAT:
        return None
    return described if size == described["starts"] * _ITEM + length + _ITEM else None


def _chunks(parts: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    held, count = [], 0
    for part in parts:
        held.append(part.astype("<i8", copy=False))
        count += len(part)
        if count >= _CHUNK:
            joined = np.concatenate(held)
            whole = count - count % _CHUNK
            yield from np.split(joined[:whole], range(_CHUNK, whole, _CHUNK))
            held, count = [joined[whole:]], count - whole
    if count:
        yield np.concatenate(held)
