"""Reading all of a store again, to see whether it is what was written."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from torchpipe.errors import StoreError
from torchpipe.store.manifest import INDEX, MANIFEST_JSON, check_rows, digest_of, read_key, read_manifest, shard_folder
from torchpipe.store.reading import REBUILD
from torchpipe.store.sample_index import SampleIndex
from torchpipe.store.shard import Shard, open_shard


def problems_of(folder: Path) -> Iterator[str]:
    """What is wrong with a store, a sentence for each file; nothing where it is whole.

    Every byte is read. What lies beside the files that the manifest names, such as cached plans, is left alone.
    """
    try:
        manifest = read_manifest(folder)
    except StoreError as error:
        yield str(error)
        return
    found: list[str] = []
    _try(found, lambda: read_key(folder, key_hash=manifest.key))
    opened = [
        _try(
            found,
            lambda number=number, expected=expected: open_shard(shard_folder(folder, number), shard_hash=expected),
        )
        for number, expected in enumerate(manifest.shards)
    ]
    shards = [shard for shard in opened if shard is not None]
    index = SampleIndex.files(folder / INDEX, manifest.index)
    for file in [*(file for shard in shards for file in shard.files.values()), *index.values()]:
        _try(found, file.check_all)
    if not found:
        _try(found, lambda: check_rows(shards))
        expected = vars(SampleIndex.of(shards, check=False))
        same = all(np.array_equal(expected[name], file.read(check=False)) for name, file in index.items())
        if not same or digest_of(shards) != manifest.digest:
            found.append(f"{folder / MANIFEST_JSON} does not agree with the shards beside it. {REBUILD}")
    yield from found


def _try(found: list[str], check: Callable[[], Shard | object]) -> Shard | None:
    """The shard that a check opens; a StoreError is noted instead."""
    try:
        result = check()
    except StoreError as error:
        found.append(str(error))
        return None
    return result if isinstance(result, Shard) else None
