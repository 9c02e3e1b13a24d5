"""Rows of plain text to samples, without messages."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from torchpipe.data.columns import text_cell
from torchpipe.data.label_lists import labelled
from torchpipe.data.overflow import Fitted, OverflowPolicy, fit, without_limit
from torchpipe.errors import ConfigError, DataError


class Encoded(NamedTuple):
    """The tokens of a text, and their mask: True = not trained. Two lists, or two arrays, uint32 and bool."""

    tokens: Any
    mask: Any


class TextTransform(ABC):
    """A row to samples of text: ``tokens``, ``mask`` (True = not trained) and ``labels``, lists of equal length.

    Labels are shifted, as everywhere: ``labels[i]`` is ``tokens[i + 1]``. The first token, which nothing predicts, is
    masked.

    Args:
        tokenizer: its ``encode`` takes ``add_bos`` and ``add_eos``; its own max_seq_len cuts nothing here.
        overflow: what becomes of texts that are too long; None keeps them whole.

    Raises:
        ConfigError: the tokenizer can't encode, or ``overflow`` cuts by turns, which texts have none of.
    """

    def __init__(self, tokenizer: Any, *, overflow: OverflowPolicy | None = None) -> None:
        if not callable(getattr(tokenizer, "encode", None)):
            raise ConfigError(
                f"Text needs a tokenizer with `encode`, and a {type(tokenizer).__name__} has none. Give a tokenizer of "
                "torchpipe.models, or the model's own."
            )
        if overflow is not None and overflow.truncation_type == "turns":
            raise ConfigError("truncation_type='turns' cuts whole turns, and text has none. Use 'right' or 'left'.")
        self.tokenizer = without_limit(tokenizer)
        self.overflow = overflow

    @abstractmethod
    def encoded(self, row: Mapping[str, Any]) -> Encoded:
        """All tokens of a row, at least one.

        Raises:
            DataError: the row holds no text.
        """

    def encoded_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Encoded]:
        """What :meth:`encoded` gives each row, where that can be had faster for many at once; it may be arrays."""
        return [self.encoded(row) for row in rows]

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The sample of one row.

        Raises:
            DataError: the row holds no text; or ``overflow`` makes no sample of the row, or several.
        """
        fitted = self.fitted(sample)
        return fitted.samples[0] if self.overflow is None else fitted.only(self.overflow)

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The samples of one row, and why there is none; False in ``labels`` leaves out those that follow from tokens
        and mask.
        """
        fitted = self._fitted(self.encoded(sample))
        return fitted._replace(samples=[labelled(one) for one in fitted.samples]) if labels else fitted

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row without labels, faster: a tokenizer is given several texts at once.

        Tokens and mask may be arrays then, uint32 and bool.

        Raises:
            TorchpipeError: a row's own error, which doesn't say of which row; :meth:`fitted` of each row tells.
        """
        return [self._fitted(encoded) for encoded in self.encoded_rows(rows)]

    def _fitted(self, encoded: Encoded) -> Fitted:
        tokens, mask = encoded
        num_tokens = len(tokens)
        if num_tokens == 0:
            raise DataError(
                "The row's text is empty, and neither BOS nor EOS is added, so there is no token. Drop such rows with "
                "a filter_fn.",
                reason="empty",
            )
        mask[0] = True
        whole = {"tokens": tokens, "mask": mask}
        if self.overflow is None or num_tokens <= self.overflow.max_seq_len:
            return Fitted(samples=[whole], num_tokens=num_tokens)
        return fit({}, self.overflow, lambda _: whole, self.tokenizer)


class TextCompletionTransform(TextTransform):
    """A row's text to tokens, all of which are trained but the first.

    Args:
        tokenizer: its ``encode`` takes ``add_bos`` and ``add_eos``.
        column: where the text is.
        add_bos, add_eos: whether BOS stands before the text, and EOS behind it.
        overflow: what becomes of texts that are too long; None keeps them whole.

    Raises:
        ConfigError: as TextTransform.

    Calling it raises a ColumnError when the row lacks the column, or it holds no text.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        column: str = "text",
        add_bos: bool = True,
        add_eos: bool = True,
        overflow: OverflowPolicy | None = None,
    ) -> None:
        super().__init__(tokenizer, overflow=overflow)
        if not isinstance(column, str):
            raise ConfigError(f"column is {column!r}. It is the name of the column that holds the text.")
        self.column = column
        self.add_bos = add_bos
        self.add_eos = add_eos

    def encoded(self, row: Mapping[str, Any]) -> Encoded:
        """The tokens of the row's text."""
        text = text_cell(row, self.column, None)
        tokens = self.tokenizer.encode(text, add_bos=self.add_bos, add_eos=self.add_eos)
        return Encoded(tokens, [False] * len(tokens))

    def encoded_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Encoded]:
        """The tokens of the rows' texts, as arrays where the tokenizer has :meth:`encode_rows`."""
        if not hasattr(self.tokenizer, "encode_rows"):
            return super().encoded_rows(rows)
        texts = [text_cell(row, self.column, None) for row in rows]
        encoded = self.tokenizer.encode_rows(texts, add_bos=self.add_bos, add_eos=self.add_eos)
        return [Encoded(tokens, np.zeros(len(tokens), dtype=np.bool_)) for tokens in encoded]
