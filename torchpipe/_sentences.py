"""Errors on a terminal: one plain sentence, and the traceback only for those who ask."""

import os
import sys
import traceback

from torchpipe.errors import TorchpipeError


def printable(text: object) -> str:
    r"""The text in one line: white space as single spaces, control and other invisible characters as their escapes.

    >>> printable("two\nlines \x1b[31m")
    'two lines \\x1b[31m'
    """
    return _visible(" ".join(str(text).split()))


def print_error(error: TorchpipeError) -> None:
    """Print ``Error: ...`` and the error's notes to stderr; its traceback too where TORCHPIPE_TRACEBACK=1 is set.

    What a file's or a column's name may hold, such as an escape sequence, is written out.
    """
    if os.environ.get("TORCHPIPE_TRACEBACK") == "1":
        traceback.print_exception(error)
        return
    lines = "\n".join([f"Error: {error}", *getattr(error, "__notes__", ())]).split("\n")
    print(*(_visible(line) for line in lines), sep="\n", file=sys.stderr)


def _visible(line: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in line)
