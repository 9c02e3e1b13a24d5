"""Compressed files: which kind one is, and its bytes inflated."""

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from torchpipe._suggest import listed
from torchpipe.errors import SourceError
from torchpipe.sources.file_cache import Output


@dataclass(frozen=True, kw_only=True)
class Compression:
    """One kind of compression.

    Attributes:
        name: what messages call it.
        magic: the bytes with which such files begin (the formats' own specifications give them).
    """

    name: str
    magic: bytes


_GZIP = Compression(name="gzip", magic=b"\x1f\x8b")
_BZ2 = Compression(name="bzip2", magic=b"BZh")
_XZ = Compression(name="xz", magic=b"\xfd7zXZ\x00")
_ZSTD = Compression(name="Zstandard", magic=b"\x28\xb5\x2f\xfd")
_ZIP = Compression(name="zip", magic=b"PK\x03\x04")

COMPRESSIONS: Mapping[str, Compression] = {".gz": _GZIP, ".bz2": _BZ2, ".xz": _XZ, ".zst": _ZSTD, ".zip": _ZIP}
"""The ending of such a file's name to what it is."""

_BZ2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
"""What follows "BZh" and a digit: a block, or the end of an empty file. "BZh" alone may begin a text."""

_AT_ONCE = 2**20

_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)


def compression_of(path: Path, name: str) -> Compression | None:
    """How a file is compressed, by the bytes it begins with; None: it is plain.

    Args:
        path: where it is.
        name: what its user calls it.

    Raises:
        SourceError: its name says that it is compressed, and it is not so.
        OSError: it can't be read.
    """
    with path.open("rb") as file:
        head = file.read(10)
    found = next((kind for kind in COMPRESSIONS.values() if head.startswith(kind.magic)), None)
    if found is _BZ2 and not head[4:].startswith(_BZ2_BLOCKS):
        found = None
    said = COMPRESSIONS.get(PurePosixPath(path.name).suffix.lower())
    if said is not None and found is not said and head:
        is_what = f"a {found.name} file" if found else "plain"
        raise SourceError(
            f"{name} is no {said.name} file, as its name says: it begins with {head!r} and is {is_what}. Rename it."
        )
    return found


def inflate(path: Path, compression: Compression, out: Output, *, name: str) -> None:
    """Writes the plain bytes of a compressed file; all of its own checksums are checked.

    Args:
        path: where it is.
        compression: its kind.
        out: what is written to.
        name: what its user calls it.

    Raises:
        SourceError: it is cut short or damaged, or a zip file of several files.
    """
    try:
        with _inflating(path, compression, name) as plain:
            while part := plain.read(_AT_ONCE):
                out.write(part)
    except SourceError:
        raise
    except (OSError, *_DAMAGED) as error:  # what is not written is a SourceError
        raise _damaged(name, compression, error) from error


@contextmanager
def _inflating(path: Path, compression: Compression, name: str) -> Iterator[Any]:
    if compression is _ZIP:
        with zipfile.ZipFile(path) as archive, archive.open(_only_member(archive, name)) as plain:
            yield plain
    elif compression is _ZSTD:
        import pyarrow  # it comes with datasets; Python has had Zstandard since 3.14 alone

        with pyarrow.OSFile(str(path)) as raw, pyarrow.CompressedInputStream(raw, "zstd") as plain:
            yield plain
    else:
        opens: Any = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}[compression.name]
        with opens(path, "rb") as plain:
            yield plain


def _only_member(archive: zipfile.ZipFile, name: str) -> zipfile.ZipInfo:
    """The one file in a zip archive; what a Mac adds to it is none."""
    members = [
        member for member in archive.infolist() if not member.is_dir() and not member.filename.startswith("__MACOSX/")
    ]
    if len(members) != 1:
        names = [member.filename for member in members[:6]]
        raise SourceError(
            f"{name} holds {len(members)} files ({listed(names)}{', ...' if members[6:] else ''}), and a source reads "
            "a zip file of one. Unpack it, and give the folder or the files."
        )
    if members[0].flag_bits & 1:  # 4.4.4 of the format's APPNOTE
        raise SourceError(f"{name} is encrypted. Unpack it with its password, and give the file.")
    return members[0]


def _damaged(name: str, compression: Compression, error: Exception) -> SourceError:
    cut = isinstance(error, EOFError) or "runcated" in str(error)
    what = "is cut short" if cut else f"is damaged ({error})"
    return SourceError(f"{name} {what}: it can't be inflated as a {compression.name} file. Get it anew.")
