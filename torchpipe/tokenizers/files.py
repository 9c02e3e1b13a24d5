"""Opens tokenizer files: the back end for a family's file, and lists of control tokens."""

import json
from pathlib import Path

from torchpipe.errors import ConfigError, TokenizerError
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.byte_level import ByteLevelBackend
from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.families import FAMILIES
from torchpipe.tokenizers.huggingface import HuggingFaceBackend, parse_added_tokens
from torchpipe.tokenizers.reading import read_bytes
from torchpipe.tokenizers.sentencepiece import SentencePieceBackend, is_sentencepiece
from torchpipe.tokenizers.tekken import TekkenBackend, is_tekken
from torchpipe.tokenizers.tiktoken import TikTokenBackend


def open_backend(path: str | Path | None, chat_format: ChatFormat, *, merges_path: str | Path | None = None) -> Backend:
    """The back end for a family's tokenizer file, told by how the file begins.

    JSON opens a ``tekken.json`` or a ``tokenizer.json`` (a ``vocab.json`` where ``merges_path`` is given), a protobuf
    message a SentencePiece model, anything else tiktoken ranks.

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is of none of these forms, or of another family.
        ConfigError: no path is given.
    """
    name = chat_format.name
    if path is None:
        raise ConfigError(f"The {name} tokenizer needs the path of its vocabulary file. Set it in the config.")
    start = read_bytes(path, "tokenizer file", "Check tokenizer.path.", size=4096).removeprefix(b"\xef\xbb\xbf")
    is_json = start.lstrip().startswith(b"{")
    if chat_format.files == "sentencepiece":
        if is_json or not is_sentencepiece(start):
            held = "JSON" if is_json else "another format"
            raise TokenizerError(
                f"{path} holds {held}, and {name} reads a SentencePiece model. Give the tokenizer.model that the "
                "family publishes."
            )
        pieces = SentencePieceBackend(path, (*chat_format.control_pieces, *chat_format.control_tokens))
        _refuse_other_family(pieces, chat_format)
        return pieces
    if is_sentencepiece(start):
        raise TokenizerError(
            f"{path} is a SentencePiece model, and {name} reads tiktoken ranks, a tokenizer.json, or a vocab.json with "
            "its merges.txt. It is the tokenizer file of another family."
        )
    backend = _open_byte_level(path, chat_format, start, merges_path)
    _refuse_other_family(backend, chat_format)
    return backend


def _open_byte_level(
    path: str | Path, chat_format: ChatFormat, start: bytes, merges_path: str | Path | None
) -> Backend:
    normalization = chat_format.normalization
    if merges_path is not None:
        return ByteLevelBackend(path, merges_path, chat_format.pattern, normalization=normalization)
    if is_tekken(start):
        return TekkenBackend(path)
    if start.lstrip().startswith(b"{"):
        return HuggingFaceBackend(path)
    return TikTokenBackend(path, chat_format.pattern, normalization=normalization)


def _refuse_other_family(backend: Backend, chat_format: ChatFormat) -> None:
    size = backend.num_tokens
    if not chat_format.published_sizes or size in chat_format.published_sizes:
        return  # a format without sizes of its own (ChatML) goes with any vocabulary
    others = [row.name for row in FAMILIES if size in row.published_sizes]
    if others:
        own = " or ".join(map(str, chat_format.published_sizes))
        what = "ordinary tokens" if chat_format.files == "byte_level" else "pieces"
        raise TokenizerError(
            f"{backend.name} has {size} {what}, as the published file of {', '.join(others)}; that of "
            f"{chat_format.name} has {own}. Give the family's own file, or use the other "
            "family's tokenizer."
        )


def read_special_tokens(path: str | Path | None) -> dict[str, int] | None:
    """Control tokens by text, from the ``added_tokens`` of a ``tokenizer.json`` or a file with that list alone.

    None comes back for None.

    Raises:
        SourceError: there is no such file.
        TokenizerError: it has no ``added_tokens`` with ``content`` and ``id``.
    """
    if path is None:
        return None
    content = read_bytes(path, "special tokens file", "Check special_tokens_path.")
    try:
        spec = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is not JSON ({error}). Give a Hugging Face tokenizer.json.") from error
    return parse_added_tokens(spec.get("added_tokens") if isinstance(spec, dict) else None, str(path))
