"""The recipe of a store whose rows become prompts, which a model is to answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torchpipe.data.prompt_transform import PromptTransform
from torchpipe.store.rows import KIND_OF_PROMPTS
from torchpipe.store.source_recipe import SourceRecipe, SourceRows, vocab_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class PromptRecipe(SourceRecipe):
    """What :func:`~torchpipe.datasets.prompt_dataset` is given, as a :class:`~torchpipe.store.rows.StoreRecipe`.

    A store keeps the tokens. The columns that an item keeps are read from the source's row, and a row that lacks one is
    refused when the store is built.

    Attributes:
        prompt_transform: row to prompt; it says what becomes of long ones.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.
    """

    kind: ClassVar[str] = KIND_OF_PROMPTS
    version: ClassVar[str] = "1"

    prompt_transform: PromptTransform

    @property
    def model_transform(self) -> Any:
        """The tokenizer."""
        return self.prompt_transform.model_transform

    def transform(self) -> PromptTransform:
        """What makes the prompt of a row."""
        return self.prompt_transform

    def deciding(self) -> Mapping[str, Any]:
        """The transforms, what becomes of long prompts, and the columns that a row has to have."""
        made_by = self.prompt_transform
        return {
            "message_transform": made_by.message_transform,
            "model_transform": made_by.whole_transform,
            "max_prompt_len": made_by.max_prompt_len,
            "truncate": made_by.truncate,
            "keep_columns": made_by.keep_columns,
        }

    @property
    def vocab_size(self) -> int | None:
        """The tokenizer's, where it says it."""
        return vocab_size_of(self.model_transform)

    def open(self) -> "PromptRows":
        """The rows, opened."""
        return PromptRows(self)


class PromptRows(SourceRows):
    """Rows of a source and their prompts."""

    def trains(self, samples: Sequence[Mapping[str, Any]]) -> bool:
        """True: no prompt has anything to train, and none is left out for it."""
        return True
