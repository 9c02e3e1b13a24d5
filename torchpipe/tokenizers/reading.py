"""Reading a tokenizer's files, and the sentences where one can't be read."""

from pathlib import Path
from typing import Any

from torchpipe._fingerprint import content_hash
from torchpipe.errors import ConfigError, SourceError, TokenizerError


def read_bytes(path: Any, what: str, then: str, *, size: int = -1) -> bytes:
    """The bytes of a file.

    Args:
        path: where it is.
        what: what errors call it, as "tokenizer file".
        then: the sentence that says what to do.
        size: the most bytes to read; -1 reads all.

    Raises:
        SourceError: there is no such file, or it can't be read.
        ConfigError: ``path`` is no path.
    """
    try:
        with Path(path).open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise SourceError(f"Can't read the {what} {path}: {error.strerror}. {then}") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"The path of the {what} is {path!r}, which is no path: {error}. {then}") from error


def read_again(path: Any, what: str, content: str) -> bytes:
    """The bytes of a file that was read before, when ``content`` was their hash.

    Raises:
        TokenizerError: they are others now.
        SourceError: it can't be read any more.
    """
    again = read_bytes(path, what, "It was there before.")
    if content_hash(again) != content:
        raise TokenizerError(f"The {what} {path} has changed since it was opened. Start the run again.")
    return again


def read_text(path: Any, what: str, then: str) -> str:
    """The text of a file in UTF-8; arguments and errors are those of :func:`read_bytes`.

    Raises:
        TokenizerError: it is not UTF-8.
    """
    content = read_bytes(path, what, then)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{path} is not UTF-8 text ({error}). Give the {what} of the family.") from error
