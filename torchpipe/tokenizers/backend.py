"""What a tokenizer back end gives to everything above it."""

from array import array
from collections.abc import Callable, Collection, Sequence
from typing import Literal, Protocol, cast

from torchpipe.errors import RenderError

PrefixScheme = Literal["always", "first", "never"]
"""Where an encoder puts a space before a text: before each text between control tokens, before the first, nowhere."""


class Backend(Protocol):
    """Ordinary text to ids and back.

    ``encode`` never returns the id of a control token, whatever the text spells: control tokens enter a sample by id
    only, from :mod:`torchpipe.tokenizers.render`.
    """

    @property
    def name(self) -> str:
        """The file's path, for error messages."""
        ...

    @property
    def num_tokens(self) -> int:
        """Size of the ordinary vocabulary: one past its largest id."""
        ...

    @property
    def control_tokens(self) -> dict[str, int]:
        """The control tokens that the file itself lists, text to id; empty where the format has none."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``, never a control token; no BOS or EOS is added."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ordinary ids. Bytes that are not UTF-8 come back as U+FFFD."""
        ...


def encode_texts(backend: Backend, texts: Sequence[str]) -> Sequence[memoryview]:
    """The ids that the back end's ``encode`` gives each text, as bytes of uint32.

    A back end that has an ``encode_texts`` of its own does them all at once.
    """
    at_once = cast("Callable[[Sequence[str]], Sequence[memoryview]] | None", getattr(backend, "encode_texts", None))
    return [as_bytes(backend.encode(text)) for text in texts] if at_once is None else at_once(texts)


def as_bytes(token_ids: Sequence[int]) -> memoryview:
    """Ids as bytes of uint32, in the machine's order.

    >>> as_bytes([1, 2]).cast("I").tolist()
    [1, 2]
    """
    return memoryview(array("I", token_ids)).cast("B")


def check_encodable(text: str) -> None:
    """Refuses text that has no UTF-8 form, which some back ends would silently replace.

    Raises:
        RenderError: ``text`` holds a lone surrogate (half of a UTF-16 pair), as broken JSON escapes leave behind.
    """
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise RenderError(
            f"Character {error.start} of a text is the lone surrogate {text[error.start]!r}, which has no UTF-8 form "
            f"(near {text[max(0, error.start - 20) : error.start]!r}). Repair the row, or replace it in a message "
            "transform with text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
        ) from None


def check_bytes(text: str, missing: Collection[int], name: str) -> None:
    """Refuses text with a byte that a vocabulary lacks: the libraries drop it without a word, or panic.

    Args:
        text: what is to be encoded; it has a UTF-8 form.
        missing: the bytes that the vocabulary has no token for.
        name: what the message calls the tokenizer file.

    Raises:
        RenderError: the text has such a byte.
    """
    lacked = frozenset(missing)
    for index, char in enumerate(text):
        if not lacked.isdisjoint(char.encode()):
            raise RenderError(
                f"{name}: the vocabulary lacks a byte of {char!r}, character {index} of a text. Give the unknown "
                "token's id where the tokenizer takes one, or a vocabulary that holds all 256 bytes."
            )


def piece_bytes(piece: str, *, is_byte: bool) -> bytes:
    """The bytes of a piece that spells a space as U+2581, or one byte as ``<0x0A>``.

    >>> piece_bytes("▁é", is_byte=False), piece_bytes("<0x0A>", is_byte=True)
    (b' \\xc3\\xa9', b'\\n')
    """
    return bytes([int(piece[3:5], 16)]) if is_byte else piece.replace("▁", " ").encode()
