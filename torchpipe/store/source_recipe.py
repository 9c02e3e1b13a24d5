"""The recipe of a store whose samples are made of a source's rows: what all kinds of samples have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from torchpipe._dotpath import resolve
from torchpipe._fingerprint import fingerprint
from torchpipe.data.overflow import Fitted
from torchpipe.data.row_policy import RowPolicy
from torchpipe.errors import ConfigError, NoFingerprint
from torchpipe.sources import Rows, Source, describe_source, load_rows
from torchpipe.sources.fingerprint import source_fingerprint
from torchpipe.sources.row_filter import RowFilter, made_of_row, nothing_kept
from torchpipe.store.rows import Made, RowSamples


class RowMaker(Protocol):
    """What makes samples of a row, such as :class:`~torchpipe.data.sample_transforms.SFTTransform`."""

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The samples of one row, and why there is none; False in ``labels`` leaves out those that follow from tokens
        and mask.
        """
        ...

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What :meth:`fitted` gives each row without labels, where that can be had faster for many at once."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class SourceRecipe(ABC):
    """Rows of a source, as a :class:`~torchpipe.store.rows.StoreRecipe`. A kind of samples is a subclass.

    Attributes:
        source: a name for ``load_dataset``, an object with ``__len__`` and ``__getitem__``, or a value that builds one.
        load_dataset_kwargs: passed to ``load_dataset``.
        filter_fn: keeps the rows for which it is true; called in the worker that makes a row's sample.
        filter_kwargs: further arguments of the ``filter`` of Hugging Face data sets.
        content: True tells the source's files apart by all of their bytes.
        row_policy: what becomes of rows that can't be used.

    Raises:
        ConfigError: ``filter_kwargs`` without ``filter_fn``.
    """

    kind: ClassVar[str]
    """What stores of these samples are told apart by from those of other kinds."""
    version: ClassVar[str]
    """Goes up where the same rows, settings and files give other samples than before."""

    source: Source
    load_dataset_kwargs: Mapping[str, Any] = field(default_factory=dict)
    filter_fn: Callable[..., bool] | str | None = None
    filter_kwargs: Mapping[str, Any] | None = None
    content: bool = False
    row_policy: RowPolicy = field(default_factory=RowPolicy)

    def __post_init__(self) -> None:
        if self.filter_kwargs and self.filter_fn is None:
            raise ConfigError("filter_kwargs was given without a filter_fn. Give both or neither.")
        self.transform()  # refuses what does not fit before anything is read

    @abstractmethod
    def transform(self) -> RowMaker:
        """What makes samples of a row."""

    @abstractmethod
    def deciding(self) -> Mapping[str, Any]:
        """All that decides what :meth:`transform` makes of a row, by name; its fingerprints are part of the key."""

    @property
    @abstractmethod
    def vocab_size(self) -> int | None:
        """One past the largest token id, where the tokenizer says it."""

    @property
    def name(self) -> str:
        """What errors call the source."""
        return describe_source(self.source, self.load_dataset_kwargs)

    def key_fields(self) -> dict[str, str]:
        """Everything that decides the samples; ``source`` is the source's name, ``source.*`` its content.

        Raises:
            NoFingerprint: parts of it can't be told apart; the sentence names all of them.
        """
        fields = {"kind": self.kind, "samples": self.version, "source": self.name}
        parts = {
            "filter_fn": resolve(self.filter_fn) if isinstance(self.filter_fn, str) else self.filter_fn,
            "filter_kwargs": dict(self.filter_kwargs or {}),
            **self.deciding(),
        }
        untold: list[str] = []
        try:
            found = source_fingerprint(self.source, dict(self.load_dataset_kwargs), content=self.content)
            fields |= {f"source.{name}": value for name, value in found.items()}
        except NoFingerprint as error:
            untold.append(f"source: {error}")
        for name, part in parts.items():
            try:
                fields[name] = fingerprint(part)
            except NoFingerprint as error:
                untold.append(f"{name}: {error}")
        if untold:
            raise NoFingerprint(" ".join(untold))
        return fields

    def open(self) -> "SourceRows":
        """The rows, opened; ``datasets`` is imported where they need it."""
        return SourceRows(self)


class SourceRows(RowSamples):
    """Rows of a source and their samples.

    Attributes:
        name: what errors call the source.
        num_rows: of the source; those that the filter leaves out count.
        vocab_size: the tokenizer's, where it says it.
    """

    def __init__(self, recipe: SourceRecipe) -> None:
        self.name = recipe.name
        self._transform = recipe.transform()
        self._rows: Rows = load_rows(recipe.source, **recipe.load_dataset_kwargs)
        self._filter = None
        if recipe.filter_fn is not None:
            self._filter = RowFilter(recipe.filter_fn, recipe.filter_kwargs or {})
            self._filter.check(self._rows, self.name)
        self.num_rows = len(self._rows)
        self.vocab_size = recipe.vocab_size

    def samples_of(self, row: int) -> Made:
        """The samples of a row, without the labels that follow from tokens and mask; or why there is none."""
        if self._filter is not None and not self._filter.keeps(self._rows[row], row, self.name):
            return "filtered"
        return _made(made_of_row(self._rows, row, self.name, self._fitted))

    def samples_of_rows(self, rows: range) -> list[Made]:
        """What :meth:`samples_of` gives each of some rows; tokens and mask may be arrays."""
        keeps = self._filter.keeps if self._filter is not None else None
        kept = {row: self._rows[row] for row in rows if keeps is None or keeps(self._rows[row], row, self.name)}
        # A transform that changes its row must not change a source that lies in memory.
        given = [dict(row) if isinstance(row, dict) else row for row in kept.values()]
        fitted = iter(self._transform.fitted_rows(given))
        return [_made(next(fitted)) if row in kept else "filtered" for row in rows]

    def _fitted(self, row: Mapping[str, Any]) -> Fitted:
        return self._transform.fitted(row, labels=False)

    def check(self, num_stored: int, num_filtered: int) -> None:
        """Raises SourceError where the filter kept no row."""
        if num_filtered == self.num_rows:
            raise nothing_kept(self.num_rows, self.name)


def _made(fitted: Fitted) -> Made:
    return fitted.samples if fitted.left_out is None else fitted.left_out


def vocab_size_of(transform: Any) -> int | None:
    """How many ids a tokenizer has, or the tokenizer in a transform; None where it doesn't say."""
    for owner in (transform, getattr(transform, "tokenizer", None)):
        if isinstance(size := getattr(owner, "vocab_size", None), int):
            return size
    return None
