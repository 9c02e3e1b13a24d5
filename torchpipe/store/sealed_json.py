"""JSON files that carry a hash of themselves, so that a changed one is found when it is read."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe.errors import StoreError
from torchpipe.store.publishing import json_bytes
from torchpipe.store.reading import REBUILD, read_file

_HASH = "hash"


def hash_of(content: bytes) -> str:
    """A hash of a small file's bytes, hexadecimal."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def sealed(value: Mapping[str, Any]) -> dict[str, Any]:
    """The value with a hash of it under ``hash``.

    >>> sealed({"a": 1})["hash"] == sealed({"a": 2})["hash"]
    False
    """
    return {**value, _HASH: hash_of(json_bytes(value))}


def read_sealed(path: Path, *, what: str) -> dict[str, Any]:
    """What a file holds that :func:`sealed` made, with its hash.

    Args:
        path: of the file.
        what: it has to be, for messages: "the manifest of a store".

    Raises:
        StoreError: it is missing, something else, or was changed.
    """
    try:
        value = json.loads(read_file(path))
    except ValueError as error:
        raise StoreError(f"{path} is not {what}: it is no JSON ({error}). {REBUILD}") from error
    if not isinstance(value, dict) or _HASH not in value:
        raise StoreError(f"{path} is not {what}: it has no field '{_HASH}'. {REBUILD}")
    if sealed({name: value[name] for name in value if name != _HASH}) != value:
        raise StoreError(f"{path} was changed after it was written: its hash differs. {REBUILD}")
    return value
