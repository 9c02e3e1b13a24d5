"""Reading small files, and what to do where one is not what was written."""

from pathlib import Path

from torchpipe.errors import StoreError

REBUILD = "Remove the store (torchpipe store prune --damaged) and it is built again."


def read_file(path: Path) -> bytes:
    """A file's bytes.

    Raises:
        StoreError: it is missing or can't be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise StoreError(
            f"{path} is missing: {path.parent} is not finished, or no store. Build it, or give another folder."
        ) from None
    except OSError as error:
        raise StoreError(f"{path} can't be read: {error.strerror}.") from error
