"""The recipe of a store whose rows become samples for supervised fine-tuning."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torchpipe._dotpath import resolve
from torchpipe._fingerprint import fingerprint
from torchpipe.data.overflow import Fitted, OverflowPolicy
from torchpipe.data.protocols import Transform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.errors import ConfigError, NoFingerprint
from torchpipe.sources import Rows, Source, describe_source, load_rows
from torchpipe.sources.fingerprint import source_fingerprint
from torchpipe.sources.row_filter import RowFilter, made_of_row, nothing_kept
from torchpipe.sources.views import rows_at
from torchpipe.store.rows import Made, RowSamples

_SAMPLES_VERSION = "2"
"""Goes up where the same rows, settings and files give other samples than before."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SFTRecipe:
    """What :class:`~torchpipe.datasets.SFTDataset` is given, as a :class:`~torchpipe.store.rows.StoreRecipe`.

    Attributes:
        source: a name for ``load_dataset``, an object with ``__len__`` and ``__getitem__``, or a value that builds one.
        load_dataset_kwargs: passed to ``load_dataset``.
        message_transform: row to ``{"messages": [...]}``.
        model_transform: the tokenizer.
        filter_fn: keeps the rows for which it is true; called in the worker that makes a row's sample.
        filter_kwargs: further arguments of the ``filter`` of Hugging Face data sets.
        overflow: what becomes of rows that are too long; None leaves it to the tokenizer.
        content: True tells the source's files apart by all of their bytes.

    Raises:
        ConfigError: ``filter_kwargs`` without ``filter_fn``, or what SFTTransform refuses.
    """

    source: Source
    message_transform: Transform | None
    model_transform: Transform
    load_dataset_kwargs: Mapping[str, Any] = field(default_factory=dict)
    filter_fn: Callable[..., bool] | str | None = None
    filter_kwargs: Mapping[str, Any] | None = None
    overflow: OverflowPolicy | None = None
    content: bool = False

    def __post_init__(self) -> None:
        if self.filter_kwargs and self.filter_fn is None:
            raise ConfigError("filter_kwargs was given without a filter_fn. Give both or neither.")
        self.transform()  # refuses what does not fit before anything is read

    @property
    def name(self) -> str:
        """What errors call the source."""
        return describe_source(self.source, self.load_dataset_kwargs)

    def transform(self) -> SFTTransform:
        """What makes samples of a row."""
        return SFTTransform(self.message_transform, self.model_transform, overflow=self.overflow)

    def key_fields(self) -> dict[str, str]:
        """Everything that decides the samples; ``source`` is the source's name, ``source.*`` its content.

        Raises:
            NoFingerprint: parts of it can't be told apart; the sentence names all of them.
        """
        fields = {"kind": "sft", "samples": _SAMPLES_VERSION, "source": self.name}
        parts = {
            "filter_fn": resolve(self.filter_fn) if isinstance(self.filter_fn, str) else self.filter_fn,
            "filter_kwargs": dict(self.filter_kwargs or {}),
            "message_transform": self.message_transform,
            # With an overflow the tokenizer's own length decides nothing.
            "model_transform": self.transform().whole_transform,
            "overflow": self.overflow,
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

    def open(self) -> "SFTRows":
        """The rows, opened; ``datasets`` is imported where they need it."""
        return SFTRows(self)


class SFTRows(RowSamples):
    """Rows and their samples, made as SFTDataset makes them.

    Attributes:
        name: what errors call the source.
        num_rows: of the source; those that the filter leaves out count.
        vocab_size: the tokenizer's, where it says it.
    """

    def __init__(self, recipe: SFTRecipe) -> None:
        self.name = recipe.name
        self._transform = recipe.transform()
        self._rows: Rows = load_rows(recipe.source, check_rows=False, **recipe.load_dataset_kwargs)
        self._filter = None
        if recipe.filter_fn is not None:
            self._filter = RowFilter(recipe.filter_fn, recipe.filter_kwargs or {})
            self._filter.check(self._rows, self.name)
        self.num_rows = len(self._rows)
        self.vocab_size = vocab_size_of(recipe.model_transform)

    def samples_of(self, row: int) -> Made:
        """The samples of a row, without the labels that follow from tokens and mask; or why there is none."""
        if self._filter is not None and not self._filter.keeps(self._rows[row], row, self.name):
            return "filtered"
        return _made(made_of_row(self._rows, row, self.name, self._fitted))

    def samples_of_rows(self, rows: range) -> list[Made]:
        """What :meth:`samples_of` gives each of some rows; tokens and mask may be arrays."""
        keeps = self._filter.keeps if self._filter is not None else None
        kept = [row for row in rows if keeps is None or keeps(self._rows[row], row, self.name)]
        # A transform that changes its row must not change a source that lies in memory.
        given = [dict(row) if isinstance(row, dict) else row for row in rows_at(self._rows, kept)]
        made = iter(self._transform.fitted_rows(given))
        is_kept = set(kept)
        return [_made(next(made)) if row in is_kept else "filtered" for row in rows]

    def _fitted(self, row: Mapping[str, Any]) -> Fitted:
        return self._transform.fitted(row, labels=False)

    def prepare(self) -> None:
        """Has the tokenizer's back end build its tables, where it does that when it is first asked to encode."""
        transform: Any = self._transform.model_transform
        for owner in (transform, getattr(transform, "tokenizer", None)):
            if callable(prepare := getattr(getattr(owner, "backend", None), "prepare", None)):
                prepare()

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
