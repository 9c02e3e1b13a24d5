"""One array in one ``.npy`` file, and what is known of the file: its size, dtype, shape and checksums."""

import io
import math
import mmap
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from torchpipe.errors import StoreError
from torchpipe.store.checksums import BLOCK_SIZE, block_checksums, block_is_right, num_blocks
from torchpipe.store.reading import REBUILD, read_file

Verify = Literal["sizes", "lazy", "full"]
VERIFY: tuple[Verify, ...] = get_args(Verify)

KEEPS_FILES_OPEN = sys.version_info < (3, 13)
"""Whether Python holds a file open for as long as it is mapped."""


@dataclass(frozen=True, kw_only=True)
class ArrayFacts:
    """What a file has to be, as written beside it.

    Attributes:
        size: bytes in the file. The array is what follows the header, and ends where the file ends.
        dtype: as numpy writes it, with its byte order.
        shape: of the array.
        crc32: of each block of the file (see :func:`~torchpipe.store.checksums.block_checksums`).
    """

    size: int
    dtype: str
    shape: tuple[int, ...]
    crc32: str

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ArrayFacts":
        """The facts that :meth:`as_json` wrote."""
        return cls(size=value["size"], dtype=value["dtype"], shape=tuple(value["shape"]), crc32=value["crc32"])

    def as_json(self) -> dict[str, Any]:
        """A dict for a JSON file."""
        return asdict(self)


def write_array(path: Path, array: np.ndarray) -> ArrayFacts:
    """Writes a new file in numpy's ``.npy`` format (version 1.0) and returns its facts; the bytes are on the disk then.

    Args:
        path: of a file that isn't there yet.
        array: of any shape; written little-endian and in C order.

    Raises:
        OSError: the file can't be written.
    """
    # The byte order is stated, so that a store can be copied between machines.
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    data = array.data.cast("B") if array.size else memoryview(b"")
    with open(path, "xb") as file:
        file.write(header.getvalue())
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return ArrayFacts(
        size=len(header.getvalue()) + len(data),
        dtype=array.dtype.str,
        shape=array.shape,
        crc32=block_checksums(header.getvalue(), data),
    )


class ArrayFile:
    """A file that was written by :func:`write_array`, memory-mapped when it is first read.

    Args:
        path: of the file.
        facts: what it has to be.

    Attributes:
        path, facts: the arguments.
        num_unchecked: blocks that :meth:`check` was not asked for so far.
    """

    def __init__(self, path: Path, facts: ArrayFacts) -> None:
        self.path = path
        self.facts = facts
        self._array: np.ndarray | None = None
        self._content = memoryview(b"")
        self._checked = bytearray(num_blocks(facts.size))
        self.num_unchecked = len(self._checked)

    def check_size(self) -> None:
        """Raises StoreError where the file is missing or is longer or shorter than it was written."""
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            raise StoreError(f"{self.path} is missing. {REBUILD}") from None
        except OSError as error:
            raise StoreError(f"{self.path} can't be read: {error.strerror}.") from error
        if size != self.facts.size:
            raise StoreError(f"{self.path} has {size:,} bytes; {self.facts.size:,} were written. {REBUILD}")

    def array(self) -> np.ndarray:
        """The array, memory-mapped and read-only. Nothing but the file's size is checked."""
        if self._array is None:
            self.check_size()
            self._content = _mapped(self.path)
            self._array = self._array_in(self._content)
        return self._array

    def check(self, start: int, stop: int) -> None:
        """Checks the blocks that hold ``array()[start:stop]`` of a flat array and were not checked before.

        Raises:
            StoreError: a block is not what was written.
        """
        if not self.num_unchecked:
            return
        array = self.array()
        offset = self.facts.size - array.nbytes
        first, last = (offset + start * array.itemsize) // BLOCK_SIZE, num_blocks(offset + stop * array.itemsize)
        for block in range(first, last):
            if not self._checked[block]:
                self._check_block(self._content[block * BLOCK_SIZE : (block + 1) * BLOCK_SIZE], block)
                self._checked[block] = 1
                self.num_unchecked -= 1

    def read(self, *, check: bool) -> np.ndarray:
        """The array, in memory; with ``check``, after all of the file was compared with its checksums."""
        self.check_size()
        content = read_file(self.path)
        if check:
            view = memoryview(content)
            for block in range(num_blocks(len(view))):
                self._check_block(view[block * BLOCK_SIZE : (block + 1) * BLOCK_SIZE], block)
        return self._array_in(content)

    def check_all(self) -> None:
        """Reads the file and compares its checksums.

        Raises:
            StoreError: it is not what was written.
        """
        self.check_size()
        try:
            with open(self.path, "rb") as file:
                for block in range(num_blocks(self.facts.size)):
                    self._check_block(file.read(BLOCK_SIZE), block)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{self.path} can't be read: {error.strerror}.") from error

    def forget(self) -> None:
        """Lets go of the mapping; the next reading maps the file again."""
        self._array = None
        self._content = memoryview(b"")

    def _check_block(self, content: bytes | memoryview, block: int) -> None:
        if not block_is_right(content, self.facts.crc32, block):
            at = block * BLOCK_SIZE
            raise StoreError(
                f"{self.path} was changed after it was written: the checksum of its bytes {at:,} to "
                f"{min(at + BLOCK_SIZE, self.facts.size) - 1:,} differs. {REBUILD}"
            )

    def _array_in(self, content: bytes | memoryview) -> np.ndarray:
        dtype = np.dtype(self.facts.dtype)
        count = math.prod(self.facts.shape)
        flat = np.frombuffer(content, dtype=dtype, count=count, offset=self.facts.size - count * dtype.itemsize)
        return flat.reshape(self.facts.shape)


def _mapped(path: Path) -> memoryview:
    """A file's bytes, mapped into memory."""
    try:
        with open(path, "rb") as file:
            if sys.version_info >= (3, 13):
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ, trackfd=False))
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise StoreError(f"{path} can't be mapped into memory: {error.strerror}.") from error
