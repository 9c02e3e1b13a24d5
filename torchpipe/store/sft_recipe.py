"""The recipe of a store whose rows become samples for supervised fine-tuning."""

from dataclasses import dataclass
from typing import ClassVar

from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.store.chat_recipe import ChatRecipe


@dataclass(frozen=True, kw_only=True, eq=False)
class SFTRecipe(ChatRecipe):
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

    def transform(self) -> SFTTransform:
        """What makes samples of a row."""
        return SFTTransform(self.message_transform, self.model_transform, overflow=self.overflow)
