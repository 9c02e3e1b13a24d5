"""What tells one file, or one object that gives rows, from others."""

import hashlib
import os
from pathlib import Path
from typing import Any

from torchpipe._fingerprint import fingerprint
from torchpipe._fingerprint_memory import answer_of
from torchpipe.sources.reading import reading

_END = 64 * 2**10
"""So many bytes at either end of a file are hashed."""


def object_fingerprint(source: Any) -> str:
    """What tells the rows of an object from others: 32 hexadecimal characters.

    A Hugging Face data set counts by the bytes of its table, its indices and its format, at about a second a GB: the
    fingerprint that it has by itself may be random, and may stay the same where a mapped function reads another file.
    A data set that has a text ``fingerprint``, as stored and packed ones have, counts by that. Other objects count as
    :func:`torchpipe._fingerprint.fingerprint` says: by their method ``fingerprint()``, or by what they hold, if their
    code reads nothing from outside.

    Raises:
        NoFingerprint: it doesn't say what it holds.
    """
    return answer_of(source, "rows", lambda: _fingerprint_of(source))


def _fingerprint_of(source: Any) -> str:
    if type(source).__module__.partition(".")[0] == "datasets" and hasattr(source, "data"):
        return fingerprint([_arrow(source.data), _arrow(source._indices), repr(source.features), source.format])
    said = getattr(source, "fingerprint", None)
    return said if isinstance(said, str) else fingerprint(source)


def file_identity(path: Path, *, content: bool = False, suffix: str | None = None) -> str:
    """What tells a file from others: path, size, time of change, inode and the hash of its ends; or of all its bytes.

    Args:
        path: where it is.
        content: True: nothing but its suffix and the hash of all its bytes.
        suffix: of what it holds; None: that of its name.

    Raises:
        SourceError: there is no such file, or it can't be read.
    """
    with reading(str(path), path), path.open("rb") as file:
        if content:
            kind = path.suffix if suffix is None else suffix
            return f"{kind} content {hashlib.file_digest(file, _blake2b).hexdigest()}"
        stat = os.fstat(file.fileno())
        ends = _blake2b(file.read(_END))
        file.seek(max(_END, stat.st_size - _END))
        ends.update(file.read(_END))
    told = f"{stat.st_size} bytes, changed {stat.st_mtime_ns}, inode {stat.st_ino}, ends {ends.hexdigest()}"
    # A name of bytes that are no text would have no UTF-8 form.
    return f"{path.absolute()}: {told}".encode("utf-8", "backslashreplace").decode()


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
