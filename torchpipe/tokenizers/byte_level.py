"""Back end over a vocabulary and merges of byte-level byte-pair encoding (``vocab.json`` and ``merges.txt``)."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from torchpipe._fingerprint import content_hash
from torchpipe.errors import ConfigError, TokenizerError
from torchpipe.tokenizers.backend import check_bytes, check_encodable
from torchpipe.tokenizers.reading import read_text

# https://github.com/openai/gpt-2/blob/master/src/encoder.py (MIT)
GPT2_PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

_MOST_CONTROL_TOKENS = 1000
"""Beyond as many as there are merges; a vocabulary with more pieces that no merge makes has lost its merges."""


class ByteLevelBackend:
    """A byte-pair encoder from a vocabulary and merges, as GPT-2, Qwen and Phi-4 publish theirs.

    A piece that no merge makes can't come from text: such pieces (``<|endoftext|>``) are its ``control_tokens``.

    Args:
        vocab_path: JSON, piece to id. Pieces spell bytes in GPT-2's alphabet (see :func:`byte_alphabet`).
        merges_path: two pieces a line, the first merge at the top; a first line with ``#version:`` is skipped.
        pattern: the family's split expression; it isn't in the files.
        normalization: the Unicode form that text is brought to first, for families that say so (Qwen: NFC).
        unknown_id: id of the piece for a byte that the vocabulary lacks. None: text with such a byte is refused.

    Raises:
        SourceError: a file is missing.
        TokenizerError: a file is not of this form, or the two don't belong together.
        ConfigError: ``pattern`` is no regular expression.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"name", "_tokenizer"})
    _libraries: ClassVar[tuple[str, ...]] = ("tokenizers",)

    def __init__(
        self,
        vocab_path: str | Path,
        merges_path: str | Path,
        pattern: str = GPT2_PATTERN,
        *,
        normalization: Literal["NFC"] | None = None,
        unknown_id: int | None = None,
    ) -> None:
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers

        self.name = str(vocab_path)
        vocab_text = read_text(vocab_path, "vocabulary file", "Check its path.")
        merges_text = read_text(merges_path, "merges file", "Check its path.")
        self._content = [content_hash(text.encode()) for text in (vocab_text, merges_text)]
        self._pattern = pattern
        self._unknown_id = unknown_id
        vocab = _parsed_vocab(vocab_path, vocab_text)
        merges = parse_merges(merges_text, str(merges_path))
        unknown_token = next((piece for piece, token_id in vocab.items() if token_id == unknown_id), None)
        if unknown_id is not None and unknown_token is None:
            raise TokenizerError(f"{vocab_path} holds no piece of id {unknown_id!r} to stand for unknown bytes.")
        foreign = [piece for piece in vocab if len(piece) == 1 and piece not in BYTE_OF]
        if foreign:
            raise TokenizerError(
                f"{vocab_path} holds {foreign[:3]}, which spell no byte in GPT-2's alphabet. It is the vocabulary of "
                "another kind of tokenizer."
            )
        made = {first + second for first, second in merges}
        ordinary = {piece: token_id for piece, token_id in vocab.items() if len(piece) == 1 or piece in made}
        self.control_tokens = {piece: token_id for piece, token_id in vocab.items() if piece not in ordinary}
        if len(self.control_tokens) > _MOST_CONTROL_TOKENS + len(merges):
            raise TokenizerError(
                f"{merges_path} holds {len(merges):,} merges, which don't make {len(self.control_tokens):,} pieces of "
                f"{vocab_path}. Is the file cut, or that of another vocabulary?"
            )
        self.num_tokens = 1 + max(ordinary.values(), default=-1)
        self._normalization: Literal["NFC"] | None = normalization
        self._refused = frozenset(
            byte for byte, char in byte_alphabet().items() if unknown_token is None and char not in ordinary
        )
        if unknown_token is not None:
            ordinary[unknown_token] = vocab[unknown_token]
        try:
            self._tokenizer = tokenizers.Tokenizer(models.BPE(vocab=ordinary, merges=merges, unk_token=unknown_token))
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"{vocab_path} and {merges_path} don't belong together: {error}") from error
        try:
            split = tokenizers.Regex(pattern)
        except Exception as error:  # bare here too
            raise ConfigError(f"pattern={pattern!r} is no regular expression: {error}.") from error
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(split, behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._tokenizer.decoder = decoders.ByteLevel()

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; control tokens are spelled out like any other text.

        Raises:
            TokenizerError: a byte of the text is not in the vocabulary.
        """
        check_encodable(text)
        if self._normalization is not None:
            text = unicodedata.normalize(self._normalization, text)
        if self._refused:
            check_bytes(text, self._refused, self.name)
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ordinary ids; bytes that are not UTF-8 come back as U+FFFD."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one token; None where the vocabulary has no such id."""
        piece = self._tokenizer.id_to_token(token_id) if 0 <= token_id < self.num_tokens else None
        return None if piece is None else bytes(BYTE_OF[char] for char in piece)


def byte_alphabet() -> dict[int, str]:
    """GPT-2's alphabet: each of the 256 bytes to one printable character.

    Printable bytes of Latin-1 come first and stand for themselves, the others for the characters from U+0100 on.

    >>> byte_alphabet()[ord("a")], byte_alphabet()[ord(" ")]
    ('a', 'Ġ')
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


BYTE_OF = {char: byte for byte, char in byte_alphabet().items()}


def _parsed_vocab(path: str | Path, text: str) -> dict[str, int]:
    try:
        vocab: Any = json.loads(text)
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON ({error}). Give the vocab.json of the family.") from error
    if not (isinstance(vocab, Mapping) and vocab and all(type(token_id) is int for token_id in vocab.values())):
        raise TokenizerError(f"{path} is JSON, but not a table of piece to id. Give the vocab.json of the family.")
    if len(set(vocab.values())) != len(vocab):
        raise TokenizerError(f"{path} gives one id to several pieces. Give the vocab.json of the family.")
    return dict(vocab)


def parse_merges(text: str, path: str) -> list[tuple[str, str]]:
    """The pairs of a merges file, in order; ``path`` is for the message.

    Raises:
        TokenizerError: a line does not hold two pieces.

    >>> parse_merges("#version: 0.2\\na b\\nab c\\n", "merges.txt")
    [('a', 'b'), ('ab', 'c')]
    """
    merges: list[tuple[str, str]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        line = line.strip("\r")
        if not line or (number == 1 and "#version:" in line):
            continue
        pair = line.split(" ")
        if len(pair) != 2 or not all(pair):
            raise TokenizerError(
                f"{path}, line {number} is not two pieces with a space between: {line[:40]!r}. Give the merges.txt "
                "that belongs to the vocabulary."
            )
        merges.append((pair[0], pair[1]))
    return merges
