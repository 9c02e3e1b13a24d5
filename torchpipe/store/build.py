"""Stores, built where there is none yet."""

from pathlib import Path

from torchpipe.errors import NoFingerprint
from torchpipe.store.build_site import SHARD_ROWS, BuildSite, key_of, opened
from torchpipe.store.cache_dir import stores_folder
from torchpipe.store.manifest import MANIFEST_JSON
from torchpipe.store.rows import StoreRecipe
from torchpipe.store.token_store import TokenStore


def find_store(
    recipe: StoreRecipe, *, cache_dir: str | Path | None = None, shard_rows: int = SHARD_ROWS
) -> TokenStore | None:
    """The finished store of a recipe's samples; None where there is none yet. The arguments are those of
    :func:`build_store`.
    """
    try:
        key = key_of(recipe, shard_rows)
    except NoFingerprint:
        return None  # such a store lives for one run
    folder = stores_folder(cache_dir) / key.digest
    return TokenStore.open(folder, verify="lazy") if (folder / MANIFEST_JSON).exists() else None


def build_store(
    recipe: StoreRecipe,
    *,
    cache_dir: str | Path | None = None,
    num_proc: int | None = None,
    shard_rows: int = SHARD_ROWS,
) -> TokenStore:
    """The store of a recipe's samples: opened where it is there, built where it is not.

    One process builds; others that ask for the same store wait for it, without holding anything. What is finished when
    a builder is killed is used by the next one. Blocks are compared with their checksums when they are first read.

    Args:
        recipe: of the samples.
        cache_dir: stores are kept in its ``store``; None: see :func:`~torchpipe.store.cache_dir.stores_folder`.
        num_proc: processes that tokenise; None: as many as there are processors for this one.
        shard_rows: rows of the source a shard.

    Raises:
        ConfigError: num_proc or shard_rows is not possible.
        StoreError: the store can't be written or is damaged, or a process that tokenised was killed.
        SourceError: there are no rows, or the filter left none.
        DataError: more rows can't be used than the recipe's row policy allows.
        Exception: the first bad row's own error, which names the row.
    """
    site = BuildSite.of(recipe, cache_dir=cache_dir, num_proc=num_proc, shard_rows=shard_rows)
    if not site.is_published:
        site.build()
    return opened(site)
