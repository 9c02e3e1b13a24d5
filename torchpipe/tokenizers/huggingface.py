"""Back end over a Hugging Face ``tokenizer.json``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torchpipe.errors import SourceError, TokenizerError
from torchpipe.tokenizers.backend import check_encodable

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
        spec = _read_spec(Path(path))
        self.control_tokens = {token["content"]: token["id"] for token in spec["added_tokens"]}
        # What the library leaves out of decoded text; other added tokens (<think>) are text there.
        self.special_ids = frozenset(token["id"] for token in spec["added_tokens"] if token.get("special"))
        spec.update(added_tokens=[], post_processor=None, truncation=None, padding=None)
        _forget_unreachable_pieces(spec["model"], self.control_tokens)
        try:
            self._tokenizer: tokenizers.Tokenizer = tokenizers.Tokenizer.from_str(json.dumps(spec))
        except Exception as error:  # the library raises bare Exception
            raise TokenizerError(f"{path} can't be loaded as a tokenizer: {error}") from error
        # Ids, not a count: a vocabulary may have holes where control tokens stood.
        self.num_tokens = 1 + max(self._tokenizer.get_vocab(with_added_tokens=False).values(), default=-1)
        self._refuse_forgeable()

    def encode(self, text: str) -> list[int]:
        """Ids of ``text``; control tokens are spelled out like any other text."""
        check_encodable(text)
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
            if not control_ids.isdisjoint(self.encode(content)):
                raise TokenizerError(
                    f"{self.name}: the text {content!r} is encoded as a control token even without the file's list of "
                    "added tokens, so a user's text could forge it. Use a tokenizer file whose model does not hold it."
                )


def _read_spec(path: Path) -> dict[str, Any]:
    try:
        spec = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(
            f"Can't read the tokenizer file {path}: {error.strerror}. Give the path of a tokenizer.json."
        ) from error
    except ValueError as error:
        raise TokenizerError(
            f"{path} is not JSON ({error}). Give the path of a Hugging Face tokenizer.json."
        ) from error
    if not isinstance(spec, dict) or "model" not in spec or "added_tokens" not in spec:
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
