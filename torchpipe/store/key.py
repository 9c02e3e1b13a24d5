"""What a store is told apart by, and which of it changed where there is none yet."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torchpipe._suggest import listed
from torchpipe.errors import StoreError
from torchpipe.store.manifest import KEY_JSON, MANIFEST_JSON, read_key
from torchpipe.store.publishing import json_bytes


@dataclass(frozen=True, kw_only=True)
class StoreKey:
    """Everything that decides what is in a store, by name.

    Attributes:
        fields: text by name. ``source`` is what people call the source, and ``node`` what a graph calls it: they decide
            nothing, since other fields say what it holds. ``source`` stands there to compare stores of one source.

    >>> key = StoreKey(fields={"source": "chats.json", "tokenizer": "a1"})
    >>> key.differences(StoreKey(fields={"source": "chats.json", "tokenizer": "b2", "filter_fn": "c3"}))
    ['filter_fn', 'tokenizer']
    """

    fields: Mapping[str, str]

    @property
    def digest(self) -> str:
        """32 hexadecimal characters, the name of the store's folder."""
        deciding = {name: value for name, value in self.fields.items() if name not in _NAMES}
        return hashlib.blake2b(json_bytes(deciding), digest_size=16).hexdigest()

    def differences(self, other: "StoreKey") -> list[str]:
        """The names of the deciding fields that only one of the two has, or that differ."""
        names = (self.fields.keys() | other.fields.keys()) - _NAMES
        return sorted(name for name in names if self.fields.get(name) != other.fields.get(name))


_NAMES = {"source", "node"}
"""Fields that only name what other fields say."""

_SAID = {"model_transform": "tokenizer (model_transform)", "message_transform": "messages (message_transform)"}
"""Fields by the names that people know; ``source.file 0`` and its like say it themselves."""


def what_changed(key: StoreKey, cache_dir: Path) -> str | None:
    """A line that says how ``key`` differs from the most alike store of the same source; None where there is none."""
    found: list[tuple[int, float, list[str]]] = []
    for manifest in cache_dir.glob(f"*/{MANIFEST_JSON}"):
        try:
            other = StoreKey(fields=read_key(manifest.parent))
            written = (manifest.parent / KEY_JSON).stat().st_mtime
        except (StoreError, OSError):
            continue  # a damaged store, or one that is being removed, is no store to compare with
        if other.fields.get("source") == key.fields.get("source"):
            changed = key.differences(other)
            found.append((len(changed), -written, changed))
    if not found:
        return None
    changed = min(found)[2]
    named = [_SAID.get(name, name) for name in changed]
    return f"{key.fields.get('source')}: no store for these settings yet; the nearest one differs in {listed(named)}"
