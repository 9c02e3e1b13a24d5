"""Back end over a ``tekken.json``: the byte-pair encoders of Mistral Nemo and later."""

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torchpipe._fingerprint import content_hash
from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.control_tokens import TEKKEN_CONTROL_TOKENS
from torchpipe.tokenizers.reading import read_bytes
from torchpipe.tokenizers.tiktoken import TikTokenBackend, encoding_of, missing_bytes


class TekkenBackend(TikTokenBackend):
    """The encoder of a ``tekken.json``. Control tokens have the first ids, ordinary tokens follow.

    The file holds a longer list of tokens than is used: ``default_vocab_size`` less ``default_num_special_tokens`` of
    them count. Files up to version 7 may leave the control tokens out; ids without a name are ``<SPECIAL_n>``. Format:
    https://github.com/mistralai/mistral-common, ``tokens/tokenizers/tekken.py`` (Apache-2.0).

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a ``tekken.json``.
    """

    def __init__(self, path: str | Path) -> None:
        content = read_bytes(path, "tokenizer file", "Give the path of a tekken.json.")
        self._content = content_hash(content)
        spec = _read_spec(path, content)
        config = spec["config"]
        self.name = str(path)
        self._normalization = None
        self._pattern: str = config["pattern"]
        self.num_tokens: int = config["default_vocab_size"]
        self._num_control: int = config["default_num_special_tokens"]
        self.control_tokens = _control_tokens(self.name, spec, self._num_control)
        ranks = _ranks(self.name, spec["vocab"], self._num_control, self.num_tokens)
        self._built = encoding_of(self.name, self._pattern, ranks), missing_bytes(ranks)

    def __reduce__(self) -> tuple[Any, ...]:
        return TekkenBackend, (self.name,)

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one ordinary token; None for control tokens, and where the vocabulary has no such id."""
        return super().token_bytes(token_id) if token_id >= self._num_control else None


def is_tekken(start: bytes) -> bool:
    """Whether a JSON file that begins with ``start`` (its first 4 KiB) looks like a ``tekken.json``."""
    return start.lstrip().startswith(b"{") and b'"default_num_special_tokens"' in start


def _read_spec(path: str | Path, content: bytes) -> dict[str, Any]:
    try:
        spec = json.loads(content.decode("utf-8"))
        config = spec["config"]
        sizes = config["default_vocab_size"], config["default_num_special_tokens"]
        complete = all(type(size) is int for size in sizes) and isinstance(config["pattern"], str) and spec["vocab"]
    except (ValueError, KeyError, TypeError) as error:
        raise TokenizerError(
            f"{path} is not a tekken.json ({type(error).__name__}: {error}). Give the file that Mistral publishes "
            "under that name; a tokenizer.json and a tokenizer.model are read by other classes."
        ) from error
    if not complete:
        raise TokenizerError(f"{path} is not a complete tekken.json: config and vocab don't say what they should.")
    return spec


def _ranks(name: str, vocab: Any, first: int, stop: int) -> dict[bytes, int]:
    """Bytes to id. The encoder compares ids alone, so that ranks may start anywhere."""
    try:
        ranks = {base64.b64decode(token["token_bytes"]): first + token["rank"] for token in vocab[: stop - first]}
    except (KeyError, TypeError, binascii.Error) as error:
        raise TokenizerError(f"{name}: a token of its vocab has no token_bytes and rank ({error!r}).") from error
    if list(ranks.values()) != list(range(first, stop)):
        raise TokenizerError(
            f"{name} should hold ordinary tokens of ids {first} to {stop - 1} in order, each once, and holds "
            f"{len(ranks)} others: the file is cut or mixed."
        )
    return ranks


def _control_tokens(name: str, spec: Mapping[str, Any], count: int) -> dict[str, int]:
    given = spec.get("special_tokens")
    if given is None:
        version = str(spec["config"].get("version", ""))
        if not version[1:].isdigit() or int(version[1:]) > 7:
            raise TokenizerError(f"{name} is of version {version or '(none)'} and lists no special_tokens. It is cut.")
        named = {text: token_id for token_id, text in enumerate(TEKKEN_CONTROL_TOKENS)}
    else:
        try:
            named = {token["token_str"]: token["rank"] for token in given}
        except (KeyError, TypeError) as error:
            raise TokenizerError(f"{name}: special_tokens need token_str and rank ({error!r}).") from error
    taken = set(named.values())
    return named | {f"<SPECIAL_{token_id}>": token_id for token_id in range(count) if token_id not in taken}
