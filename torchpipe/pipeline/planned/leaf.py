"""The rows of one source in a graph, tokenised once: what a plan of the graph is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from torchpipe._fingerprint import fingerprint
from torchpipe._fingerprint_memory import answer_of
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.overflow import Fitted
from torchpipe.data.packing.ramps import ramps
from torchpipe.errors import ColumnError, DataError, NoFingerprint
from torchpipe.pipeline.global_draws import GlobalDraws, makers_called
from torchpipe.pipeline.graph_words import with_graph_words
from torchpipe.pipeline.processors import DrewRandom, Outcome, SampleProcessor, without_draws
from torchpipe.pipeline.sequences import TextSequence, checked_arrays, sequence_of
from torchpipe.pipeline.types import DatasetBuildContext
from torchpipe.sources import describe_source
from torchpipe.sources.identity import object_fingerprint
from torchpipe.store.source_recipe import SourceRecipe, SourceRows, vocab_size_of

_IDS, _FLAGS = np.uint32, np.bool_


class CannotPlan(Exception):  # noqa: N818  # it is an answer, and always caught
    """A graph can't be planned; the sentence says why. Grain runs it then."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LeafRecipe(SourceRecipe):
    """Rows of a source, filtered and processed, as a :class:`~torchpipe.store.rows.StoreRecipe`.

    Attributes:
        label: what errors call the source.
        pre_filters, post_filters: keep the rows, and what the processor makes of them, for which all are true.
        processor: row to :class:`~torchpipe.pipeline.TextSequence`; None: rows are such, or samples of
            :mod:`torchpipe.datasets`.
        context: what the graph is built with.

    The others are those of :class:`~torchpipe.store.source_recipe.SourceRecipe`.
    """

    kind: ClassVar[str] = "pipeline"
    version: ClassVar[str] = "1"

    label: str
    pre_filters: Sequence[Callable[[Any], Any]] = ()
    processor: SampleProcessor | None = None
    post_filters: Sequence[Callable[[Any], Any]] = ()
    context: DatasetBuildContext

    @property
    def name(self) -> str:
        """What errors call the source."""
        return self.label

    @property
    def described_source(self) -> str:
        """What the source is called where it is known, such as its files; else its class."""
        return describe_source(self.source, {})

    def key_fields(self) -> dict[str, str]:
        """As of any recipe; ``source`` is its files, where it says them, and ``node`` what the graph calls it."""
        fields = {**super().key_fields(), "node": self.label, "source": self.described_source}
        # A store keeps the errors of rows that are left out, and they name the node.
        return {**fields, "errors name": self.label} if self.row_policy.leaves_out else fields

    def transform(self) -> "LeafTransform":
        """What makes samples of a row."""
        return LeafTransform(self)

    def deciding(self) -> Mapping[str, Any]:
        """Filters, processor, and the numbers of the context that a processor may look at."""
        context = self.context
        numbers: tuple[Any, ...] = (context.max_context_length, context.num_tokens_per_batch, context.max_num_documents)
        # Our own processors keep what they use of it, so that other lengths need no other store. A subclass of one
        # may look at more.
        if self.processor is None or "context" in vars(type(self.processor)).get("_unfingerprinted", ()):
            numbers = ()
        return {
            "pre_filters": tuple(self.pre_filters),
            "processor": self.processor,
            "post_filters": tuple(self.post_filters),
            "context": numbers,
        }

    @property
    def vocab_size(self) -> int | None:
        """The tokenizer's, where it says it."""
        return vocab_size_of(self.context.tokenizer)

    def open(self) -> "LeafRows":
        """The rows, opened."""
        return LeafRows(self)

    def made_of(self) -> dict[str, str]:
        """What tells source, processing and tokenizer from others, by name; "" where nothing does."""
        deciding, tokenizer = dict(self.deciding()), self.context.tokenizer
        return {
            "source": _told(lambda: object_fingerprint(self.source)),
            "processing": _told(lambda: fingerprint(deciding)),
            "tokenizer": _told(lambda: answer_of(tokenizer, "all", lambda: fingerprint(tokenizer))),
        }


def _told(find: Callable[[], str]) -> str:
    try:
        return find()
    except NoFingerprint:
        return ""


class LeafRows(SourceRows):
    """Rows of a source and what they become. A source whose rows are all left out is the graph's to refuse."""

    def check(self, num_stored: int, num_filtered: int) -> None:
        """Refuses nothing."""


class LeafTransform:
    """What filters and a processor make of a row: samples of tokens, one for each document."""

    def __init__(self, recipe: LeafRecipe) -> None:
        self._recipe = recipe
        makers = makers_called(recipe.processor, recipe.pre_filters, recipe.post_filters)
        self._draws = GlobalDraws(makers, recipe.label)

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        """The one sample of a row."""
        return self.fitted(sample).samples[0]

    def fitted(self, sample: Mapping[str, Any], *, labels: bool = True) -> Fitted:
        """The samples of a row, one for each of its documents; or why there is none.

        Raises:
            CannotPlan: the processor draws random numbers, or its labels and positions are not those of documents.
            DataError: the row can't be used.
        """
        try:
            return self._draws.watched(lambda: self._fitted(sample))
        except DataError as error:
            raise with_graph_words(error)  # noqa: B904  # the same error

    def _fitted(self, sample: Mapping[str, Any]) -> Fitted:
        recipe = self._recipe
        if sample is None:  # a data set of Grain leaves a row out so  # pyright: ignore[reportUnnecessaryComparison]
            return Fitted([], 0, "empty")
        if not all(keeps(sample) for keeps in recipe.pre_filters):
            return Fitted([], 0, "filtered")
        try:
            outcome = (
                Outcome(sequence_of(sample)) if recipe.processor is None else without_draws(recipe.processor, sample)
            )
        except DrewRandom as draw:
            raise CannotPlan(f"{type(recipe.processor).__name__} draws random numbers ({draw})") from None
        if outcome.value is None:
            return Fitted([], 0, outcome.left_out or "dropped")  # pyright: ignore[reportArgumentType]  # any reason
        if not all(keeps(outcome.value) for keeps in recipe.post_filters):
            return Fitted([], 0, "filtered")
        samples = documents_of(outcome.value)
        return Fitted(samples, sum(len(one["tokens"]) for one in samples), None if samples else "empty")  # pyright: ignore

    def fitted_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Fitted]:
        """What each row gives."""
        return [self.fitted(row) for row in rows]


def documents_of(sequence: object) -> list[dict[str, Any]]:
    """The documents of a sequence as samples of a store: ``tokens``, with the one that the last label is, and ``mask``.

    Args:
        sequence: a :class:`~torchpipe.pipeline.TextSequence`. What its ``padding_mask`` marks is left out.

    Raises:
        ColumnError: it is something else, or can't be trained on, see
            :func:`~torchpipe.pipeline.sequences.checked_arrays`.
        CannotPlan: a label is not the token that follows, or positions do not count from 0 on in each document.

    >>> sequence = TextSequence(input_ids=np.array([5, 6, 7]), labels=np.array([-100, 7, 8]))
    >>> [{name: values.tolist() for name, values in one.items()} for one in documents_of(sequence)]
    [{'tokens': [5, 6, 7, 8], 'mask': [True, True, False, False]}]
    """
    if not isinstance(sequence, TextSequence):
        raise ColumnError(
            f"A processor gave a {type(sequence).__name__}, and rows of text are TextSequence(input_ids=, labels=). "
            "Return one, or None to leave the row out."
        )
    ids, labels, positions = checked_arrays(sequence)
    if sequence.padding_mask is not None and np.any(sequence.padding_mask):
        kept = ~np.asarray(sequence.padding_mask, dtype=np.bool_)
        ids, labels = ids[kept], labels[kept]
        positions = None if positions is None else positions[kept]
    if not len(ids):
        return []
    begins = np.zeros(1, np.int64) if positions is None else np.flatnonzero(positions == 0)
    ends = np.append(begins[1:], len(ids))
    if positions is not None:
        starts_at_0 = len(begins) > 0 and begins[0] == 0
        if not starts_at_0 or not np.array_equal(positions, ramps(np.zeros_like(begins), ends - begins)):
            raise CannotPlan("positions do not count from 0 on in each document")
    return [_sample(ids[begin:end], labels[begin:end]) for begin, end in zip(begins, ends, strict=True)]


def _sample(ids: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    trained = labels != IGNORE_INDEX
    if ((labels[:-1] != ids[1:]) & trained[:-1]).any():
        raise CannotPlan("labels are other than the tokens that follow")
    last = labels[-1] if trained[-1] else ids[-1]  # untrained, it may be any
    return {
        "tokens": np.append(ids, last).astype(_IDS),
        "mask": np.concatenate([[True], ~trained]).astype(_FLAGS, copy=False),
    }
