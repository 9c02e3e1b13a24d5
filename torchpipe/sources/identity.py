"""What tells one file, or one object that gives rows, from others."""

import hashlib
import os
from pathlib import Path
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe.errors import SourceError

_END = 64 * 2**10
"""So many bytes at either end of a file are hashed."""


def object_fingerprint(source: Any) -> str:
    """What tells the rows of an object from others: 32 hexadecimal characters.

    A Hugging Face data set counts by the bytes of its table, its indices and its format, at about a second a GB: the
    fingerprint that it has by itself may be random, and may stay the same where a mapped function reads another file.
    Other objects count as :func:`torchpipe._fingerprint.fingerprint` says: by their method ``fingerprint()``, or by
    what they hold, if their code reads nothing from outside.

    Raises:
        NoFingerprint: it doesn't say what it holds.
    """
    if type(source).__module__.partition(".")[0] == "datasets" and hasattr(source, "data"):
        return fingerprint([_arrow(source.data), _arrow(source._indices), repr(source.features), source.format])
    return fingerprint(source)


def file_identity(path: Path, *, content: bool = False) -> str:
    """What tells a file from others: path, size, time of change, inode and the hash of its ends; or of all its bytes.

    Raises:
        SourceError: there is no such file, or it can't be read.
    """
    try:
        with path.open("rb") as file:
            if content:
                return f"{path.suffix} content {hashlib.file_digest(file, _blake2b).hexdigest()}"
            stat = os.fstat(file.fileno())
            ends = _blake2b(file.read(_END))
            file.seek(max(_END, stat.st_size - _END))
            ends.update(file.read(_END))
    except OSError as error:
        raise SourceError(f"Can't read {path}: {error.strerror}. Check its path.") from error
    told = f"{stat.st_size} bytes, changed {stat.st_mtime_ns}, inode {stat.st_ino}, ends {ends.hexdigest()}"
    return f"{path.absolute()}: {told}"


def _blake2b(start: bytes = b"") -> Any:
    return hashlib.blake2b(start, digest_size=16)


def _arrow(table: Any) -> list[Any]:
    """A table of Arrow by its columns' types and bytes; empty for None. A buffer that several share counts once."""
    if table is None:
        return []
    told: list[Any] = [str(getattr(table, "schema", ""))]
    numbers: dict[tuple[int, int], int] = {}
    digest = _blake2b()
    for batch in getattr(table, "table", table).to_batches():
        for column in batch.columns:
            told.append((len(column), column.offset, str(column.type)))
            for buffer in column.buffers():
                place = (0, 0) if buffer is None else (buffer.address, buffer.size)
                if buffer is not None and place not in numbers:
                    digest.update(buffer)
                told.append((numbers.setdefault(place, len(numbers)), place[1]))
    return [*told, digest.hexdigest()]
