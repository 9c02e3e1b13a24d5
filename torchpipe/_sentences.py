"""Errors on a terminal: one plain sentence, and the traceback only for those who ask."""

import os
import sys
import traceback

from torchpipe.errors import TorchpipeError


def print_error(error: TorchpipeError) -> None:
    """Print ``Error: ...`` and the error's notes to stderr; its traceback too where TORCHPIPE_TRACEBACK=1 is set."""
    if os.environ.get("TORCHPIPE_TRACEBACK") == "1":
        traceback.print_exception(error)
        return
    print(f"Error: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
