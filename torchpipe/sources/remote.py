"""Files behind addresses: what tells one from others, and its bytes.

``http`` and ``https`` are spoken by Python itself; every other protocol (``s3``, ``gs``, ``hf``, ``memory``, ...) by
the file system that fsspec knows for it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any
from urllib import request
from urllib.error import HTTPError
from urllib.parse import quote

from torchpipe import __version__
from torchpipe._sentences import printable
from torchpipe._suggest import did_you_mean
from torchpipe.data.download import web_opener
from torchpipe.errors import ConfigError, SourceError
from torchpipe.sources.file_cache import Output

_TIMEOUT = 60.0
"""Seconds in which a server must send something."""

_AT_ONCE = 2**20

_VERSION_KEYS = (
    *("ETag", "etag", "VersionId", "version_id", "generation", "blob_id", "md5Hash", "content_md5", "checksum"),
    *("sha256", "LastModified", "last_modified", "updated", "modified", "mtime", "created", "ino"),
)
"""What file systems of fsspec say about a file that changes with its bytes, under their own names."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is known of a file without reading it.

    Attributes:
        size: in bytes; None: it isn't said.
        version: what changes whenever the bytes do; None: nothing that is said does.
    """

    size: int | None
    version: str | None

    @property
    def told(self) -> str:
        """Both, in words."""
        return f"{'unknown' if self.size is None else self.size} bytes, {self.version}"


def facts(address: str, options: Mapping[str, Any]) -> Facts:
    """What tells the file behind an address from others, asked of its server now.

    Args:
        address: where it is, with its protocol.
        options: of fsspec's file system; of http, ``headers``.

    Raises:
        SourceError: it isn't there, or its server isn't reached.
        ConfigError: nothing speaks the protocol.
    """
    if _is_web(address):
        with _answer(address, options, "HEAD") as response:
            return _of_headers(response)
    with _in_words(address):
        files, path = _file_system(address, options)
        files.invalidate_cache()  # a listing that was kept may be older than the file
        info = files.info(path)
    if info.get("type") == "directory":
        raise SourceError(f"{address} is a folder. Give the files in it: {address.rstrip('/')}/*")
    said = [f"{key} {info[key]}" for key in _VERSION_KEYS if info.get(key) is not None]
    return Facts(size=info.get("size"), version=", ".join(said) or None)


def fetch(address: str, expected: Facts, out: Output, options: Mapping[str, Any]) -> None:
    """Writes the bytes of a file behind an address.

    Args:
        address: as of :func:`facts`.
        expected: what :func:`facts` said before.
        out: what is written to.
        options: as of :func:`facts`.

    Raises:
        SourceError: it changed meanwhile, was cut short, or can't be had.
    """
    if _is_web(address):
        with _answer(address, options, "GET") as response:
            now = _of_headers(response)
            with _in_words(address):
                _copy(response, out)
    else:
        with _in_words(address):
            files, path = _file_system(address, options)
            with files.open(path, "rb") as source:
                _copy(source, out)
        now = facts(address, options)
    if now.version != expected.version:
        raise SourceError(f"{address} changed while it was fetched. Start again.")
    if now.size is not None and out.size != now.size:
        raise SourceError(f"{address} was cut short: {out.size:,} of {now.size:,} bytes came. Start again.")


def found(pattern: str, options: Mapping[str, Any]) -> list[str]:
    """The addresses of the files that a pattern (``s3://bucket/*.jsonl``) matches, sorted. No pattern gives itself.

    Raises:
        SourceError, ConfigError: as :func:`facts`; or none matches.
    """
    if _is_web(pattern) or not any(character in pattern for character in "*?["):
        return [pattern]
    with _in_words(pattern):
        files, path = _file_system(pattern, options)
        files.invalidate_cache()
        matches = sorted(name for name in files.glob(path) if not files.isdir(name))
    if not matches:
        raise SourceError(f"No file matches {pattern}. Check data_files.")
    return [str(files.unstrip_protocol(name)) for name in matches]


def _is_web(address: str) -> bool:
    return address.startswith(("http://", "https://"))


def _copy(source: Any, out: Output) -> None:
    while part := source.read(_AT_ONCE):
        out.write(part)


def _file_system(address: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    return url_to_fs(address, **options)


@contextmanager
def _answer(address: str, options: Mapping[str, Any], method: str) -> Iterator[HTTPResponse]:
    """What a server answers; one that knows no HEAD is asked for the file, which is then not read."""
    headers = {"User-Agent": f"torchpipe/{__version__}", "Accept-Encoding": "identity", **options.get("headers", {})}
    query = request.Request(quote(address, safe="%/:=&?~#+!$,;'@()*[]"), headers=headers, method=method)
    with _in_words(address):
        try:
            response = web_opener(request.HTTPHandler(), request.HTTPSHandler()).open(query, timeout=_TIMEOUT)
        except HTTPError as error:
            error.close()  # it is the answer too
            if method != "HEAD" or error.code not in (403, 405, 501):  # 403: an address signed for GET alone
                raise
            response = None
    if response is None:
        with _answer(address, options, "GET") as response:
            yield response
        return
    with response:
        yield response


def _of_headers(response: HTTPResponse) -> Facts:
    size = response.headers.get("Content-Length")
    said = [f"{key} {response.headers[key]}" for key in ("ETag", "Last-Modified") if response.headers[key]]
    return Facts(size=int(size) if size and size.isdigit() else None, version=", ".join(said) or None)


@contextmanager
def _in_words(address: str) -> Iterator[None]:
    """Turns what a protocol's library raises into a sentence.

    Raises:
        SourceError, ConfigError: see :func:`facts`.
    """
    try:
        yield
    except (SourceError, ConfigError):
        raise
    except ImportError as error:
        raise ConfigError(f"{address} can't be reached: {error}. Install that package.") from error
    except HTTPError as error:
        hint = " Give credentials: storage_options={headers: {Authorization: ...}}" if error.code in (401, 403) else ""
        raise SourceError(
            f"{address} can't be fetched: the server answered {error.code} ({printable(error.reason)[:100]}).{hint}"
        ) from error
    except FileNotFoundError as error:
        raise SourceError(f"There is no file {address}. Check its spelling.") from error
    except (OSError, HTTPException) as error:
        reason = printable(getattr(error, "reason", None) or error)[:300]
        raise SourceError(f"{address} can't be fetched: {reason or type(error).__name__}.") from error
    except Exception as error:  # each file system has errors of its own, and fsspec says ValueError
        protocol = address.partition("://")[0]
        from fsspec import available_protocols

        known = available_protocols()
        if protocol not in known:
            raise ConfigError(
                f"{address}: nothing speaks the protocol {protocol!r}.{did_you_mean(protocol, known)}"
            ) from error
        raise SourceError(f"{address} can't be fetched: {printable(error)[:300]}.") from error
