"""A tokenizer as the ``renderers`` package expects one: text in which control tokens are read out."""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar

from torchpipe.errors import ConfigError, TokenizerError


class RendererTokenizerWrapper:
    """A tokenizer with the methods of Hugging Face's that renderers call.

    Renderers write control tokens as text too, so text that spells one becomes it here, whichever tokenizer it is. A
    row's own text must therefore be checked before it is rendered
    (:class:`~torchpipe.pipeline.control_text.ControlText`).

    Args:
        tokenizer: torchtitan's ``HuggingFaceTokenizer`` (around a ``tokenizers.Tokenizer``), or one of torchpipe's
            whose texts can be cut at control tokens: of byte-level files (tiktoken ranks, most ``tokenizer.json``).

    Attributes:
        name_or_path: of the tokenizer, where it has one.
        bos_token, eos_token, bos_token_id, eos_token_id: of the tokenizer; None where it has none.
        unk_token_id: None: an unknown token has no id.

    Raises:
        ConfigError: it is neither.
    """

    unk_token_id: ClassVar[None] = None

    def __init__(self, tokenizer: Any) -> None:
        inner = getattr(tokenizer, "tokenizer", None)
        self._encoder: _Encoder
        if callable(getattr(inner, "token_to_id", None)) and callable(getattr(inner, "encode", None)):
            self._encoder = _HuggingFaceEncoder(inner)
        elif hasattr(tokenizer, "backend") and isinstance(getattr(tokenizer, "special_tokens", None), Mapping):
            self._encoder = _CutEncoder(tokenizer)
        else:
            raise ConfigError(
                f"A renderer needs a HuggingFaceTokenizer, or a tokenizer of torchpipe's, and the context has a "
                f"{type(tokenizer).__name__}."
            )
        self.name_or_path = str(getattr(tokenizer, "name_or_path", None) or getattr(tokenizer, "tokenizer_path", ""))
        self.bos_token_id: int | None = getattr(tokenizer, "bos_id", None)
        self.eos_token_id: int | None = getattr(tokenizer, "eos_id", None)
        self.bos_token, self.eos_token = (
            None if token_id is None else self.decode([token_id]) for token_id in (self.bos_token_id, self.eos_token_id)
        )

    def encode(self, text: str, add_special_tokens: bool = False) -> list[int]:
        """Ids of a text, control tokens among them.

        Raises:
            TokenizerError: BOS and EOS are asked for, which a renderer writes itself.
        """
        return self(text, add_special_tokens=add_special_tokens)["input_ids"]

    def decode(self, ids: int | Sequence[int], skip_special_tokens: bool = False) -> str:
        """Text of ids; control tokens as their text unless they are left out."""
        return self._encoder.decode([ids] if isinstance(ids, int) else list(ids), skip_special_tokens)

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """The id of a token, or those of several; None for one that there is none of."""
        if isinstance(tokens, str):
            return self._encoder.token_to_id(tokens)
        return [self._encoder.token_to_id(token) for token in tokens]

    def __call__(
        self, text: str, *, add_special_tokens: bool = False, return_offsets_mapping: bool = False
    ) -> dict[str, Any]:
        """``input_ids`` of a text and, where asked, ``offset_mapping``: which characters each token is from.

        Raises:
            TokenizerError: BOS and EOS are asked for, which a renderer writes itself.
        """
        if add_special_tokens:
            raise TokenizerError("A renderer writes BOS and EOS itself. Leave add_special_tokens=False.")
        ids, offsets = self._encoder.encode(text)
        return {"input_ids": ids, "offset_mapping": offsets} if return_offsets_mapping else {"input_ids": ids}


_Encoded = tuple[list[int], list[tuple[int, int]]]


class _HuggingFaceEncoder:
    """A ``tokenizers.Tokenizer``, which reads control tokens out of text by itself."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> _Encoded:
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens)

    def token_to_id(self, token: str) -> int | None:
        return self._tokenizer.token_to_id(token)


class _CutEncoder:
    """A tokenizer of torchpipe's, whose text is cut at control tokens here."""

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_pattern"})

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._controls: dict[str, int] = dict(tokenizer.special_tokens)
        longest_first = sorted(self._controls, key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(map(re.escape, longest_first))})")
        backend = tokenizer.backend
        going_on = getattr(backend, "encode_continuation", backend.encode)
        if (
            not self._controls
            or going_on("a b") != backend.encode("a b")
            or self._bytes_of(backend.encode("é")) is None
        ):
            raise ConfigError(
                f"A renderer cuts text at control tokens, and {backend.name} encodes a text by where it stands. Use a "
                "tokenizer of a byte-level file, or the model's own chat template in place of a renderer."
            )

    def encode(self, text: str) -> _Encoded:
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        start = 0
        for place, piece in enumerate(self._pattern.split(text)):
            if place % 2:
                ids.append(self._controls[piece])
                offsets.append((start, start + len(piece)))
            elif piece:
                own = self._tokenizer.backend.encode(piece)
                ids += own
                offsets += [(start + first, start + end) for first, end in self._offsets(piece, own)]
            start += len(piece)
        return ids, offsets

    def _offsets(self, text: str, ids: Sequence[int]) -> list[tuple[int, int]]:
        """The characters of each token: a token that begins inside of a character begins with it."""
        widths = self._bytes_of(ids)
        character = [index for index, char in enumerate(text) for _ in char.encode()]
        if widths is None or sum(widths) != len(character):
            # The tokenizer normalises text, so its tokens are of other characters: all are of the whole text.
            return [(0, len(text))] * len(ids)
        ends = list(accumulate(widths))
        return [(character[end - width], character[end - 1] + 1) for end, width in zip(ends, widths, strict=True)]

    def _bytes_of(self, ids: Sequence[int]) -> list[int] | None:
        held = [self._tokenizer.token_bytes(token_id) for token_id in ids]
        return None if None in held else [len(part) for part in held]

    def decode(self, ids: list[int], skip_special_tokens: bool) -> str:
        return self._tokenizer.decode(ids, truncate_at_eos=False, skip_special_tokens=skip_special_tokens)

    def token_to_id(self, token: str) -> int | None:
        if token in self._controls:
            return self._controls[token]
        ids = self._tokenizer.backend.encode(token)
        return ids[0] if len(ids) == 1 else None


_Encoder = _HuggingFaceEncoder | _CutEncoder
