"""The recipe of a store whose rows become single answers, each with a label that says whether it is a good one."""

from dataclasses import dataclass
from typing import ClassVar

from torchpipe.data.kto_transform import KTOTransform
from torchpipe.data.protocols import Transform
from torchpipe.store.chat_recipe import ChatRecipe
from torchpipe.store.rows import KIND_OF_LABELLED


@dataclass(frozen=True, kw_only=True, eq=False)
class KTORecipe(ChatRecipe):
    """What :func:`~torchpipe.datasets.kto_dataset` is given, as a :class:`~torchpipe.store.rows.StoreRecipe`.

    Attributes:
        message_transform: row to ``{"messages": [...], "desirable": bool}``.
        model_transform: the tokenizer.
        overflow: what becomes of rows that are too long; None leaves it to the tokenizer.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.

    Raises:
        ConfigError: what KTOTransform or SourceRecipe refuses.
    """

    kind: ClassVar[str] = KIND_OF_LABELLED
    version: ClassVar[str] = "1"

    message_transform: Transform

    def transform(self) -> KTOTransform:
        """What makes the sample of a row."""
        return KTOTransform(self.message_transform, self.model_transform, overflow=self.overflow)
