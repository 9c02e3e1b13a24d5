"""What the system says of a file that can't be read, in words."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torchpipe.errors import SourceError


@contextmanager
def reading(name: str, path: Path) -> Iterator[None]:
    """Turns what the system says of a file that can't be read into a sentence.

    Raises:
        SourceError: the body raised an OSError that was no SourceError.
    """
    try:
        yield
    except SourceError:
        raise
    except OSError as error:
        raise unreadable(name, path, error) from error


def unreadable(name: str, path: Path, error: OSError) -> SourceError:
    """The error of a file that can't be read; it says why and what to do."""
    if isinstance(error, PermissionError):
        return SourceError(f"{name} may not be read by this user (permission denied). Change its mode or its owner.")
    if isinstance(error, IsADirectoryError):
        return SourceError(f"{name} is a folder. Give the files in it: {name}/*")
    if os.path.islink(path) and not os.path.exists(path):
        return SourceError(
            f"{name} is a link to {os.readlink(path)}, which is not there. Restore the file it leads to."
        )
    return SourceError(f"{name} can't be read: {error.strerror or error}. Check its path.")
