"""One file of a source: on this machine or behind an address, plain or compressed."""

import multiprocessing
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from torchpipe._progress import tells
from torchpipe.errors import NoFingerprint
from torchpipe.sources import remote
from torchpipe.sources.compressed import COMPRESSIONS, compression_of, inflate
from torchpipe.sources.file_cache import kept_file
from torchpipe.sources.identity import file_identity
from torchpipe.sources.reading import reading


@dataclass(frozen=True, kw_only=True)
class SourceFile:
    """A file by the name that its user gave it.

    Attributes:
        name: what messages call it: its path or address.
        where: its path; None: it is behind an address, which is its name.
        storage_options: what reaching the address takes, as fsspec's file systems take it.
        cache_dir: where its copy is kept, if it needs one; None: as stores are.
    """

    name: str
    where: Path | None = None
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    cache_dir: str | None = None

    @classmethod
    def of_path(cls, path: str | Path, cache_dir: str | None = None) -> "SourceFile":
        """The file at a path of this machine."""
        return cls(name=str(path), where=Path(path), cache_dir=cache_dir)

    @property
    def suffix(self) -> str:
        """The ending that says what it holds, without that of its compression.

        >>> SourceFile(name="https://host/chats.JSONL.gz?key=1").suffix
        '.jsonl'
        """
        name = self.name if self.where is not None else urlsplit(self.name).path
        suffixes = [suffix.lower() for suffix in PurePosixPath(name).suffixes]
        while suffixes and suffixes[-1] in COMPRESSIONS:
            suffixes.pop()
        return suffixes[-1] if suffixes else ""

    def identity(self, *, content: bool = False) -> str:
        """What tells the file from others, as :func:`~torchpipe.sources.identity.file_identity` and :mod:`remote` say.

        Args:
            content: True: the hash of all its bytes as they lie there, which fetches a file that is elsewhere.

        Raises:
            NoFingerprint: its server doesn't say when it changed.
            SourceError: it isn't there, or can't be read.
        """
        if self.where is None and not content:
            facts = self._facts()
            if facts.version is None:
                raise NoFingerprint(
                    f"The source reads {self.name}, whose server says neither an ETag nor when the file changed. "
                    "Download it, or set fingerprint='content'."
                )
            return f"{self.name}: {facts.told}"
        path = self._fetched() if self.where is None else self.where
        with reading(self.name, path):
            return file_identity(path, content=content, suffix=self.suffix)

    def path(self) -> Path:
        """A plain file of this machine with its bytes: itself, or a copy that is fetched and inflated once.

        Raises:
            SourceError: it isn't there, can't be read, is damaged, or there is no room for the copy.
        """
        raw = self._fetched() if self.where is None else self.where
        with reading(self.name, raw):
            compression = compression_of(raw, self.name)
        if compression is None:
            return raw
        name = PurePosixPath(raw.name)
        return kept_file(
            f"inflated {file_identity(raw)}",
            name.stem if name.suffix.lower() in COMPRESSIONS else f"{name}.plain",
            lambda out: inflate(raw, compression, out, name=self.name),
            cache_dir=self.cache_dir,
            what=f"{self.name} can't be inflated",
        )

    def _facts(self) -> remote.Facts:
        return remote.facts(self.name, self.storage_options)

    def _fetched(self) -> Path:
        facts = self._facts()
        if facts.version is None:
            warn_once(
                f"{self.name} is fetched anew by each process, since its server says neither an ETag nor when the file "
                "changed."
            )
        name = PurePosixPath(urlsplit(self.name).path).name or "file"
        return kept_file(
            None if facts.version is None else f"fetched {self.name} {facts.told}",
            name,
            lambda out: remote.fetch(self.name, facts, out, self.storage_options),
            cache_dir=self.cache_dir,
            what=f"{self.name} can't be fetched",
        )


_warned: set[str] = set()


def warn_once(line: str) -> None:
    """Warns, once in a run and in one process of a machine."""
    if line not in _warned and tells() and multiprocessing.parent_process() is None:
        warnings.warn(line, stacklevel=2)
        _warned.add(line)
