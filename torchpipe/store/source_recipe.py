"""The recipe of a store whose samples are made of a source's rows: what all kinds of samples have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np

from torchpipe._dotpath import resolve
from torchpipe._fingerprint import fingerprint
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.ledger import Reason
from torchpipe.data.overflow import Fitted
from torchpipe.data.row_policy import Refused, RowPolicy
from torchpipe.data.splits import Holdout
from torchpipe.errors import ConfigError, DataError, MalformedRow, NoFingerprint
from torchpipe.sources import Rows, Source, describe_source, load_rows
from torchpipe.sources.fingerprint import source_fingerprint
from torchpipe.sources.row_filter import RowFilter, made_of_row, nothing_kept
from torchpipe.store.row_selection import Duplicates, RowSelection
from torchpipe.store.rows import Made, RowSamples


class RowMaker(Protocol):
    """What makes samples of a row, such as :class:`~torchpipe.data.sample_transforms.SFTTransform`."""

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """What a map-style data set gives for one row."""
        ...

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
        holdout: which part of a split is used; None: all rows.
        duplicates: leaves out rows whose content an earlier row has; None: keeps them.

    Raises:
        ConfigError: ``filter_kwargs`` without ``filter_fn``.
    """

    kind: ClassVar[str]
    """What stores of these samples are told apart by from those of other kinds."""
    version: ClassVar[str]
    """Goes up where the same rows, settings and files give other samples than before."""
    can_be_stored: ClassVar[bool] = True
    """Whether packed=True and cache=True are ways to leave rows out."""

    source: Source
    load_dataset_kwargs: Mapping[str, Any] = field(default_factory=dict)
    filter_fn: Callable[..., bool] | str | None = None
    filter_kwargs: Mapping[str, Any] | None = None
    content: bool = False
    row_policy: RowPolicy = field(default_factory=RowPolicy)
    holdout: Holdout | None = None
    duplicates: Duplicates | None = None

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
        name = describe_source(self.source, self.load_dataset_kwargs)
        return name if self.holdout is None else f"{name} ({self.holdout.part} part)"

    def selection(self, rows: Rows) -> RowSelection:
        """Which of the source's rows are used; reads all of them where duplicates are left out.

        Raises:
            ConfigError: ``filter_kwargs`` by which it can't be decided row by row.
            Exception: a row can't be compared.
        """
        row_filter = None
        if self.filter_fn is not None:
            row_filter = RowFilter(self.filter_fn, self.filter_kwargs or {})
            row_filter.check(rows, self.name)
        return RowSelection(
            rows,
            self.name,
            row_filter=row_filter,
            holdout=self.holdout,
            duplicates=self.duplicates,
            skips_errors=self.row_policy.leaves_out,
        )

    def key_fields(self) -> dict[str, str]:
        """Everything that decides the samples; ``source`` is the source's name, ``source.*`` its content.

        Raises:
            NoFingerprint: parts of it can't be told apart; the sentence names all of them.
        """
        fields = {"kind": self.kind, "samples": self.version, "source": self.name}
        parts = {
            "filter_fn": resolve(self.filter_fn) if isinstance(self.filter_fn, str) else self.filter_fn,
            "filter_kwargs": dict(self.filter_kwargs or {}),
            "holdout": self.holdout,
            "duplicates": self.duplicates,
            # A share, and where rows are written to, decide no sample.
            "on_error": "leave out" if self.row_policy.leaves_out else "raise",
            "on_untrained": self.row_policy.on_untrained,
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
        self._policy = recipe.row_policy
        self._rows: Rows = load_rows(recipe.source, **recipe.load_dataset_kwargs)
        self._selection = recipe.selection(self._rows)
        self.num_rows = len(self._rows)
        self.vocab_size = recipe.vocab_size

    def samples_of(self, row: int) -> Made:
        """The samples of a row, without the labels that follow from tokens and mask; or why there is none."""
        try:
            why = self._selection.why_out(row)
            return made_of_row(self._rows, row, self.name, self._made) if why is None else why
        except DataError as error:
            if not self._policy.leaves_out:
                raise
            return Refused.by(error, self._content(row, error))
        except Exception as error:
            if self._policy.leaves_out:
                error.add_note(_NO_DATA_ERROR.format(on_error=self._policy.on_error))
            raise

    def samples_of_rows(self, rows: range) -> list[Made]:
        """What :meth:`samples_of` gives each of some rows; tokens and mask may be arrays."""
        if not self._policy.leaves_out:
            return self._at_once(rows)
        made: list[Made] = []
        for start in range(rows.start, rows.stop, _ROWS_TO_RETRY):
            some = range(start, min(start + _ROWS_TO_RETRY, rows.stop))
            try:
                made += self._at_once(some)
            except DataError:
                made += map(self.samples_of, some)
        return made

    def _at_once(self, rows: range) -> list[Made]:
        why: dict[int, Reason | None] = {row: self._selection.why_out(row) for row in rows}
        # A transform that changes its row must not change a source that lies in memory.
        read = (self._rows[row] for row in rows if why[row] is None)
        given = [dict(row) if isinstance(row, dict) else row for row in read]
        fitted = iter(self._transform.fitted_rows(given))
        return [self._used(next(fitted)) if out is None else out for out in why.values()]

    def _made(self, row: Mapping[str, Any]) -> Made:
        return self._used(self._transform.fitted(row, labels=False))

    def _used(self, fitted: Fitted) -> Made:
        if fitted.left_out is not None:
            return fitted.left_out
        if self._policy.on_untrained == "keep" or self.trains(fitted.samples):
            return fitted.samples
        if self._policy.on_untrained == "raise":
            raise untrained_error()
        return "nothing_trained"

    def trains(self, samples: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a row of these samples has something to train."""
        return any(map(is_trained, samples))

    def _content(self, row: int, error: DataError) -> Any:
        try:
            return self._rows[row]
        except DataError:  # it can't be read
            return error.text if isinstance(error, MalformedRow) else None

    def prepare(self) -> None:
        """Has the tokenizer's back end build its tables, where it does that when it is first asked to encode."""
        transform: Any = getattr(self._transform, "model_transform", None)
        for owner in (transform, getattr(transform, "tokenizer", None)):
            if callable(prepare := getattr(getattr(owner, "backend", None), "prepare", None)):
                prepare()

    def check(self, num_stored: int, num_filtered: int) -> None:
        """Raises SourceError where the filter kept no row."""
        if num_filtered == self.num_rows:
            raise nothing_kept(self.num_rows, self.name)


_ROWS_TO_RETRY = 8
"""Rows that are made one by one after an error in one of them. A tokenizer is given as many at once, so that it is as
fast as for more."""

_NO_DATA_ERROR = (
    "on_error={on_error!r} leaves out rows that raise a torchpipe.errors.DataError. Any other exception is taken for a "
    "mistake in the code; a transform raises a DataError for a row that is to be left out."
)


def is_trained(sample: Mapping[str, Any]) -> bool:
    """Whether a sample has a trained token. The first one, which nothing predicts, is none."""
    labels = sample.get("labels")
    if labels is not None:
        return any(label != IGNORE_INDEX for label in labels)
    mask = sample["mask"]
    if isinstance(mask, np.ndarray):
        return not mask[1:].all()
    return list(mask[1:]).count(True) < len(mask) - 1  # what is neither True nor False is refused where it is stored


def untrained_error() -> DataError:
    """The error of a row without a trained token."""
    return DataError(
        "The row has no token that is trained: all of its messages are masked, or the mask leaves nothing. Look at its "
        "masking_strategy and train flags, or drop it with a filter_fn.",
        reason="nothing_trained",
    )


def vocab_size_of(transform: Any) -> int | None:
    """How many ids a tokenizer has, or the tokenizer in a transform; None where it doesn't say."""
    for owner in (transform, getattr(transform, "tokenizer", None)):
        if isinstance(size := getattr(owner, "vocab_size", None), int):
            return size
    return None
