"""The text tokenizer of CLIP."""

import gzip
import zlib
from collections.abc import Sequence
from typing import ClassVar

from torchpipe._fingerprint import content_hash
from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.backend import check_encodable
from torchpipe.tokenizers.byte_level import BYTE_OF, byte_alphabet, parse_merges
from torchpipe.tokenizers.reading import read_bytes
from torchpipe.tokenizers.text_encoder import TextEncoderTokenizer

# https://github.com/openai/CLIP/blob/main/clip/simple_tokenizer.py (MIT): the split, without the two control tokens,
# which enter by id only; the number of merges that count; and the mark at a word's end.
CLIP_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
CLIP_NUM_MERGES = 49152 - 256 - 2
WORD_END = "</w>"


class CLIPTokenizer(TextEncoderTokenizer):
    """CLIP's ids of a text: lower case, between a start and an end token.

    Args:
        path: CLIP's merges: ``merges.txt``, or OpenAI's ``bpe_simple_vocab_16e6.txt.gz``, of which the first 48,894
            merges count.
        max_seq_len: the most ids a text may have; 77 in all of OpenAI's models.
        truncate: whether longer texts are cut; otherwise they are refused.

    Attributes:
        sot_token, eot_token: what starts and ends a text. pad_token: what fills a batch, the end token.

    Raises:
        SourceError: there is no such file.
        TokenizerError: it does not hold merges.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_tokenizer", "_bytes"})
    _libraries: ClassVar[tuple[str, ...]] = ("tokenizers",)

    def __init__(self, path: str, max_seq_len: int = 77, truncate: bool = True) -> None:
        import tokenizers
        from tokenizers import models, pre_tokenizers

        super().__init__(max_seq_len, truncate)
        text = _read(path)
        self._content = content_hash(text.encode())
        merges = parse_merges(text, str(path))[:CLIP_NUM_MERGES]
        if not merges:
            raise TokenizerError(f"{path} holds no merges. Give CLIP's merges file.")
        alphabet = list(byte_alphabet().values())
        pieces = [*alphabet, *(char + WORD_END for char in alphabet), *(first + second for first, second in merges)]
        self.vocab_size = len(pieces) + 2
        self.sot_token, self.eot_token = len(pieces), len(pieces) + 1
        self.pad_token = self.end_id = self.eot_token
        self._bytes = [_bytes_of(piece) for piece in pieces] + [b"<|startoftext|>", b"<|endoftext|>"]
        vocab = {piece: token_id for token_id, piece in enumerate(pieces)}
        try:
            self._tokenizer = tokenizers.Tokenizer(
                models.BPE(vocab=vocab, merges=merges, end_of_word_suffix=WORD_END, cache_capacity=100_000)
            )
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"{path} does not hold CLIP's merges: {error}") from error
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(CLIP_PATTERN), behavior="removed", invert=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids, with a space after each word and control tokens as their text.

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        for token_id in tokens:
            if not 0 <= token_id < self.vocab_size:
                raise TokenizerError(f"Token id {token_id} is outside the vocabulary of {self.vocab_size} ids.")
        return b"".join(self._bytes[token_id] for token_id in tokens).decode("utf-8", errors="replace")

    def _whole(self, text: str) -> list[int]:
        check_encodable(text)
        cleaned = text.replace("’", "'").lower()
        return [self.sot_token, *self._tokenizer.encode(cleaned, add_special_tokens=False).ids, self.eot_token]


def _bytes_of(piece: str) -> bytes:
    """What a piece stands for; a space follows a word's end."""
    word = piece.removesuffix(WORD_END) if len(piece) > len(WORD_END) else piece
    return bytes(BYTE_OF[char] for char in word) + (b" " if word != piece else b"")


def _read(path: str) -> str:
    content = read_bytes(path, "merges file", "Check its path.")
    try:
        return (gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content).decode("utf-8")
    except (UnicodeDecodeError, OSError, EOFError, zlib.error) as error:
        raise TokenizerError(f"{path} is not UTF-8 text ({error}). Give CLIP's merges file.") from error
