"""Which code makes samples: this package's own, and the versions of the libraries that it calls."""

import hashlib
import re
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]


@cache
def own_code() -> str:
    """The version of this package, and the hash of its code that makes samples: data, tokenizers, vision, models."""
    root = Path(__file__).parent
    files = [*root.glob("*.py")]
    for package in ("data", "tokenizers", "vision", "models"):
        files += (root / package).rglob("*.py")
    digest = hashlib.blake2b(digest_size=8)
    for file in sorted(files, key=lambda file: file.relative_to(root).as_posix()):
        content = file.read_bytes()
        digest.update(f"{file.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    found = re.search(rb'__version__ = "([^"]*)"', (root / "__init__.py").read_bytes())
    python = "{}.{}".format(*sys.version_info)  # of regular expressions and Unicode
    return f"{found[1].decode() if found else ''}+{digest.hexdigest()}, Python {python}"


@cache
def library_version(name: str) -> str:
    """The version of an installed library."""
    return version(name)


def is_own(module: str) -> bool:
    """Whether a module is one of this package."""
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
