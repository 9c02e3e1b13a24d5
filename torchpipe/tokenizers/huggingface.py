"""Back end over a Hugging Face ``tokenizer.json``."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.backend import check_bytes, check_encodable
from torchpipe.tokenizers.byte_level import byte_alphabet
from torchpipe.tokenizers.reading import read_bytes

if TYPE_CHECKING:
    pass


class HuggingFaceBackend:
    """The encoder of a ``tokenizer.json``, without its added tokens and without its post-processor.

    The library turns any text that spells an added token into that token. Here the added tokens are taken out before
    the encoder is built, and are known by id only (``control_tokens``).

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a ``tokenizer.json``, or its model still maps the text of a control token to it.
    """

    def __init__(self, path: str | Path) -> None:
        import tokenizers

        self.name = str(path)
        spec = _read_spec(path)
        self.control_tokens = parse_added_tokens(spec["added_tokens"], self.name)
        # What the library leaves out of decoded text; other added tokens (<think>) are text there.
        self.special_ids = frozenset(token["id"] for token in spec["added_tokens"] if token.get("special"))
        spec.update(added_tokens=[], post_processor=None, truncation=None, padding=None)
        try:
            _forget_unreachable_pieces(spec["model"], self.control_tokens)
            self._missing = _missing_bytes(spec)
            self._tokenizer: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(json.dumps(spec))
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"{path} can't be loaded as a tokenizer: {error}") from error
        # Ids, not a count: a vocabulary may have holes where control tokens stood.
        self.num_tokens = 1 + max(self._tokenizer.get_vocab(with_added_tokens=False).values(), default=-1)
        self._refuse_forgeable()

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; control tokens are spelled out like any other text.

        Raises:
            TokenizerError: a byte of the text is not in a byte-level vocabulary.
        """
        check_encodable(text)
        if self._missing:
            normalizer = self._tokenizer.normalizer
            check_bytes(normalizer.normalize_str(text) if normalizer else text, self._missing, self.name)
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ordinary ids; bytes that are not UTF-8 come back as U+FFFD."""
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=False)

    def token_id(self, text: str) -> int | None:
        """Id of a control token or of a piece of the vocabulary; None where the file has no such one."""
        return self.control_tokens.get(text, self._tokenizer.token_to_id(text))

    def _refuse_forgeable(self) -> None:
        control_ids = set(self.control_tokens.values())
        for content in self.control_tokens:
            if not control_ids.isdisjoint(self._tokenizer.encode(content, add_special_tokens=False).ids):
                raise TokenizerError(
                    f"{self.name}: the text {content!r} is encoded as a control token even without the file's list of "
                    "added tokens, so a user's text could forge it. Use a tokenizer file whose model does not hold it."
                )


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


def _read_spec(path: str | Path) -> dict[str, Any]:
    content = read_bytes(path, "tokenizer file", "Give the path of a tokenizer.json.")
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


def _forget_unreachable_pieces(model: dict[str, Any], control_tokens: dict[str, int]) -> None:
    """Takes control tokens out of a byte-pair vocabulary that lists them too.

    No merge makes them; only a match of a whole word could.
    """
    vocab = model.get("vocab")
    if model.get("type") == "BPE" and isinstance(vocab, dict):
        made = {
            merge.replace(" ", "") if isinstance(merge, str) else "".join(merge) for merge in model.get("merges", ())
        }
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
    steps = [spec.get("pre_tokenizer") or {}, spec.get("normalizer") or {}]
    steps += [inner for step in steps for key in ("pretokenizers", "normalizers") for inner in step.get(key) or ()]
    if not lossy or all(step.get("type") != "ByteLevel" for step in steps):
        return frozenset()
    return frozenset(byte for byte, char in byte_alphabet().items() if char not in model["vocab"])
