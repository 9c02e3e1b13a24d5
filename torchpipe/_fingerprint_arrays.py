"""Arrays by their bytes, and those that lie in a file by that file: the part of fingerprints for NumPy."""

import hashlib
import mmap
import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torchpipe._fingerprint import Writer

_END = 64 * 2**10
"""So many bytes at either end of a mapped file are hashed."""


def is_array(value: object) -> bool:
    """Whether it is an array, a number or a dtype of NumPy, whose data says all: without code of its own, or a mask."""
    of_numpy = isinstance(value, np.ndarray | np.generic | np.dtype) and not isinstance(value, np.ma.MaskedArray)
    return of_numpy and str(type(value).__module__).partition(".")[0] == "numpy"


def write_array(writer: "Writer", value: Any) -> None:
    """Writes what :func:`is_array`.

    Bytes are read where they lie. Of a file that is mapped to be read alone they are not read: like other files it is
    told by path, size, time of change, inode and ends, so that a corpus of any size is told at once.
    """
    if isinstance(value, np.dtype):
        writer.mark("dtype", repr(value))
    elif value.dtype.hasobject:
        writer.mark("kind", type(value).__name__)
        writer.mark("objects", repr(value.shape))
        writer.write(value.ravel().tolist() if isinstance(value, np.ndarray) else value.item())
    else:
        writer.mark("array", f"{type(value).__name__}{value.dtype.descr}{value.shape}")
        if (place := _place_in_file(value)) is not None:
            writer.mark("mapped", place)
        elif isinstance(value, np.ndarray) and value.nbytes:
            writer.mark("bytes", np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
        else:
            writer.mark("bytes", value.tobytes())


def _place_in_file(array: Any) -> str | None:
    """Which bytes of which file an array lies in; None where it lies in no file, or in one that it can write to."""
    held: Any = array
    while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
        held = held.base
    mapped = getattr(held, "_mmap", None)
    if mapped is None or held.filename is None or held.mode != "r" or not array.nbytes:
        return None
    try:
        path = os.path.abspath(held.filename)
        stat = os.stat(path)
    except OSError:  # it was deleted; its bytes are still there
        return None
    # The ends are those that are mapped: a file that was put in the place of the mapped one has other ones.
    ends = hashlib.blake2b(mapped[:_END], digest_size=16)
    ends.update(mapped[max(_END, len(mapped) - _END) :])
    begin = held.offset - held.offset % mmap.ALLOCATIONGRANULARITY
    place = begin + _address(array) - _address(np.frombuffer(mapped, np.uint8))
    told = f"{stat.st_size} bytes, changed {stat.st_mtime_ns}, inode {stat.st_ino}, ends {ends.hexdigest()}"
    return f"{os.fsencode(path)!r}: {told}, from byte {place} in steps of {array.strides}"


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])
