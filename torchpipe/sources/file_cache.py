"""Plain copies of files that are compressed or elsewhere: made once, whole or not at all."""

import atexit
import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from torchpipe._cache_dir import cache_folder
from torchpipe._fingerprint import content_hash
from torchpipe.errors import SourceError

_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "your disk quota is used up",
    errno.EFBIG: "a file may not grow that large there (ulimit -f)",
}


class NotKept(SourceError):  # noqa: N818  # it is an answer, where it is caught
    """The cache folder takes no copy: it may not be written, has no room or no locks."""


class Output:
    """What the bytes of a copy are written to.

    Attributes:
        size: bytes written so far.
    """

    def __init__(self, file: BinaryIO, what: str) -> None:
        self._file = file
        self._what = what
        self.size = 0

    def write(self, part: bytes) -> None:
        """Writes some bytes.

        Raises:
            NotKept: there is no room for them.
        """
        try:
            self.size += self._file.write(part)
        except OSError as error:
            raise _no_room(self._what, self._file.name, error) from error


def kept_file(
    key: str | None,
    name: str,
    write: Callable[[Output], None],
    *,
    cache_dir: str | None,
    what: str,
    fits: Callable[[Path], bool] = lambda path: True,
    sync: bool = True,
) -> Path:
    """The copy that is kept under a key, written now if it isn't there.

    It stands at ``files/<hash of the key>/<bytes>-<name>`` in the cache folder. It gets that name, which says its
    size, in one step once all of it is written; a copy of another size is damaged, and made anew. One process
    writes while the others wait.

    Args:
        key: what tells its bytes from others; None: it is made for this process alone, and removed at its end.
        name: the last part of its name; of a long one, its end.
        write: writes its bytes.
        cache_dir: as :func:`~torchpipe._cache_dir.cache_folder` takes it.
        what: the beginning of the sentence where it can't be written, as "chats.jsonl.gz can't be inflated".
        fits: whether a copy that is there will do; one that doesn't is made anew.
        sync: False: it gets its name before all of it is on the disk, which is for copies that ``fits`` can judge.

    Raises:
        NotKept: there is no room for it.
        Exception: what ``write`` raises.
    """
    folder = Path()
    try:
        if key is None:
            return _written(Path(tempfile.mkdtemp(dir=_of_this_process())), name, write, what, sync)
        folder = cache_folder(cache_dir) / "files" / content_hash(key.encode("utf-8", "surrogatepass"))
        if (found := _whole(folder, fits)) is not None:
            return found
        folder.mkdir(parents=True, exist_ok=True)
        from filelock import FileLock

        with FileLock(folder / ".lock"):
            # Another process may have written it meanwhile.
            return _whole(folder, fits) or _written(folder, name, write, what, sync)
    except NotImplementedError as error:
        raise NotKept(f"{what}: the file system of {folder} has no locks. Choose another cache_dir.") from error
    except SourceError:
        raise
    except OSError as error:
        raise _no_room(what, str(folder), error) from error


def _no_room(what: str, where: str, error: OSError) -> NotKept:
    why = _WHY.get(error.errno or 0, error.strerror or str(error))
    return NotKept(f"{what} into {where}: {why}. Free space, or choose another cache_dir.")


def _whole(folder: Path, fits: Callable[[Path], bool]) -> Path | None:
    """The copy in a folder, if it has the size that its name says, and fits."""
    try:
        for path in folder.iterdir():
            whole = path.name.partition("-")[0] == str(path.stat().st_size)
            if whole and not path.name.startswith(".") and fits(path):
                return path
    except FileNotFoundError:  # or another process is just making it anew
        pass
    return None


def _written(folder: Path, name: str, write: Callable[[Output], None], what: str, sync: bool) -> Path:
    for leftover in folder.iterdir():
        if leftover.name != ".lock":
            leftover.unlink()
    temporary = folder / ".writing"
    try:
        with temporary.open("xb") as file:
            output = Output(file, what)
            write(output)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        path = folder / f"{output.size}-{name[-50:]}"  # a name has at most 255 bytes
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()
    return path


@cache
def _of_this_process() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="torchpipe-"))
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked process has the same list of what to do at exit
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return folder
