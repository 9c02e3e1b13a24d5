"""torchtune's tokenizers of plain text, one for each form of file: BOS and EOS around what a back end gives.

None of them turns text into a control token. A conversation is written by
:class:`~torchpipe.tokenizers.model_tokenizer.ChatFormatTokenizer`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from torchpipe.errors import ConfigError, TokenizerError
from torchpipe.tokenizers.byte_level import GPT2_PATTERN, ByteLevelBackend
from torchpipe.tokenizers.files import read_special_tokens
from torchpipe.tokenizers.huggingface import HuggingFaceBackend
from torchpipe.tokenizers.reading import read_bytes
from torchpipe.tokenizers.sentencepiece import SentencePieceBackend
from torchpipe.tokenizers.tiktoken import TikTokenBackend


class TikTokenBaseTokenizer:
    """Plain text to ids with a file of tiktoken ranks.

    Args:
        path: the rank file.
        name: what the tokenizer is called.
        pattern: split expression of the family's byte-pair encoder.
        bos_id: id that starts a text; it need not be one of ``special_tokens``.
        eos_id: id that ends a text; it need not be one of ``special_tokens``.
        special_tokens: ids of the control tokens by text.

    Attributes:
        vocab_size: one past the largest id, control tokens included; base_vocab_size: without them.

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a rank file, or a control token has the id of an ordinary one.
    """

    def __init__(
        self, path: str, name: str, pattern: str, bos_id: int, eos_id: int, special_tokens: Mapping[str, int]
    ) -> None:
        self.backend = TikTokenBackend(path, pattern)
        self.name = name
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.special_tokens = dict(special_tokens)
        self.base_vocab_size = self.backend.num_tokens
        taken = [text for text, token_id in self.special_tokens.items() if 0 <= token_id < self.base_vocab_size]
        if taken:
            raise TokenizerError(
                f"{path} has {self.base_vocab_size} ordinary tokens, and {len(taken)} of special_tokens have ids among "
                f"theirs: {taken[:3]}. Number them from {self.base_vocab_size}."
            )
        self.vocab_size = 1 + max([self.base_vocab_size - 1, *self.special_tokens.values()])
        self._texts = {bos_id: "", eos_id: ""} | {token_id: text for text, token_id in self.special_tokens.items()}

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True) -> list[int]:
        """Ids of ``text``, with BOS and EOS around them where asked; the empty text gives just those."""
        ids = self.backend.encode(text)
        return _with_ends(ids, self.bos_id if add_bos else None, self.eos_id if add_eos else None)

    def decode(self, token_ids: Sequence[int], truncate_at_eos: bool = True) -> str:
        """Text of ids, control tokens as their text; it stops before the first EOS unless told otherwise.

        Raises:
            TokenizerError: an id is neither in the ranks nor a control token's.
        """
        ids = [int(token_id) for token_id in token_ids]
        # Where one token is both, the first one of a text starts it.
        first = int(self.bos_id == self.eos_id and ids[:1] == [self.bos_id])
        if truncate_at_eos and self.eos_id in ids[first:]:
            ids = ids[: ids.index(self.eos_id, first)]
        return _decoded(ids, self.backend.decode, self._texts, self.base_vocab_size)


class SentencePieceBaseTokenizer:
    """Plain text to ids with a SentencePiece model file.

    Attributes:
        bos_id, eos_id, pad_id: those of the file; -1 where it has none.
        encodes_whitespace: whether the model keeps white space, so that there is something to trim.
        spm_model: the library's own processor.

    Raises:
        SourceError: there is no such file.
        TokenizerError: the file is not a SentencePiece model.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"spm_model"})

    def __init__(self, path: str) -> None:
        self.backend = SentencePieceBackend(path)
        self.spm_model = self.backend.processor
        self.vocab_size = self.backend.num_tokens
        self.bos_id: int = self.spm_model.bos_id()
        self.eos_id: int = self.spm_model.eos_id()
        self.pad_id: int = self.spm_model.pad_id()
        self.encodes_whitespace = self.backend.encodes_whitespace

    def __reduce__(self) -> tuple[type["SentencePieceBaseTokenizer"], tuple[str]]:
        return type(self), (self.backend.name,)

    def encode(
        self,
        text: str,
        add_bos: bool = True,
        add_eos: bool = True,
        trim_leading_whitespace: bool = False,
        prefix: str | None = None,
    ) -> list[int]:
        """Ids of ``text``, with BOS and EOS around them where asked.

        Args:
            text: ordinary text.
            add_bos: start with BOS.
            add_eos: end with EOS.
            trim_leading_whitespace: leave out the space that the model puts before a text, for a text that goes on from
                another. It changes nothing where the model drops white space.
            prefix: what torchtune encodes before the text and cuts off again to trim it. Here the model itself leaves
                the space out, whatever ``prefix`` is.

        Raises:
            TokenizerError: BOS or EOS is asked for, and the model has none.
        """
        ids = self.backend.encode(text, trim_leading_whitespace=trim_leading_whitespace)
        if (add_bos and self.bos_id < 0) or (add_eos and self.eos_id < 0):
            raise _no_id(self.backend.name, "BOS" if add_bos and self.bos_id < 0 else "EOS")
        return _with_ends(ids, self.bos_id if add_bos else None, self.eos_id if add_eos else None)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids; control tokens have none.

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        for token_id in ids:
            if not 0 <= token_id < self.vocab_size:
                raise TokenizerError(f"Token id {token_id} is outside the vocabulary of {self.vocab_size} ids.")
        return self.backend.decode(ids)


class GPT2BaseTokenizer:
    """Plain text to ids with a vocabulary and merges, as GPT-2 publishes them.

    Args:
        vocab_path: the ``vocab.json``.
        merges_path: the ``merges.txt``.
        unk_id: id of the piece for a byte that the vocabulary lacks. None: text with such a byte is refused.
        bos_id: id that starts a text.
        eos_id: id that ends a text.
        pad_id: id that fills a batch.
        pattern: split expression of the family's byte-pair encoder; GPT-2's by default.

    Attributes:
        vocab_size: one past the largest id of the vocabulary.

    Raises:
        SourceError: a file is missing.
        TokenizerError: a file is not of this form, or ``unk_id`` is not in the vocabulary.
    """

    def __init__(
        self,
        vocab_path: str,
        merges_path: str,
        unk_id: int | None = None,
        bos_id: int | None = None,
        eos_id: int | None = None,
        pad_id: int | None = None,
        *,
        pattern: str = GPT2_PATTERN,
    ) -> None:
        self.backend = ByteLevelBackend(vocab_path, merges_path, pattern, unknown_id=unk_id)
        self.unk_id = unk_id
        self.bos_id = bos_id
        self.eos_id = eos_id
        self.pad_id = pad_id
        self._texts = {token_id: text for text, token_id in self.backend.control_tokens.items()}
        self.vocab_size = 1 + max([self.backend.num_tokens - 1, *self._texts])

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True) -> list[int]:
        """Ids of ``text``, with BOS and EOS around them where asked.

        Raises:
            TokenizerError: BOS or EOS is asked for, and none was given; or a byte of the text is unknown.
        """
        for name, asked, token_id in (("BOS", add_bos, self.bos_id), ("EOS", add_eos, self.eos_id)):
            if asked and token_id is None:
                raise _no_id(self.backend.name, name)
        ids = self.backend.encode(text)
        return _with_ends(ids, self.bos_id if add_bos else None, self.eos_id if add_eos else None)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of ids, control tokens as their text; bytes that are not UTF-8 come back as U+FFFD.

        Raises:
            TokenizerError: an id is not in the vocabulary.
        """
        return _decoded(tokens, self.backend.decode, self._texts, self.backend.num_tokens)


class HuggingFaceBaseTokenizer:
    """Plain text to ids with a ``tokenizer.json``.

    BOS and EOS are those of ``tokenizer_config.json``, else of ``generation_config.json`` (of several EOS ids, the
    first). They are added where ``encode`` is asked for them, whatever the file's own post-processor adds.

    Args:
        tokenizer_json_path: the ``tokenizer.json``.
        tokenizer_config_json_path: a file with the texts ``bos_token`` and ``eos_token``.
        generation_config_path: a file with the ids ``bos_token_id`` and ``eos_token_id``.

    Raises:
        ConfigError: neither config file is given.
        SourceError: a file is missing.
        TokenizerError: a file is not of its form, or the config files don't give both ids.
    """

    def __init__(
        self,
        tokenizer_json_path: str,
        *,
        tokenizer_config_json_path: str | None = None,
        generation_config_path: str | None = None,
    ) -> None:
        if not (tokenizer_config_json_path or generation_config_path):
            raise ConfigError(
                "At least one of tokenizer_config_json_path and generation_config_path must be given: they say which "
                "tokens are BOS and EOS."
            )
        self.backend = HuggingFaceBackend(tokenizer_json_path)
        self.config = _read_config(tokenizer_config_json_path)
        self.generation_config = _read_config(generation_config_path)
        self.special_tokens = self.backend.control_tokens
        self.bos_id = self._id_of("bos_token")
        self.eos_id = self._id_of("eos_token")
        self.vocab_size = 1 + max([self.backend.num_tokens - 1, *self.special_tokens.values()])
        self._texts = {
            token_id: "" if token_id in self.backend.special_ids else text
            for text, token_id in self.special_tokens.items()
        }

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True) -> list[int]:
        """Ids of ``text``, with BOS and EOS around them where asked; the empty text gives just those."""
        ids = self.backend.encode(text)
        return _with_ends(ids, self.bos_id if add_bos else None, self.eos_id if add_eos else None)

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of ids, without the added tokens that the file calls special.

        Raises:
            TokenizerError: an id is not in the file.
        """
        return _decoded(token_ids, self.backend.decode, self._texts, self.backend.num_tokens)

    def _id_of(self, key: str) -> int:
        text = (self.config or {}).get(key)
        if isinstance(text, Mapping):
            text = text.get("content")
        token_id = self.backend.token_id(text) if isinstance(text, str) else None
        if token_id is None:
            given = (self.generation_config or {}).get(f"{key}_id")
            token_id = given[0] if isinstance(given, list) and given else given
        known = type(token_id) is int and (
            0 <= token_id < self.backend.num_tokens or token_id in self.special_tokens.values()
        )
        if type(token_id) is int and not known:
            raise TokenizerError(
                f"generation_config.json gives {key}_id {token_id}, which {self.backend.name} doesn't have. Give the "
                "config file that belongs to it."
            )
        if type(token_id) is not int:
            raise TokenizerError(
                f"Could not infer {key}: tokenizer_config.json gives {text!r}, which is "
                f"{'no text' if not isinstance(text, str) else f'not in {self.backend.name}'}, and "
                f"generation_config.json has no {key}_id. Give a config file that names it."
            )
        return token_id


def parse_hf_tokenizer_json(tokenizer_json_path: str) -> dict[str, int]:
    """Ids of the added tokens of a ``tokenizer.json``, by text.

    Raises:
        SourceError: there is no such file.
        TokenizerError: it has no ``added_tokens`` with ``content`` and ``id``.
    """
    return read_special_tokens(tokenizer_json_path) or {}


def _decoded(
    ids: Sequence[int], decode: Callable[[list[int]], str], control_texts: Mapping[int, str], num_tokens: int
) -> str:
    """Text of ids: runs of ordinary ones decoded together, control tokens written as their texts."""
    parts: list[str] = []
    run: list[int] = []
    for token_id in ids:
        text = control_texts.get(token_id)
        if text is not None:
            if text:
                parts += [decode(run), text]
                run = []
        elif 0 <= token_id < num_tokens:
            run.append(token_id)
        else:
            raise TokenizerError(f"Token id {token_id} is outside the vocabulary of {num_tokens} ordinary ids.")
    return "".join(parts) + decode(run)


def _with_ends(ids: list[int], bos_id: int | None, eos_id: int | None) -> list[int]:
    """A back end's new list itself, with the ids that are given put around it."""
    if bos_id is not None:
        ids.insert(0, bos_id)
    if eos_id is not None:
        ids.append(eos_id)
    return ids


def _no_id(name: str, what: str) -> TokenizerError:
    return TokenizerError(f"{name} has no {what} token. Pass add_{what.lower()}=False, or give the tokenizer its id.")


def _read_config(path: str | None) -> dict[str, Any] | None:
    if not path:
        return None
    content = read_bytes(path, "config file", "Check its path.")
    try:
        config = json.loads(content)
    except ValueError as error:
        raise TokenizerError(f"{path} is not JSON ({error}). Give a model's own config file.") from error
    if not isinstance(config, dict):
        raise TokenizerError(f"{path} holds a {type(config).__name__}. Give a model's own config file, a JSON object.")
    return config
