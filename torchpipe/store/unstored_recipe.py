"""The recipes of data sets whose items are made when they are asked for, and are never stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torchpipe.errors import ConfigError
from torchpipe.store.source_recipe import RowMaker, SourceRecipe, SourceRows, vocab_size_of


@dataclass(frozen=True, kw_only=True, eq=False)
class UnstoredRecipe(SourceRecipe):
    """Rows of a source and what makes their items, which hold more than a store keeps.

    Attributes:
        maker: row to item.
        what: the data set's name, for errors.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.
    """

    kind: ClassVar[str] = "unstored"
    version: ClassVar[str] = "1"
    can_be_stored: ClassVar[bool] = False

    maker: RowMaker
    what: str

    @property
    def model_transform(self) -> Any:
        """The tokenizer."""
        return getattr(self.maker, "model_transform", None)

    def transform(self) -> RowMaker:
        """What makes an item of a row."""
        return self.maker

    def deciding(self) -> Mapping[str, Any]:
        """What makes the items."""
        return {"maker": self.maker}

    @property
    def vocab_size(self) -> int | None:
        """The tokenizer's, where it says it."""
        return vocab_size_of(self.model_transform)

    def open(self) -> SourceRows:
        """Never the rows.

        Raises:
            ConfigError: always: a store keeps tokens and labels alone.
        """
        raise ConfigError(
            f"A {self.what} can't be packed or stored: a store keeps tokens and labels, and its items hold more. Use "
            "it as it is."
        )
