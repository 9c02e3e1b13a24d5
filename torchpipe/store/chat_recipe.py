"""What recipes have in common whose rows become one conversation each."""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.protocols import Transform
from torchpipe.store.source_recipe import SourceRecipe, vocab_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class ChatRecipe(SourceRecipe, ABC):
    """Rows that a message transform and a tokenizer make samples of.

    Attributes:
        message_transform: row to ``{"messages": [...]}``, and what else its kind needs.
        model_transform: the tokenizer.
        overflow: what becomes of rows that are too long; None leaves it to the tokenizer.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.
    """

    message_transform: Transform | None
    model_transform: Transform
    overflow: OverflowPolicy | None = None

    def deciding(self) -> Mapping[str, Any]:
        """The transforms, and what becomes of long rows."""
        transform: Any = self.transform()
        return {
            "message_transform": self.message_transform,
            # With an overflow the tokenizer's own length decides nothing.
            "model_transform": transform.whole_transform,
            "overflow": self.overflow,
        }

    @property
    def vocab_size(self) -> int | None:
        """The tokenizer's, where it says it."""
        return vocab_size_of(self.model_transform)
