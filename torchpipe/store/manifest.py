"""What makes a folder a store: the manifest, written last."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from torchpipe import __version__
from torchpipe.errors import StoreError
from torchpipe.store.publishing import publish_json, published_folder
from torchpipe.store.reading import REBUILD, read_file
from torchpipe.store.sample_index import SampleIndex
from torchpipe.store.sealed_json import hash_of, read_sealed, sealed
from torchpipe.store.shard import Shard, open_shard

FORMAT = 2
"""The version of the files' format. A store of another one is never read."""

MANIFEST_JSON = "manifest.json"
KEY_JSON = "key.json"
INDEX = "index"

_KIND = "torchpipe token store"


class OtherFormatError(StoreError):
    """A store is of a format version that this torchpipe does not read; nothing is wrong with it."""


_LIBRARIES = ("torchpipe", "numpy", "tiktoken", "tokenizers", "sentencepiece", "jinja2")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A store's table of contents.

    Attributes:
        shards: the hash of each shard's ``shard.json``, in order.
        num_rows, num_samples, num_tokens, num_trained: totals.
        longest: tokens of the longest sample.
        largest_token_id: which the model's vocabulary has to hold; -1 without tokens.
        has_weights: whether the samples have loss weights.
        ledger: what became of the rows, by reason.
        digest: a hash of all samples' tokens, labels and weights, and of how they lie in shards.
        index: facts of the files in ``index/`` (see :class:`~torchpipe.store.sample_index.SampleIndex`).
        libraries: the versions that built it.
        key: hash of ``key.json``.
    """

    shards: Sequence[str]
    num_rows: int
    num_samples: int
    num_tokens: int
    num_trained: int
    longest: int
    largest_token_id: int
    has_weights: bool
    ledger: Mapping[str, int]
    digest: str
    index: Mapping[str, Mapping[str, Any]] = field(repr=False)
    libraries: Mapping[str, str]
    key: str


def shard_folder(store: Path, number: int) -> Path:
    """Where a store's shard of a number is."""
    return store / "shards" / f"{number:05d}"


def open_shards(store: Path, numbers: Sequence[int], *, hashes: Sequence[str] | None = None) -> list[Shard]:
    """Shards of a store by their numbers.

    Args:
        store: the folder.
        numbers: of the shards.
        hashes: which the shards must have (see :attr:`~torchpipe.store.shard.Shard.hash`); any if None.

    Raises:
        StoreError: a shard is missing, not finished, or not the one that was named.
    """
    wanted = [None] * len(numbers) if hashes is None else hashes
    folders = [shard_folder(store, number) for number in numbers]
    return [open_shard(folder, shard_hash=found) for folder, found in zip(folders, wanted, strict=True)]


def publish_store(folder: Path, *, num_shards: int, ledger: Mapping[str, int] | None = None) -> Manifest:
    """Makes a store of the finished shards 0 to ``num_shards - 1`` of a folder, which holds ``key.json`` too.

    The index is written first and the manifest last: a folder without a manifest is no store.

    Raises:
        StoreError: a shard is missing or damaged, rows of two shards overlap, or the files can't be written.
    """
    shards = open_shards(folder, range(num_shards))
    check_rows(shards)
    with published_folder(folder / INDEX) as temporary:
        index = SampleIndex.of(shards, check=True).write(temporary)
    manifest = Manifest(
        shards=[shard.hash for shard in shards],
        num_rows=sum(shard.facts["num_rows"] for shard in shards),
        num_samples=sum(shard.num_samples for shard in shards),
        num_tokens=sum(shard.num_tokens for shard in shards),
        num_trained=sum(shard.facts["num_trained"] for shard in shards),
        longest=max((shard.facts["longest"] for shard in shards), default=0),
        largest_token_id=max((shard.facts["largest_token_id"] for shard in shards), default=-1),
        has_weights=any(shard.has_weights for shard in shards),
        ledger=dict(ledger or {}),
        digest=digest_of(shards),
        index=index,
        libraries=library_versions(),
        key=hash_of(read_file(folder / KEY_JSON)),
    )
    publish_json(folder / MANIFEST_JSON, sealed({"kind": _KIND, "format": FORMAT, **asdict(manifest)}))
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the store in a folder.

    Raises:
        StoreError: there is none, it is damaged or something else, or of another format version.
    """
    path = folder / MANIFEST_JSON
    value = read_sealed(path, what=f"the manifest of a {_KIND}")
    kind, version = value.pop("kind", None), value.pop("format", None)
    if kind != _KIND:
        raise StoreError(f"{path} is not the manifest of a {_KIND}: its kind is {kind!r}. Give the folder of a store.")
    if version != FORMAT:
        raise OtherFormatError(
            f"{path} is of format version {version}; this torchpipe reads version {FORMAT}. "
            "Build the store again, or use the torchpipe that built it."
        )
    del value["hash"]
    return Manifest(**value)


def read_key(folder: Path, *, key_hash: str | None = None) -> dict[str, Any]:
    """What a store was made of: the fields of its key.

    Raises:
        StoreError: ``key.json`` is missing, damaged, or not the one that the manifest names.
    """
    path = folder / KEY_JSON
    content = read_file(path)
    if key_hash is not None and hash_of(content) != key_hash:
        raise StoreError(f"{path} was changed after it was written: its hash differs. {REBUILD}")
    try:
        value = json.loads(content)
    except ValueError as error:
        raise StoreError(f"{path} is no JSON ({error}). {REBUILD}") from error
    if not isinstance(value, dict):
        raise StoreError(f"{path} holds a {type(value).__name__}, not the fields of a key. {REBUILD}")
    return value


def check_rows(shards: Sequence[Shard]) -> None:
    """Raises StoreError where two shards account for the same row, or a later shard for earlier rows."""
    for before, after in pairwise(shards):
        if after.row_range.start < before.row_range.stop:
            raise StoreError(
                f"{after.folder} holds rows from {after.row_range.start} on, and {before.folder} holds rows up to "
                f"{before.row_range.stop - 1}: no row may be in two shards. {REBUILD}"
            )


def digest_of(shards: Sequence[Shard]) -> str:
    """A hash of all samples of some shards, hexadecimal."""
    total = hashlib.blake2b(digest_size=16)
    for shard in shards:
        total.update(shard.facts["digest"].encode())
    return total.hexdigest()


def library_versions() -> dict[str, str]:
    """The versions of the libraries that decide what is in a store; those that are not installed are left out."""
    versions = {"torchpipe": __version__, "numpy": np.__version__}
    for name in _LIBRARIES[2:]:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
