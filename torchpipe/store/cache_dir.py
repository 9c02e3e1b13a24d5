"""Where stores are kept."""

from pathlib import Path

from torchpipe._cache_dir import cache_folder


def stores_folder(cache_dir: str | Path | None = None) -> Path:
    """The folder of all stores: ``store`` in ``cache_dir``.

    Args:
        cache_dir: None: the environment's TORCHPIPE_CACHE, else torchpipe in its XDG_CACHE_HOME, else in ~/.cache.
    """
    return cache_folder(cache_dir) / "store"
