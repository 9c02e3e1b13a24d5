"""Which code makes samples: this package's own, and the versions of the libraries that it calls."""

import hashlib
import re
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

_ROOT = Path(__file__).parent
_PACKAGE = __name__.partition(".")[0]
_MAKE_SAMPLES = ("config", "data", "models", "pipeline", "tokenizers", "vision")


@cache
def own_code() -> str:
    """The version of this package, of Python, and the hash of the code here that samples are made with."""
    files = [*_ROOT.glob("*.py"), *(file for package in _MAKE_SAMPLES for file in (_ROOT / package).rglob("*.py"))]
    digest = hashlib.blake2b(digest_size=8)
    for name, file in sorted((file.relative_to(_ROOT).as_posix(), file) for file in files):
        content = file.read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    found = re.search(rb'__version__ = "([^"]*)"', (_ROOT / "__init__.py").read_bytes())
    python = "{}.{}".format(*sys.version_info)  # of regular expressions and Unicode
    return f"{found[1].decode() if found else ''}+{digest.hexdigest()}, Python {python}"


@cache
def library_version(name: str) -> str:
    """The version of an installed library."""
    return version(name)


def is_own(module: str) -> bool:
    """Whether a module is one of this package that :func:`own_code` speaks for."""
    package, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    return package == _PACKAGE and (part in ("", *_MAKE_SAMPLES) or (_ROOT / f"{part}.py").is_file())
