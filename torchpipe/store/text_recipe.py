"""The recipe of a store whose rows are text, without messages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torchpipe.data.plain_text import TextTransform
from torchpipe.store.source_recipe import SourceRecipe, vocab_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class TextRecipe(SourceRecipe):
    """Rows whose samples a :class:`~torchpipe.data.plain_text.TextTransform` makes.

    Attributes:
        text_transform: row to tokens and mask; it says what becomes of long rows.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.
    """

    kind: ClassVar[str] = "text"
    version: ClassVar[str] = "1"

    text_transform: TextTransform

    def transform(self) -> TextTransform:
        """What makes samples of a row."""
        return self.text_transform

    def deciding(self) -> Mapping[str, Any]:
        """The transform, and the tokenizer and policy in it."""
        return {"text_transform": self.text_transform}

    @property
    def vocab_size(self) -> int | None:
        """The tokenizer's, where it says it."""
        return vocab_size_of(self.text_transform.tokenizer)
