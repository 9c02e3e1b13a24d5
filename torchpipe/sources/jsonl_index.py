"""Where the rows of a file with an object a line stand: found once for all processes of a machine, and kept.

An index lies in the cache folder, never beside the file. Processes map it, so that one copy of it is in memory whatever
the number of ranks and workers.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from torchpipe._cores import num_cores
from torchpipe.errors import SourceError
from torchpipe.sources.file_cache import NotKept, kept_file
from torchpipe.sources.identity import file_identity
from torchpipe.sources.line_starts import KeptStarts, LineStarts, starts_are_of, write_starts
from torchpipe.sources.reading import reading
from torchpipe.sources.source_file import warn_once

_BLOCK = 2**20
"""Bytes that are looked through at once, a multiple of 64: with what is noted of them they stay near a processor, and
are so many that the calls for each block take little time."""
_PART = 2**23
"""Bytes that one thread is given at a time."""
_MOST_THREADS = 8
_TRIES = 3
_LF = 10
_SPACE = 32
"""All that may stand in a blank line is no higher."""

Item = TypeVar("Item")
Found = TypeVar("Found")


def line_starts(
    path: Path, start: int = 0, *, name: str, cache_dir: str | None = None, keep: bool = True, mapped: bool = True
) -> LineStarts:
    """Where each line begins that is not blank. A line ends after ``\\n``.

    Where it is kept, the first process finds them while others wait, and a file that has another size, time of change,
    inode, beginning or end than before is looked through anew. A folder that can't be written is said once, and the
    starts are held in memory.

    Args:
        path: the file.
        start: the byte where its text begins.
        name: what messages call the file.
        cache_dir: where the index is kept; None: as copies are.
        keep: False: they are found anew, and are held in memory, 8 bytes a row.
        mapped: as :class:`~torchpipe.sources.line_starts.KeptStarts` takes it.

    Raises:
        SourceError: the file can't be read, or changes meanwhile.
    """
    if not keep:
        return _in_memory(path, start, name)
    with reading(name, path):
        identity = f"{file_identity(path)}, lines from byte {start}"
    for _ in range(_TRIES):
        try:
            kept = kept_file(
                f"lines of {path.absolute()}",
                f"{path.name}.lines",
                lambda out: write_starts(_starts(path, start, name), out, of=identity),
                cache_dir=cache_dir,
                what=f"The index of {name} can't be written",
                fits=lambda kept: starts_are_of(kept, identity),
                sync=False,  # its checksums tell what a loss of power left of it
            )
        except NotKept as error:
            warn_once(f"{error} Until then each process looks through the file, and holds 8 bytes a row in memory.")
            break
        if starts_are_of(kept, identity):  # or another process saw another file there, and made it anew
            return KeptStarts(kept, name=name, mapped=mapped)
    return _in_memory(path, start, name)


def _in_memory(path: Path, start: int, name: str) -> LineStarts:
    return LineStarts(np.concatenate(list(_starts(path, start, name))))


def _starts(path: Path, start: int, name: str) -> Iterator[np.ndarray]:
    """The starts of the lines that are not blank, and the file's end: int64 [any], part after part of the file."""
    with reading(name, path), path.open("rb") as file:
        descriptor = file.fileno()
        before = _state(descriptor)
        size = before[0]
        parts = range(start, size, _PART)
        threads = min(num_cores(), len(parts), _MOST_THREADS)
        # The line that was begun: where, and whether it may be blank.
        begin, doubtful = start, True
        for nexts, may_be_blank in _in_order(lambda at: _after_breaks(descriptor, at, size), parts, threads):
            if len(nexts):
                starts = np.concatenate([[begin], nexts])
                doubts = np.concatenate([[doubtful], may_be_blank[:-1]])
                begin, doubtful = int(nexts[-1]), bool(may_be_blank[-1])
                yield _filled(descriptor, starts, doubts)
        yield np.array([size] if _is_blank(descriptor, begin, size) else [begin, size])
        if _state(descriptor) != before:
            raise SourceError(f"{name} was changed while its rows were looked for. Start again once it is written.")


def _after_breaks(descriptor: int, begin: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The bytes after the line feeds of a part of a file, int64, and whether a blank line may begin there."""
    found: list[tuple[np.ndarray, np.ndarray]] = []
    held = np.empty(_BLOCK + 1, np.uint8)  # with the byte after the block
    # Lines are long: eight bytes, and eight times eight, are passed over at once where there is no line feed in them.
    is_break, has_break, have_breaks = (np.empty(_BLOCK // width, bool) for width in (1, 8, 64))
    eights, sixty_fours = is_break.view(np.uint64), has_break.view(np.uint64)
    for at in range(begin, min(begin + _PART, size), _BLOCK):
        length = min(_BLOCK, begin + _PART - at, size - at)
        _fill(descriptor, held[: length + 1], at)
        np.equal(held[:length], _LF, out=is_break[:length])
        is_break[length:] = False
        np.not_equal(eights, 0, out=has_break)
        np.not_equal(sixty_fours, 0, out=have_breaks)
        nexts = _true_in_groups(is_break, _true_in_groups(has_break, have_breaks.nonzero()[0])) + 1
        found.append((nexts + at, held[nexts] <= _SPACE))
    nexts, may_be_blank = (np.concatenate(each) for each in zip(*found, strict=True))
    return nexts, may_be_blank


def _true_in_groups(flags: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The places of the true ones of some flags, int64, ascending.

    Args:
        flags: bool [8 * groups of them].
        groups: numbers of the groups of eight in which any is true, int64, ascending.
    """
    places = flags.view(np.uint64)[groups].view(bool).nonzero()[0]
    return groups[places >> 3] * 8 + (places & 7)


def _fill(descriptor: int, buffer: np.ndarray, at: int) -> None:
    """Reads a file into a buffer; zeros after its end."""
    view = buffer.data
    while view and (count := os.preadv(descriptor, [view], at)):
        view, at = view[count:], at + count
    view[:] = bytes(len(view))


def _filled(descriptor: int, starts: np.ndarray, doubtful: np.ndarray) -> np.ndarray:
    """The starts of lines that are not blank; only of those that begin with a space it is looked whether they are.

    Args:
        starts: of lines that follow each other, and where the last one stops.
        doubtful: bool, one shorter.
    """
    if not doubtful.any():
        return starts[:-1]
    filled = np.diff(starts) > 1
    for row in np.flatnonzero(doubtful & filled):
        filled[row] = not _is_blank(descriptor, *starts[row : row + 2].tolist())
    # An empty line begins with its own line feed, which is no higher than a space.
    return starts[:-1][filled | ~doubtful]


def _is_blank(descriptor: int, start: int, stop: int) -> bool:
    length = 64
    while start < stop:
        part = os.pread(descriptor, min(length, stop - start), start)
        if not part or part.strip():
            return not part
        start, length = start + len(part), _BLOCK
    return True


def _in_order(work: Callable[[Item], Found], items: Iterable[Item], threads: int) -> Iterator[Found]:
    """The results in the order of the items, of which a few are worked on at a time."""
    if threads < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Found]] = deque()
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _state(descriptor: int) -> tuple[int, int, int]:
    stat = os.fstat(descriptor)
    return stat.st_size, stat.st_mtime_ns, stat.st_ino
