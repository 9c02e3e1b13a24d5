"""Back end over a Hugging Face ``tokenizer.json``."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from torchpipe._fingerprint import content_hash
from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.backend import PrefixScheme, check_bytes, check_encodable, piece_bytes
from torchpipe.tokenizers.byte_level import BYTE_OF, byte_alphabet
from torchpipe.tokenizers.control_matcher import TokenFlags
from torchpipe.tokenizers.reading import read_again, read_bytes

if TYPE_CHECKING:
    import tokenizers


class HuggingFaceBackend:
    """The encoder of a ``tokenizer.json``, without its added tokens and without its post-processor.

    The library turns any text that spells an added token into that token. Here the added tokens are taken out before
    the encoder is built, and are known by id only (``control_tokens``). An added token that is not special and that
    the model's own merges make (runs of line breaks, in some families) is ordinary text, and stays.

    Attributes:
        control_tokens: ids of the added tokens, by text.
        special_ids: those that the file calls special; the library leaves them out of decoded text.
        flags: how added tokens take their neighbours, by text.
        prefix_scheme: where the encoder puts a space before a text: "always", "first" (at the start of a rendered
            text, not after a control token), or "never".

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a ``tokenizer.json``, or its model still maps the text of a control token to it.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"name", "_bytes_of"})
    _libraries: ClassVar[tuple[str, ...]] = ("tokenizers",)

    def __init__(self, path: str | Path) -> None:
        self.name = str(path)
        content = _read(path)
        self._content = content_hash(content)
        spec = _parsed(path, content)
        ids = parse_added_tokens(spec["added_tokens"], self.name)
        made = _made_by_merges(self.name, spec["model"])
        added = [token for token in spec["added_tokens"] if token.get("special") or token["content"] not in made]
        self.control_tokens: dict[str, int] = {token["content"]: ids[token["content"]] for token in added}
        # What the library leaves out of decoded text; other added tokens (<think>) are text there.
        self.special_ids = frozenset(token["id"] for token in added if token.get("special"))
        self.flags = {token["content"]: TokenFlags.of(token) for token in added}
        self.prefix_scheme = _prefix_scheme(spec)
        self._bytes_of = _spelling(spec)
        # Ids, not a count: a vocabulary may have holes where control tokens stood.
        vocabulary = _ids_of(self.name, spec["model"], self.control_tokens)
        self.num_tokens = 1 + max(vocabulary, default=-1)
        self._missing = _missing_bytes(spec)
        if not set(self.control_tokens.values()).isdisjoint(vocabulary):
            _ = self._tokenizer  # a text may be encoded as one of them, which building the encoder refuses

    @cached_property
    def _tokenizer(self) -> "tokenizers.Tokenizer":
        """The library's encoder, which takes most of a second to build, when it is first asked for."""
        tokenizer = _load(self.name, self._spec(), self.control_tokens)
        _refuse_forgeable(self.name, tokenizer, self.control_tokens)
        return tokenizer

    @cached_property
    def _without_prefix(self) -> "tokenizers.Tokenizer":
        return _load(self.name, _drop_prefix(self._spec()), self.control_tokens)

    def _spec(self) -> dict[str, Any]:
        return _parsed(self.name, read_again(self.name, "tokenizer file", self._content))

    def __reduce__(self) -> "tuple[type[HuggingFaceBackend], tuple[str]]":
        return HuggingFaceBackend, (self.name,)

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; control tokens are spelled out like any other text.

        Raises:
            TokenizerError: a byte of the text is not in a byte-level vocabulary.
        """
        self._check(text)
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def encode_continuation(self, text: str) -> list[int]:
        """Ids of a text that goes on from another: without the space that the encoder puts before a text."""
        if self.prefix_scheme == "never":
            return self.encode(text)
        self._check(text)
        return self._without_prefix.encode(text, add_special_tokens=False).ids

    def _check(self, text: str) -> None:
        check_encodable(text)
        if self._missing:
            normalizer = self._tokenizer.normalizer
            check_bytes(normalizer.normalize_str(text) if normalizer else text, self._missing, self.name)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ordinary ids; bytes that are not UTF-8 come back as U+FFFD."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def token_id(self, text: str) -> int | None:
        """Id of a control token or of a piece of the vocabulary; None where the file has no such one."""
        return self.control_tokens[text] if text in self.control_tokens else self._tokenizer.token_to_id(text)

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one ordinary token; None for control tokens, and for a model whose pieces don't tell."""
        piece = self._tokenizer.id_to_token(token_id) if 0 <= token_id < self.num_tokens else None
        return None if piece is None or piece in self.control_tokens else self._bytes_of(piece)


def parse_added_tokens(tokens: Any, path: str) -> dict[str, int]:
    """Ids by text of the ``added_tokens`` of a ``tokenizer.json``; ``path`` is for the message.

    Raises:
        TokenizerError: they are no list of objects with ``content`` and ``id``, or one text has two ids.
    """
    ids: dict[str, int] = {}
    for token in tokens if isinstance(tokens, list) else [None]:
        content, token_id = (token.get("content"), token.get("id")) if isinstance(token, Mapping) else (None, None)
        if not isinstance(content, str) or not content or type(token_id) is not int or token_id < 0:
            raise TokenizerError(
                f"{path} has no list `added_tokens` of objects with `content`, a text, and `id`, a number from 0. Give "
                "a Hugging Face tokenizer.json."
            )
        if ids.setdefault(content, token_id) != token_id:
            raise TokenizerError(f"{path} gives {content!r} the ids {ids[content]} and {token_id} in `added_tokens`.")
    return ids


def _read(path: str | Path) -> bytes:
    return read_bytes(path, "tokenizer file", "Give the path of a tokenizer.json.")


def _parsed(path: str | Path, content: bytes) -> dict[str, Any]:
    try:
        spec = json.loads(content)
    except ValueError as error:
        raise TokenizerError(
            f"{path} is not JSON ({error}). Give the path of a Hugging Face tokenizer.json."
        ) from error
    if not isinstance(spec, dict) or not isinstance(spec.get("model"), dict) or "added_tokens" not in spec:
        raise TokenizerError(
            f"{path} has no `model` and `added_tokens`: it is JSON, but not a Hugging Face tokenizer.json. "
            "A vocab.json is read together with its merges.txt."
        )
    return spec


def _load(name: str, spec: dict[str, Any], control_tokens: dict[str, int]) -> "tokenizers.Tokenizer":
    """The encoder alone: no added tokens, no post-processor, no truncation."""
    import tokenizers

    spec = {**spec, "added_tokens": [], "post_processor": None, "truncation": None, "padding": None}
    try:
        _forget_unreachable_pieces(name, spec["model"], control_tokens)
        return tokenizers.Tokenizer.from_str(json.dumps(spec))
    except Exception as error:  # the library raises bare Exception
        raise TokenizerError(f"{name} can't be loaded as a tokenizer: {error}") from error


def _refuse_forgeable(name: str, tokenizer: "tokenizers.Tokenizer", control_tokens: Mapping[str, int]) -> None:
    control_ids = set(control_tokens.values())
    for content in control_tokens:
        if not control_ids.isdisjoint(tokenizer.encode(content, add_special_tokens=False).ids):
            raise TokenizerError(
                f"{name}: the text {content!r} is encoded as a control token even without the file's list of added "
                "tokens, so a user's text could forge it. Use a tokenizer file whose model does not hold it."
            )


def _ids_of(name: str, model: dict[str, Any], control_tokens: Mapping[str, int]) -> Collection[int]:
    """The ids of the vocabulary, without the control tokens that are taken out of it."""
    model = dict(model)
    _forget_unreachable_pieces(name, model, control_tokens)
    vocab = model.get("vocab")
    if isinstance(vocab, list) and model.get("type", "Unigram") == "Unigram":  # a piece's place is its id
        return range(len(vocab))
    if not isinstance(vocab, dict) or not all(type(token_id) is int for token_id in vocab.values()):
        raise TokenizerError(f"{name} can't be loaded as a tokenizer: its model has no vocabulary of pieces and ids")
    return vocab.values()


def _made_by_merges(name: str, model: dict[str, Any]) -> set[str]:
    """Pieces that a byte-pair encoder puts together from smaller ones."""
    merges = model.get("merges", ()) if model.get("type") == "BPE" else ()
    try:
        return {merge.replace(" ", "") if isinstance(merge, str) else "".join(merge) for merge in merges}
    except TypeError as error:
        raise TokenizerError(f"{name} can't be loaded as a tokenizer: its merges are no pairs of texts") from error


def _forget_unreachable_pieces(name: str, model: dict[str, Any], control_tokens: Mapping[str, int]) -> None:
    """Takes control tokens out of a byte-pair vocabulary that lists them too.

    No merge makes them; only a match of a whole word could.
    """
    vocab = model.get("vocab")
    if model.get("type") == "BPE" and isinstance(vocab, dict) and not vocab.keys().isdisjoint(control_tokens):
        made = _made_by_merges(name, model)
        model["vocab"] = {
            piece: token_id
            for piece, token_id in vocab.items()
            if piece not in control_tokens or piece in made or len(piece) == 1
        }


def _missing_bytes(spec: Mapping[str, Any]) -> frozenset[int]:
    """The bytes that a byte-level model has no piece for. The library leaves them out where there is no unknown token.

    Other models come back with none: what they do with unknown characters is theirs to say.
    """
    model = spec["model"]
    lossy = model.get("type") == "BPE" and model.get("unk_token") is None and not model.get("byte_fallback")
    steps = (*_steps(spec.get("normalizer")), *_steps(spec.get("pre_tokenizer")))
    if not lossy or all(step.get("type") != "ByteLevel" for step in steps):
        return frozenset()
    return frozenset(byte for byte, char in byte_alphabet().items() if char not in model["vocab"])


def _steps(node: Any) -> Iterator[dict[str, Any]]:
    """The single steps of a normalizer or pre-tokenizer, which may be a sequence of sequences."""
    if isinstance(node, dict):
        yield node
        for inner in (*node.get("normalizers", ()), *node.get("pretokenizers", ())):
            yield from _steps(inner)


def _prefix_scheme(spec: dict[str, Any]) -> PrefixScheme:
    for step in (*_steps(spec.get("normalizer")), *_steps(spec.get("pre_tokenizer"))):
        if step.get("type") == "Prepend" or (step.get("type") == "ByteLevel" and step.get("add_prefix_space")):
            return "always"
        if step.get("type") == "Metaspace":
            return step.get("prepend_scheme", "always" if step.get("add_prefix_space", True) else "never")
    return "never"


def _drop_prefix(spec: dict[str, Any]) -> dict[str, Any]:
    """Changes the steps of a file that put a space before a text so that they don't."""
    for step in (*_steps(spec.get("normalizer")), *_steps(spec.get("pre_tokenizer"))):
        if step.get("type") == "Prepend":
            step["prepend"] = ""
        elif step.get("type") == "ByteLevel":
            step["add_prefix_space"] = False
        elif step.get("type") == "Metaspace":
            step.pop("add_prefix_space", None)
            step["prepend_scheme"] = "never"
    return spec


def _spelling(spec: dict[str, Any]) -> Callable[[str], bytes | None]:
    """Function from a piece of the vocabulary to its bytes."""
    steps = [*_steps(spec.get("normalizer")), *_steps(spec.get("pre_tokenizer"))]
    kinds = {step.get("type") for step in steps}
    if "ByteLevel" in kinds:
        return lambda piece: bytes(map(BYTE_OF.__getitem__, piece)) if BYTE_OF.keys() >= set(piece) else None
    if "Metaspace" not in kinds and not any(step.get("content") == "▁" for step in steps):
        return lambda piece: None
    has_bytes = bool(spec["model"].get("byte_fallback"))
    return lambda piece: piece_bytes(piece, is_byte=has_bytes and bool(_BYTE_PIECE.fullmatch(piece)))


_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")
