"""Opens the back end of a chat template from the one tokenizer file that is named."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from torchpipe.errors import ConfigError, SourceError, TokenizerError
from torchpipe.tokenizers.backend import Backend, PrefixScheme
from torchpipe.tokenizers.huggingface import HuggingFaceBackend
from torchpipe.tokenizers.sentencepiece import SentencePieceBackend, is_sentencepiece
from torchpipe.tokenizers.tekken import TekkenBackend, is_tekken
from torchpipe.tokenizers.tiktoken import TikTokenBackend

FilePath = str | Path

_KINDS = {
    "tokenizer_json": "a Hugging Face tokenizer.json",
    "tiktoken_ranks": "a file of tiktoken ranks",
    "tekken": "a tekken.json",
    "sentencepiece": "a SentencePiece model",
}


def load_backend(
    *,
    tokenizer_json: FilePath | None = None,
    tiktoken_ranks: FilePath | None = None,
    pattern: str | None = None,
    tekken: FilePath | None = None,
    sentencepiece: FilePath | None = None,
    special_tokens: Mapping[str, int] | None = None,
    normalization: Literal["NFC"] | None = None,
    prefix_scheme: PrefixScheme | None = None,
) -> Backend:
    """The back end of exactly one tokenizer file; no text is encoded as one of its control tokens.

    Args:
        tokenizer_json: a Hugging Face ``tokenizer.json``.
        tiktoken_ranks: tiktoken ranks, as Llama 3, Qwen and GPT-4 publish theirs; ``pattern`` belongs to it.
        pattern: split expression of the ranks.
        tekken: a ``tekken.json``.
        sentencepiece: a SentencePiece model.
        special_tokens: control tokens beside those that the file lists, text to id. In a SentencePiece model they are
            pieces of the file, or have ids behind its last; elsewhere no ordinary token has their ids.
        normalization: the Unicode form that text is brought to before ranks are looked up; other files say it
            themselves.
        prefix_scheme: for a SentencePiece model, where its prefix space stands; None: "always".

    Raises:
        ConfigError: not exactly one file is given, or an argument that the file has no use for.
        SourceError: there is no such file.
        TokenizerError: the file is of another kind, or a control token has the id of an ordinary token.
    """
    given = {
        "tokenizer_json": tokenizer_json,
        "tiktoken_ranks": tiktoken_ranks,
        "tekken": tekken,
        "sentencepiece": sentencepiece,
    }
    kind, path = _only(given)
    _refuse_idle(kind, "tiktoken_ranks", pattern=pattern, normalization=normalization)
    _refuse_idle(kind, "sentencepiece", prefix_scheme=prefix_scheme)
    _check_kind(kind, path)
    special_tokens = {} if special_tokens is None else special_tokens
    if kind == "tokenizer_json":
        backend: Backend = HuggingFaceBackend(path)
    elif kind == "tekken":
        backend = TekkenBackend(path)
    elif kind == "sentencepiece":
        backend = SentencePieceBackend(path, tuple(special_tokens), prefix_scheme=prefix_scheme or "always")
    elif pattern is None:
        raise ConfigError(
            f"{path} needs `pattern`: the split expression of the family's encoder, which rank files don't hold."
        )
    else:
        backend = TikTokenBackend(path, pattern, normalization=normalization)
    _refuse_ordinary(backend, special_tokens)
    return backend


def _only(given: Mapping[str, FilePath | None]) -> tuple[str, Path]:
    named = {kind: path for kind, path in given.items() if path is not None}
    if len(named) != 1:
        what = " and ".join(f"{kind}={str(path)!r}" for kind, path in named.items()) or "no tokenizer file"
        raise ConfigError(f"Exactly one tokenizer file must be given, and here is {what}. Give one of {_list(given)}.")
    ((kind, path),) = named.items()
    return kind, Path(path)


def _list(kinds: Mapping[str, object]) -> str:
    first, *others = kinds
    return f"{', '.join([first, *others[:-1]])} or {others[-1]}"


def _refuse_idle(kind: str, needed: str, **arguments: object) -> None:
    """Refuses an argument that belongs to another kind of file: it would silently change nothing."""
    for name, value in arguments.items():
        if value is not None and kind != needed:
            raise ConfigError(f"{name}={value!r} belongs to {needed}, and {kind} is given. Leave it out.")


def _check_kind(kind: str, path: Path) -> None:
    try:
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise SourceError(
            f"Can't read the tokenizer file {path}: {error.strerror}. Check the path given as {kind}."
        ) from error
    found = _kind_of(start)
    if found != kind:
        raise TokenizerError(
            f"{path} is given as {kind}, and it looks like {_KINDS[found]}, not {_KINDS[kind]}. Give it as {found}, or "
            "give another file."
        )


def _kind_of(start: bytes) -> str:
    if is_sentencepiece(start):
        return "sentencepiece"
    if is_tekken(start):
        return "tekken"
    return "tokenizer_json" if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{") else "tiktoken_ranks"


def _refuse_ordinary(backend: Backend, special_tokens: Mapping[str, int]) -> None:
    """Refuses a control token that a text could be encoded as."""
    token_bytes = getattr(backend, "token_bytes", lambda token_id: None)
    for text, token_id in special_tokens.items():
        own = backend.control_tokens.get(text)
        if own is not None and own != token_id:
            raise TokenizerError(
                f"special_tokens gives {text!r} the id {token_id}, and in {backend.name} its id is {own}. Leave it "
                "out: control tokens that the file lists are known."
            )
        spelled = token_bytes(token_id)
        if own is None and spelled is not None:
            raise TokenizerError(
                f"special_tokens gives {text!r} the id {token_id}, which in {backend.name} is the ordinary token "
                f"{spelled.decode(errors='replace')!r}. A control token needs an id of its own."
            )
