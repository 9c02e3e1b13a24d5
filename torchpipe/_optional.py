"""Libraries that only some users need: imported when they are used, with a sentence where one is missing."""

from importlib import import_module
from typing import Any

from torchpipe.errors import MissingLibraryError


def import_optional(module: str, *, needed_by: str, install: str) -> Any:
    """The module of a library that torchpipe can do without.

    Args:
        module: its dotted name.
        needed_by: what uses it, the start of the sentence.
        install: what to give to ``pip install``.

    Raises:
        MissingLibraryError: it is not installed.

    >>> import_optional("math", needed_by="A circle", install="math").pi > 3
    True
    >>> import_optional("no_such_library", needed_by="A circle", install="no-such-library")
    Traceback (most recent call last):
    torchpipe.errors.MissingLibraryError: A circle needs no_such_library, which is not installed. Run: pip install no-such-library
    """  # noqa: E501  # the traceback's line is one
    library = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # the library is there, and something that it needs is not
        raise MissingLibraryError(
            f"{needed_by} needs {library}, which is not installed. Run: pip install {install}"
        ) from None
