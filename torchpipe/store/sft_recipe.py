"""The recipe of a store whose rows become samples for supervised fine-tuning."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.protocols import Transform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.store.source_recipe import SourceRecipe, vocab_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class SFTRecipe(SourceRecipe):
    """What :class:`~torchpipe.datasets.SFTDataset` is given, as a :class:`~torchpipe.store.rows.StoreRecipe`.

    Attributes:
        message_transform: row to ``{"messages": [...]}``.
        model_transform: the tokenizer.
        overflow: what becomes of rows that are too long; None leaves it to the tokenizer.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.

    Raises:
        ConfigError: what SFTTransform or SourceRecipe refuses.
    """

    kind: ClassVar[str] = "sft"
    version: ClassVar[str] = "3"

    message_transform: Transform | None
    model_transform: Transform
    overflow: OverflowPolicy | None = None

    def transform(self) -> SFTTransform:
        """What makes samples of a row."""
        return SFTTransform(self.message_transform, self.model_transform, overflow=self.overflow)

    def deciding(self) -> Mapping[str, Any]:
        """The transforms, and what becomes of long rows."""
        return {
            "message_transform": self.message_transform,
            # With an overflow the tokenizer's own length decides nothing.
            "model_transform": self.transform().whole_transform,
            "overflow": self.overflow,
        }

    @property
    def vocab_size(self) -> int | None:
        """The tokenizer's, where it says it."""
        return vocab_size_of(self.model_transform)
