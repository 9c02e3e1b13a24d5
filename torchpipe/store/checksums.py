"""CRC-32 of each block of a file: enough to find a flipped bit, cheap enough to be taken as a block is first read."""

import zlib
from collections.abc import Iterator

BLOCK_SIZE = 1 << 16
"""Bytes a checksum covers."""


def block_checksums(*pieces: bytes | memoryview) -> str:
    """The CRC-32 of each block of :data:`BLOCK_SIZE` bytes, eight hexadecimal digits each, one after another.

    Args:
        pieces: a file's bytes, in order. The last block may be shorter than the others.

    >>> block_checksums(b"torch", b"pipe") == block_checksums(b"torchpipe")
    True
    """
    sums: list[str] = []
    crc, filled = 0, 0
    for part in _cut(pieces):
        crc, filled = zlib.crc32(part, crc), filled + len(part)
        if filled == BLOCK_SIZE:
            sums.append(f"{crc:08x}")
            crc, filled = 0, 0
    if filled:
        sums.append(f"{crc:08x}")
    return "".join(sums)


def num_blocks(size: int) -> int:
    """Blocks in a file of so many bytes."""
    return -(-size // BLOCK_SIZE)


def block_is_right(content: bytes | memoryview, checksums: str, block: int) -> bool:
    """Whether one block of a file is what was written.

    Args:
        content: the block's bytes.
        checksums: of the file, as :func:`block_checksums` gives them.
        block: the block's number.
    """
    return checksums[8 * block : 8 * block + 8] == f"{zlib.crc32(content):08x}"


def _cut(pieces: tuple[bytes | memoryview, ...]) -> Iterator[memoryview]:
    """The pieces again, cut where a block ends."""
    filled = 0
    for piece in pieces:
        view = memoryview(piece).cast("B") if len(piece) else memoryview(b"")
        while len(view):
            part, view = view[: BLOCK_SIZE - filled], view[BLOCK_SIZE - filled :]
            filled = (filled + len(part)) % BLOCK_SIZE
            yield part
