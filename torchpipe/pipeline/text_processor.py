"""Rows of plain text to sequences, for pre-training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import not_text
from torchpipe.errors import ColumnError, ConfigError
from torchpipe.pipeline.control_text import ControlText, check_allows
from torchpipe.pipeline.functions import as_function
from torchpipe.pipeline.processors import Outcome, SampleProcessor
from torchpipe.pipeline.sequences import shifted_sequence
from torchpipe.pipeline.types import DatasetBuildContext


def read_text(sample: Mapping[str, Any]) -> str:
    """The row's ``text``.

    Raises:
        ColumnError: it has none.
    """
    if not isinstance(sample, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ColumnError(f"The row is a {type(sample).__name__}, and has no 'text'. Make its text in text_fn.")
    if "text" not in sample:
        near = did_you_mean("text", sample)
        raise ColumnError(f"The row has no 'text'; it has {listed(sample)}.{near} Read the right column in text_fn.")
    return sample["text"]


class TextProcessor(SampleProcessor):
    """A row's text, with BOS and EOS around it, as one document of which each token is trained.

    A text of fewer than two tokens is left out, for there is nothing to predict. Length is left to packing, which cuts
    documents or leaves them out as its own policy says.

    Args:
        config: its settings.
        context: its tokenizer has ``encode(text, add_bos=, add_eos=)``: one of torchpipe's, or torchtitan's.

    Raises:
        ConfigError: the tokenizer has no ``encode``.

    >>> class Bytes:
    ...     bos_id, eos_id = None, None
    ...     def encode(self, text, add_bos, add_eos):
    ...         return list(text.encode())
    >>> context = DatasetBuildContext(tokenizer=Bytes(), max_context_length=8, num_tokens_per_batch=8)
    >>> processor = TextProcessor.Config().build(context=context)
    >>> sequence = processor({"text": "abc"}, np.random.default_rng(0))
    >>> sequence.input_ids.tolist(), sequence.labels.tolist()
    ([97, 98], [98, 99])
    """

    deterministic: ClassVar[bool | None] = True
    can_be_read_ahead: ClassVar[bool] = True
    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"context"})  # but for the tokenizer nothing of it is used

    @dataclass(kw_only=True, slots=True)
    class Config(SampleProcessor.Config):
        """The settings.

        Attributes:
            text_fn: a row to its text; a function, or its dotted name.
            allow_control_text: whether a text may spell a control token where the tokenizer would make one of it (see
                :class:`~torchpipe.pipeline.control_text.ControlText`). False: such a row is an error.

        Raises:
            ConfigError: there is no such function.
        """

        function_arguments: ClassVar[tuple[str, ...]] = ("text_fn",)
        text_fn: Callable[[Any], str] = read_text
        allow_control_text: bool = False

        def __post_init__(self) -> None:
            self.text_fn = as_function(self.text_fn, "text_fn")
            check_allows(self.allow_control_text)

    def __init__(self, config: Config, *, context: DatasetBuildContext) -> None:
        super().__init__(config, context=context)
        self.tokenizer = context.tokenizer
        if not callable(getattr(self.tokenizer, "encode", None)):
            raise ConfigError(
                f"TextProcessor needs a tokenizer with encode(text, add_bos=, add_eos=), and the context has a "
                f"{type(self.tokenizer).__name__}."
            )
        self._controls = None if config.allow_control_text else ControlText(self.tokenizer)

    def __call__(self, sample: Any, rng: np.random.Generator) -> Any:
        """The row's :class:`~torchpipe.pipeline.TextSequence`; None where its text has fewer than two tokens.

        Raises:
            DataError: the text is no text, or spells a control token.
        """
        return self.outcome(sample, rng).value

    def outcome(self, sample: Any, rng: np.random.Generator) -> Outcome:
        """The sequence; where there is none, "empty"."""
        text = self.config.text_fn(sample)
        if not isinstance(text, str):
            raise ColumnError(f"What text_fn returns {not_text(text)}", reason="empty" if text is None else None)
        if self._controls is not None:
            self._controls.refuse(
                text,
                "The text",
                instead="Take it out in text_fn, use a tokenizer of torchpipe's, to which it stays text, or set "
                "allow_control_text=True.",
            )
        tokens = self.tokenizer.encode(text, add_bos=True, add_eos=True)
        if len(tokens) < 2:
            return Outcome(None, "empty")
        return Outcome(shifted_sequence(tokens, np.zeros(len(tokens), dtype=np.bool_)))
