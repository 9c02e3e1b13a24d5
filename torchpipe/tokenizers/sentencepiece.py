"""Back end over a SentencePiece model file."""

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from torchpipe._fingerprint import content_hash
from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.backend import PrefixScheme, check_encodable, piece_bytes
from torchpipe.tokenizers.reading import read_bytes
from torchpipe.tokenizers.sentencepiece_model import (
    adds_dummy_prefix,
    marked_as_control,
    merges_text_as_it_is,
    without_dummy_prefix,
)
from torchpipe.tokenizers.word_cache import WordCache, are_within_words

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor


class SentencePieceBackend:
    """The encoder of a SentencePiece model file, as Llama 2, Mistral, Gemma and T5 publish theirs.

    Its ``control_tokens`` are the pieces that the file marks as control or unknown. No text is encoded as a control
    piece. The unknown piece stands for characters that a model without byte pieces does not know. Words are
    encoded once and kept where the model merges nothing across spaces.

    Args:
        path: the model file.
        control_tokens: further pieces that no text may be encoded as, where the file holds them. A file may mark a
            family's turn markers as "user defined", which the library finds anywhere in a text.
        prefix_scheme: whether the space that the model puts before a text also stands behind a control token inside
            a rendered one ("always", as mistral-common and Hugging Face's ``legacy=True`` do), or not ("first",
            ``legacy=False``), or nowhere in a rendered text ("never", ``add_prefix_space=False`` beside it). Models
            that put no space anywhere are "never" whatever is given.

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a SentencePiece model.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"name", "_proto", "processor", "_without_prefix", "_words"})
    _libraries: ClassVar[tuple[str, ...]] = ("sentencepiece",)

    def __init__(
        self,
        path: str | Path,
        control_tokens: Collection[str] = (),
        *,
        prefix_scheme: PrefixScheme = "always",
    ) -> None:
        self.name = str(path)
        self._given = tuple(control_tokens)
        self._proto = read_bytes(path, "tokenizer file", "Give the path of a SentencePiece model file.")
        self._content = content_hash(self._proto)
        self.processor = _load(self.name, self._proto)
        unknown = self.processor.unk_id()
        pieces = [text for text in self._given if self.processor.piece_to_id(text) != unknown]
        if any(not self.processor.is_control(self.processor.piece_to_id(text)) for text in pieces):
            self._proto = marked_as_control(self._proto, {text.encode() for text in pieces})
            self.processor = _load(self.name, self._proto)
        self.num_tokens: int = self.processor.vocab_size()
        ids = list(range(self.num_tokens))
        self.control_tokens: dict[str, int] = {
            self.processor.id_to_piece(token_id): token_id
            for token_id, is_control in zip(ids, self.processor.is_control(ids), strict=True)
            if is_control or token_id == unknown
        }
        # A model that drops white space writes no prefix for it that could be trimmed.
        self.encodes_whitespace = any(self.processor.encode(char) for char in " \n\t\r\v")
        self._without_prefix: SentencePieceProcessor | None = None
        self._words: WordCache | None = None
        if merges_text_as_it_is(self._proto) and are_within_words(self.processor.id_to_piece(ids)):
            self._words = WordCache(self._unprefixed().encode)
        self._prefix = " " if adds_dummy_prefix(self._proto) else ""
        self._given_scheme: PrefixScheme = prefix_scheme
        has_prefix = self.encodes_whitespace and self.encode("x") != self.encode_continuation("x")
        self.prefix_scheme: PrefixScheme = prefix_scheme if has_prefix else "never"

    def __reduce__(self) -> "tuple[partial[SentencePieceBackend], tuple[str, tuple[str, ...]]]":
        return partial(SentencePieceBackend, prefix_scheme=self._given_scheme), (self.name, self._given)

    def encode(self, text: str, *, trim_leading_whitespace: bool = False) -> list[int]:
        """Ids of ``text``; control tokens are spelled out like any other text.

        Args:
            text: ordinary text.
            trim_leading_whitespace: leave out the space that the model puts before a text, for a text that goes on from
                another. It changes nothing where the model drops white space.
        """
        if not text.isascii():
            check_encodable(text)
        trim = trim_leading_whitespace and self.encodes_whitespace
        if self._words is not None:
            return self._words.encode(text if trim or not text else self._prefix + text)
        return self._unprefixed().encode(text) if trim else self.processor.encode(text)

    def _unprefixed(self) -> "SentencePieceProcessor":
        """The encoder that puts no space before a text."""
        if self._without_prefix is None:
            self._without_prefix = _load(self.name, without_dummy_prefix(self._proto))
        return self._without_prefix

    def encode_continuation(self, text: str) -> list[int]:
        """Ids of a text that goes on from another: without the space that the model puts before a text."""
        return self.encode(text, trim_leading_whitespace=True)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ordinary ids, without the space that the model puts before a text; control pieces have none."""
        return self.processor.decode(list(token_ids))

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one token, its space included; None where the vocabulary has no such id."""
        if not 0 <= token_id < self.num_tokens:
            return None
        return piece_bytes(self.processor.id_to_piece(token_id), is_byte=self.processor.is_byte(token_id))


def is_sentencepiece(start: bytes) -> bool:
    """Whether a file that begins with ``start`` looks like a SentencePiece model: a short first piece, in protobuf.

    >>> is_sentencepiece(bytes([10, 14, 10, 5]) + b"<unk>"), is_sentencepiece(b"IQ== 0")
    (True, False)
    """
    return len(start) > 3 and start[0] == start[2] == 0x0A and start[3] < start[1] < 0x80


def _load(name: str, proto: bytes) -> "SentencePieceProcessor":
    from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(proto)
    except RuntimeError as error:
        raise TokenizerError(
            f"{name} is not a SentencePiece model ({error}). Give the tokenizer.model that the family publishes in "
            "this form; tiktoken ranks and tokenizer.json are read by other classes."
        ) from error
    return processor
