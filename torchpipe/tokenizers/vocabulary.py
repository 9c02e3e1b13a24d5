"""Ordinary tokens and control tokens together: plain text to ids, and ids to text."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers.backend import Backend, as_bytes, encode_texts

_TEXTS_AT_ONCE = 16
"""Texts that a back end is given at once. More of them don't stay in a processor's cache while they are worked on."""
_IDS = np.dtype(np.uint32)


class Vocabulary:
    """The ids of a back end's ordinary text and of control tokens.

    Attributes:
        backend: ordinary text to ids.
        special_tokens: ids of the control tokens by text.
        bos_id, eos_id: what :meth:`encode` puts around a text; None where there is no such token.
        vocab_size: one past the largest id, control tokens included; base_vocab_size: without them.

    Raises:
        TokenizerError: two control tokens share an id.
    """

    bos_id: int | None = None
    eos_id: Any = None  # an int; None where there is no such token

    def __init__(self, backend: Backend, special_tokens: Mapping[str, int]) -> None:
        self.backend = backend
        self.special_tokens = dict(special_tokens)
        self._control_texts = {token_id: text for text, token_id in self.special_tokens.items()}
        if len(self._control_texts) != len(self.special_tokens):
            raise TokenizerError(f"{backend.name}: two control tokens share one id. Give each its own.")
        self.base_vocab_size = backend.num_tokens
        self.vocab_size = 1 + max([backend.num_tokens - 1, *self.special_tokens.values()])

    def encode(
        self, text: str, add_bos: bool = True, add_eos: bool = True, trim_leading_whitespace: bool = False
    ) -> list[int]:
        """Ids of plain text, with BOS and EOS around them where asked; the empty text gives just those.

        Args:
            text: the text; what spells a control token stays text.
            add_bos: put the start token first, where there is one.
            add_eos: put the end token last, where there is one.
            trim_leading_whitespace: leave out the space that a SentencePiece model puts before a text.
        """
        trimmed = getattr(self.backend, "encode_continuation", self.backend.encode)
        ids = trimmed(text) if trim_leading_whitespace else self.backend.encode(text)
        start = [self.bos_id] if add_bos and self.bos_id is not None else []
        return start + ids + ([self.eos_id] if add_eos and self.eos_id is not None else [])

    def encode_rows(
        self, texts: Sequence[str], *, add_bos: bool = True, add_eos: bool = True, trim_leading_whitespace: bool = False
    ) -> list[np.ndarray]:
        """What :meth:`encode` gives each text, as uint32 [n]: faster, for the back end is given several texts at once.

        Raises:
            TokenizerError: the back end can't encode a text; it doesn't say which.
        """
        trims = trim_leading_whitespace and hasattr(self.backend, "encode_continuation")
        if trims or type(self).encode is not Vocabulary.encode:
            options = {"trim_leading_whitespace": True} if trim_leading_whitespace else {}
            return [np.array(self.encode(text, add_bos, add_eos, **options), dtype=np.uint32) for text in texts]
        start = as_bytes([self.bos_id]) if add_bos and self.bos_id is not None else b""
        end = as_bytes([self.eos_id]) if add_eos and self.eos_id is not None else b""
        return [
            np.frombuffer(b"".join((start, ids, end)), dtype=_IDS)
            for first in range(0, len(texts), _TEXTS_AT_ONCE)
            for ids in encode_texts(self.backend, texts[first : first + _TEXTS_AT_ONCE])
        ]

    def decode(self, token_ids: Sequence[int], truncate_at_eos: bool = True, skip_special_tokens: bool = True) -> str:
        """Text of ids.

        Args:
            token_ids: ids of this vocabulary.
            truncate_at_eos: stop before the first end of a document.
            skip_special_tokens: leave control tokens out; otherwise they are written as their text.

        Raises:
            TokenizerError: an id is outside the vocabulary.
        """
        ids = [int(token_id) for token_id in token_ids]
        if truncate_at_eos and self.eos_id in ids:
            ids = ids[: ids.index(self.eos_id)]
        self._check_known(ids)
        if skip_special_tokens:
            return self.backend.decode([token_id for token_id in ids if token_id not in self._control_texts])
        parts: list[str] = []
        run: list[int] = []
        for token_id in ids:
            text = self._control_texts.get(token_id)
            if text is None:
                run.append(token_id)
                continue
            parts += [self.backend.decode(run), text] if run else [text]
            run = []
        return "".join(parts) + (self.backend.decode(run) if run else "")

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one ordinary token; None for a control token, and where the back end can't tell."""
        known = getattr(self.backend, "token_bytes", None)
        return known(token_id) if known is not None and token_id not in self._control_texts else None

    def _check_known(self, token_ids: Sequence[int]) -> None:
        for token_id in token_ids:
            if not 0 <= token_id < self.base_vocab_size and token_id not in self._control_texts:
                raise TokenizerError(f"Token id {token_id} is outside the vocabulary of {self.vocab_size} ids.")
