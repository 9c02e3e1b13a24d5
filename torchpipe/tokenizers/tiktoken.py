"""Back end over a tiktoken rank file: one line ``base64(bytes) rank`` a token."""

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

from torchpipe._fingerprint import content_hash
from torchpipe.errors import ConfigError, TokenizerError
from torchpipe.tokenizers.backend import check_bytes, check_encodable
from torchpipe.tokenizers.reading import read_bytes

MAX_SPACE_RUN = 25_000
"""White space in a row that the library's regex engine is given at once; its stack overflows at a few 100,000."""

_LONG_SPACE_RUN = re.compile(rf"\s{{{MAX_SPACE_RUN}}}")


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

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"name", "_encoding"})
    _libraries: ClassVar[tuple[str, ...]] = ("tiktoken",)

    def __init__(self, path: str | Path, pattern: str, *, normalization: Literal["NFC"] | None = None) -> None:
        import tiktoken

        self.name = str(path)
        self._pattern = pattern
        self._normalization: Literal["NFC"] | None = normalization
        self.control_tokens: dict[str, int] = {}
        content = read_bytes(path, "tokenizer file", "Give the path of a rank file.")
        self._content = content_hash(content)
        self._mergeable = _checked_ranks(path, content)
        self.num_tokens = len(self._mergeable)
        self._missing = frozenset(byte for byte in range(256) if base64.b64encode(bytes([byte])) not in self._mergeable)
        _check_pattern(pattern)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(TikTokenBackend, normalization=self._normalization), (self.name, self._pattern)

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; control tokens are spelled out like any other text.

        Raises:
            TokenizerError: a byte of the text is not among the ranks.
        """
        check_encodable(text)
        if self._normalization is not None:
            text = unicodedata.normalize(self._normalization, text)
        if self._missing:
            check_bytes(text, self._missing, self.name)
        if len(text) >= MAX_SPACE_RUN and _LONG_SPACE_RUN.search(text):
            return [token_id for piece in _cut_long_runs(text) for token_id in self._encoding.encode_ordinary(piece)]
        return self._encoding.encode_ordinary(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ordinary ids; bytes that are not UTF-8 come back as U+FFFD."""
        return self._encoding.decode(list(token_ids))

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one token; None where the vocabulary has no such id."""
        return self._encoding.decode_single_token_bytes(token_id) if 0 <= token_id < self.num_tokens else None


def _ranks(path: str | Path, content: bytes) -> dict[bytes, int]:
    """Bytes to rank. Read here: the library's own reader caches by path, and would serve a changed file stale."""
    lines = content.splitlines()
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(lines, start=1):
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


def _cut_long_runs(text: str) -> Iterator[str]:
    """The text in pieces, cut inside runs of white space only, so that no piece holds an over-long one."""
    start = 0
    for run in _LONG_SPACE_RUN.finditer(text):
        yield text[start : run.end()]
        start = run.end()
    yield text[start:]
