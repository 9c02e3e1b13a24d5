"""Tokenizers of a text encoder (T5, CLIP): one text to ids of at most a fixed length."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from torchpipe.errors import ColumnError, ConfigError, DataError


class TextEncoderTokenizer(ABC):
    """Text to ids that end with an end token, cut to ``max_seq_len``; also a transform of rows with ``text``.

    Args:
        max_seq_len: the most ids a text may have.
        truncate: whether longer texts are cut; otherwise they are refused.
    """

    end_id: int
    """What ends every text, also one that was cut."""

    def __init__(self, max_seq_len: int, truncate: bool) -> None:
        if not isinstance(max_seq_len, int) or max_seq_len < 1:
            raise ConfigError(f"max_seq_len is {max_seq_len!r}. Give a whole number of tokens above 0.")
        self.max_seq_len = max_seq_len
        self.truncate = truncate

    def encode(self, text: str) -> list[int]:
        """Ids of ``text`` with what starts and ends it.

        Raises:
            DataError: it has more than ``max_seq_len`` ids, and ``truncate`` is False; or it is not one text.
        """
        if not isinstance(text, str):
            raise DataError(f"encode takes one text; got a {type(text).__name__}. Encode several texts one by one.")
        tokens = self._whole(text)
        return tokens if len(tokens) <= self.max_seq_len else self._cut(tokens)

    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        """The sample with ``text`` replaced by ``tokens``.

        Where tokens had to be cut to ``max_seq_len``, ``num_truncated`` says how many.
        """
        if "text" not in sample:
            raise ColumnError(f"The tokenizer needs `text`, and the row has {sorted(sample)}.")
        text = sample["text"]
        if not isinstance(text, str):
            held = "null" if text is None else f"a {type(text).__name__}"
            raise ColumnError(f"Column 'text' holds {held}; it must be a string.")
        tokens = self._whole(text)
        rest = {key: value for key, value in sample.items() if key != "text"}
        if len(tokens) > self.max_seq_len:
            rest["num_truncated"] = len(tokens) - self.max_seq_len
        return {**rest, "tokens": self._cut(tokens)}

    @abstractmethod
    def _whole(self, text: str) -> list[int]:
        """All ids of ``text``, with what starts and ends it."""

    def _cut(self, tokens: list[int]) -> list[int]:
        if len(tokens) <= self.max_seq_len:
            return tokens
        if not self.truncate:
            raise DataError(
                f"A text has {len(tokens)} tokens, and max_seq_len is {self.max_seq_len}. Shorten it, raise "
                "max_seq_len, or set truncate=True.",
                reason="too_long",
            )
        return [*tokens[: self.max_seq_len - 1], self.end_id]
