"""Back end over a tiktoken rank file: one line ``base64(bytes) rank`` a token."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torchpipe._fingerprint import content_hash
from torchpipe.errors import ConfigError, TokenizerError
from torchpipe.tokenizers.backend import as_bytes, check_bytes, check_encodable
from torchpipe.tokenizers.reading import read_again, read_bytes
from torchpipe.tokenizers.split_patterns import grouped

if TYPE_CHECKING:
    import tiktoken

MAX_SPACE_RUN = 25_000
"""White space in a row that the library's regex engine is given at once; its stack overflows at a few 100,000."""

_USUAL_FORM = re.compile(rb"(?:[A-Za-z0-9+/]+={0,2} [0-9]+\r?\n)*(?:[A-Za-z0-9+/]+={0,2} [0-9]+)?")
_LONG_SPACE_RUN = re.compile(rf"\s{{{MAX_SPACE_RUN}}}")

_BETWEEN, _BETWEEN_ID = "\0", 2**32 - 1
"""What stands between texts that are encoded in one call, and its id. It is of ASCII, so that the texts stay so."""
_ALLOWED = {_BETWEEN}


class TikTokenBackend:
    """A byte-pair encoder from a file of ranks, as Llama 3, Qwen and GPT-4 publish theirs.

    Args:
        path: the rank file. Ranks must run from 0 without a gap.
        pattern: the family's split expression; it isn't in the file.
        normalization: the Unicode form that text is brought to first, for families that say so (Qwen: NFC).

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a rank file.
        ConfigError: ``pattern`` is no regular expression.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"name"})
    _libraries: ClassVar[tuple[str, ...]] = ("tiktoken",)

    def __init__(self, path: str | Path, pattern: str, *, normalization: Literal["NFC"] | None = None) -> None:
        self.name = str(path)
        self._pattern = pattern
        self._normalization: Literal["NFC"] | None = normalization
        self.control_tokens: dict[str, int] = {}
        content = read_bytes(path, "tokenizer file", "Give the path of a rank file.")
        self._content = content_hash(content)
        self.num_tokens = _count_ranks(path, content)
        _check_pattern(pattern)

    @cached_property
    def _built(self) -> "tuple[tiktoken.Encoding, frozenset[int]]":
        """The library's encoder, and the bytes that it has no token for. It is built when it is first asked for."""
        ranks = _ranks(self.name, read_again(self.name, "tokenizer file", self._content))
        return encoding_of(self.name, self._pattern, ranks), missing_bytes(ranks)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(TikTokenBackend, normalization=self._normalization), (self.name, self._pattern)

    def prepare(self) -> None:
        """Builds the library's encoder, so that processes which are forked after this share it."""
        self._built  # noqa: B018

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; control tokens are spelled out like any other text.

        Raises:
            TokenizerError: a byte of the text is not among the ranks.
        """
        if not text.isascii():  # ASCII is in every normal form
            check_encodable(text)
            if self._normalization is not None:
                text = unicodedata.normalize(self._normalization, text)
        encoding, missing = self._built
        if missing:
            check_bytes(text, missing, self.name)
        if len(text) >= MAX_SPACE_RUN and _LONG_SPACE_RUN.search(text):
            return [token_id for piece in _cut_long_runs(text) for token_id in encoding.encode_ordinary(piece)]
        return encoding.encode_ordinary(text)

    def encode_texts(self, texts: Sequence[str]) -> list[memoryview]:
        """The ids that :meth:`encode` gives each text, as bytes of uint32, by one call of the library.

        It cuts what it is given at its own control tokens. Here that is one alone, which stands between the texts.

        Raises:
            TokenizerError: a byte of a text is not among the ranks.
        """
        encoding, missing = self._built
        form = self._normalization
        joined = _BETWEEN.join(
            texts if form is None else [text if text.isascii() else unicodedata.normalize(form, text) for text in texts]
        )
        if (
            joined.count(_BETWEEN) != len(texts) - 1
            or missing
            or (len(joined) >= MAX_SPACE_RUN and _LONG_SPACE_RUN.search(joined))
        ):
            return [as_bytes(self.encode(text)) for text in texts]
        try:
            ids = encoding.encode_to_numpy(joined, allowed_special=_ALLOWED, disallowed_special=())
        except UnicodeEncodeError:  # the error of that text alone says more
            return [as_bytes(self.encode(text)) for text in texts]
        view = ids.data.cast("B")
        encoded: list[memoryview] = []
        start = 0
        for stop in (ids == _BETWEEN_ID).nonzero()[0].tolist():
            encoded.append(view[start : 4 * stop])
            start = 4 * stop + 4
        encoded.append(view[start:])
        return encoded

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ordinary ids; bytes that are not UTF-8 come back as U+FFFD."""
        return self._built[0].decode(list(token_ids))

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one token; None where the vocabulary has no such id."""
        return self._built[0].decode_single_token_bytes(token_id) if 0 <= token_id < self.num_tokens else None


def _count_ranks(path: str | Path, content: bytes) -> int:
    """How many ranks a file holds. All of them are read only where its form, or its last rank, is not the usual one.

    Raises:
        TokenizerError: the file is not a rank file.
    """
    lines = content.count(b"\n") + (not content.endswith(b"\n"))
    last = content.rstrip(b"\r\n").rpartition(b" ")[2]
    if content.split(b"\n", 1)[0].endswith(b" 0") and last == b"%d" % (lines - 1) and _USUAL_FORM.fullmatch(content):
        return lines
    return len(_ranks(path, content))


def missing_bytes(ranks: Mapping[bytes, int]) -> frozenset[int]:
    """The bytes that have no token of their own."""
    return frozenset(byte for byte in range(256) if bytes([byte]) not in ranks)


def encoding_of(name: str, pattern: str, ranks: dict[bytes, int]) -> "tiktoken.Encoding":
    """The library's encoder, with the control token that stands between texts (see ``encode_texts``).

    Raises:
        ConfigError: ``pattern`` is no regular expression.
    """
    import tiktoken

    try:
        return tiktoken.Encoding(
            name, pat_str=grouped(pattern), mergeable_ranks=ranks, special_tokens={_BETWEEN: _BETWEEN_ID}
        )
    except ValueError as error:
        raise ConfigError(f"pattern={pattern!r} is no regular expression: {error}.") from error


@cache
def _check_pattern(pattern: str) -> None:
    """Refuses a pattern that the library can't read, with an encoder that costs next to nothing."""
    encoding_of("of single bytes", pattern, {bytes([byte]): byte for byte in range(256)})


def _ranks(path: str | Path, content: bytes) -> dict[bytes, int]:
    """Bytes to rank. Read here: the library's own reader caches by path, and would serve a changed file stale."""
    ranks = _ranks_at_once(content) or {}
    for number, line in enumerate(() if ranks else content.splitlines(), start=1):
        if not line:
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise TokenizerError(
                f"{path}, line {number} is not `base64 rank`: {line[:40]!r}. This back end reads tiktoken rank files; "
                "a Hugging Face tokenizer file ends in .json, a SentencePiece one is read by another class."
            ) from None
    if not ranks or sorted(ranks.values()) != list(range(len(ranks))):
        raise TokenizerError(
            f"{path} holds {len(ranks)} ranks that don't run from 0 without a gap: the file is cut or mixed."
        )
    return ranks


def _ranks_at_once(content: bytes) -> dict[bytes, int] | None:
    """What :func:`_ranks` reads line by line, four times as fast; None where the form is another, or faulty."""
    if _USUAL_FORM.fullmatch(content) is None:
        return None
    fields = content.split()
    try:
        return dict(zip(map(_strict_base64, fields[::2]), map(int, fields[1::2]), strict=True))
    except binascii.Error:
        return None


_strict_base64 = partial(binascii.a2b_base64, strict_mode=True)  # base64.b64decode(validate=True), without its checks


def _cut_long_runs(text: str) -> Iterator[str]:
    """The text in pieces, cut inside runs of white space only, so that no piece holds an over-long one."""
    start = 0
    for run in _LONG_SPACE_RUN.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    yield text[start:]
