"""Where what is made once and read again is kept."""

import os
from pathlib import Path


def cache_folder(cache_dir: str | Path | None = None) -> Path:
    """The folder of all that is kept.

    Args:
        cache_dir: None: the environment's TORCHPIPE_CACHE, else torchpipe in its XDG_CACHE_HOME, else in ~/.cache.
    """
    if cache_dir is None:
        cache_dir = os.environ.get("TORCHPIPE_CACHE") or None
    if cache_dir is None:
        cache_dir = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "torchpipe"
    return Path(cache_dir).expanduser()
