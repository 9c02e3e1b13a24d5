"""What a store is built from: a recipe, whose key is known without reading a row, and the samples of its rows."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from torchpipe.data.ledger import Reason
from torchpipe.data.ledger_words import Noun
from torchpipe.data.row_policy import Refused, RowPolicy
from torchpipe.errors import ConfigError

Made = Sequence[Mapping[str, Any]] | Reason | Refused
"""What a row gives: its samples, or why there is none."""


class RowSamples(ABC):
    """Rows of a source, and the samples that each of them gives.

    Attributes:
        name: what errors call the source.
        num_rows: rows of the source.
        vocab_size: one past the largest token id, where the tokenizer says it.
        samples_a_row: samples that a row has by its kind: two for pairs. With more, it was split.
    """

    name: str
    num_rows: int
    vocab_size: int | None = None
    samples_a_row: int = 1

    @abstractmethod
    def samples_of(self, row: int) -> Made:
        """The samples of a row, or why there is none.

        A sample has ``tokens``, and ``mask`` (True = not trained) or ``labels``, of equal length; where they weigh
        differently, ``loss_weights`` (those of the labels). ``num_truncated``, ``lost_stop``, ``num_unproved_turns``
        and ``num_images_dropped`` are counted.

        Raises:
            Exception: the row can't be used; the error names it.
        """

    def samples_of_rows(self, rows: range) -> list[Made]:
        """What :meth:`samples_of` gives each of some rows, where that can be had faster for many at once.

        Raises:
            Exception: a row can't be used; the error need not name it, for the rows are then asked for one by one.
        """
        return [self.samples_of(row) for row in rows]

    def prepare(self) -> None:  # noqa: B027  # most have nothing to make
        """Makes what all rows need, such as a tokenizer's tables, for processes to share that are forked after it."""

    def check(self, num_stored: int, num_filtered: int) -> None:  # noqa: B027  # most have nothing to refuse
        """Refuses what is left of the rows, if it is too little.

        Raises:
            SourceError: a filter kept no row.
        """


@runtime_checkable
class StoreRecipe(Protocol):
    """How the samples of a store come about.

    Attributes:
        name: what messages call the source.
    """

    @property
    def name(self) -> str:
        """What messages call the source."""
        ...

    def key_fields(self) -> dict[str, str]:
        """Everything that decides the samples, by name, without reading a row.

        ``source`` is what people call the source; what it holds is said by other fields.

        Raises:
            NoFingerprint: something can't be told apart from what it was in another process; the sentence says what.
        """
        ...

    def open(self) -> RowSamples:
        """The rows, opened. Called once in a process, and only where there is something to build."""
        ...


KIND_OF_PAIRS = "preference"
"""The kind of samples, among a store's key fields, of which two that follow each other are a pair."""


KIND_OF_LABELLED = "kto"
"""The kind of samples that have a label, whether the answer is a desirable one."""

KIND_OF_PROMPTS = "prompts"
"""The kind of samples that are prompts, to generate from."""

_NOUNS: dict[str | None, Noun] = {KIND_OF_PAIRS: "pair", KIND_OF_PROMPTS: "prompt"}

_NEVER_PACKED = {
    KIND_OF_LABELLED: "Labelled answers (KTO) can't be packed: a batch has one label a row, and a pack would hold "
    "answers of both kinds. Set packed=false; cache=true stores them, and padded_collate_kto makes batches.",
    KIND_OF_PROMPTS: "Prompts can't be packed: a model goes on from the end of a row, and a pack has one end for many "
    "prompts. Set packed=false; cache=true stores them, and padded_collate_prompts makes batches.",
}


def can_be_packed(kind: str | None) -> bool:
    """Whether packs can hold samples of a kind; see :func:`refuse_to_pack`."""
    return kind not in _NEVER_PACKED


def refuse_to_pack(kind: str | None) -> None:
    """Nothing, for samples of a kind that packs can hold.

    Args:
        kind: of the samples, as a recipe or the key of a store has it; None where it isn't known.

    Raises:
        ConfigError: packs have no place for what these samples need.
    """
    if kind in _NEVER_PACKED:
        raise ConfigError(_NEVER_PACKED[kind])


def kind_of(samples: Any) -> str | None:
    """The kind of the samples of a recipe, a store or a data set; None where it doesn't say."""
    said = getattr(samples, "kind", None)
    return said if isinstance(said, str) else None


def noun_of_kind(kind: str | None) -> Noun:
    """What the items of a kind are called, where they are not packed.

    >>> noun_of_kind(KIND_OF_PAIRS), noun_of_kind(None)
    ('pair', 'row')
    """
    return _NOUNS.get(kind, "row")


def keeps_rows_whole(recipe: Any) -> bool:
    """Whether the samples of a row belong in one pack, as the two of a pair do; a recipe, or a store, says so by an
    attribute.
    """
    return bool(getattr(recipe, "keeps_rows_whole", False))


def policy_of(recipe: StoreRecipe) -> RowPolicy:
    """What a recipe does with rows that can't be used; they are raised where it doesn't say."""
    return getattr(recipe, "row_policy", None) or RowPolicy()
