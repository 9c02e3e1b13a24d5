"""Rows of a data set, token by token: what each is, whether it is trained, and why."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from torchpipe.audit.documents import conversation_only, document_of, with_provenance, with_shared_prompt
from torchpipe.audit.explanation import DocumentView, Explanation, RowView
from torchpipe.audit.graph_config import SECTION, built_graph, is_of_graph
from torchpipe.audit.graph_rows import GraphRows, GraphView
from torchpipe.audit.item import Item, item_of, num_cut_of
from torchpipe.audit.nouns import noun_of
from torchpipe.audit.origin import Origin, decided_by, hints, locate
from torchpipe.audit.pieces import Pieces
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.pair_transform import SIDES
from torchpipe.datasets import ConcatDataset, PackedDataset, SFTDataset, StoredDataset, instantiate_dataset
from torchpipe.datasets.first_packs import first_packs
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.errors import ConfigError, DataError, TokenizerError, TorchpipeError, located
from torchpipe.store.rows import KIND_OF_PAIRS, kind_of


def explain(
    dataset: Any,
    tokenizer: Any = None,
    *,
    rows: Sequence[int] = (0,),
    decode: Callable[[Sequence[int]], str] | None = None,
) -> Explanation:
    """What is trained in some rows, read from their labels.

    Where a token comes from and why it is or is not trained is told for data sets of messages (fine-tuning, pairs,
    labelled answers, prompts), stored, packed or not, whose tokenizer gives a trace. Of others, tokens and labels are
    shown. A pair is shown as its prompt, and what follows it on either side. A row that the data set refuses is shown
    as its messages and the sentence that refuses it.

    Args:
        dataset: anything with ``len`` and ``[]`` whose samples hold ``tokens`` and ``labels``; or of pairs, labelled
            answers or prompts.
        tokenizer: the model transform; None takes the data set's own.
        rows: which rows; negative ones count from the end.
        decode: ids to text; None: the tokenizer's.

    Raises:
        ConfigError: there is no such row, or nothing that decodes.
        DataError: a sample has no ``tokens`` and ``labels`` of equal length, integers in one axis.
    """
    places = rows_in_range(rows, dataset)
    origin = Origin.of(locate(dataset, places[0])[0] if places else dataset)
    tokenizer = tokenizer if tokenizer is not None else origin.model_transform
    if decode is None and not callable(getattr(tokenizer, "decode", None)):
        raise ConfigError(
            f"Tokens can't be shown as text: {type(tokenizer).__name__} has no `decode`. Give explain a tokenizer that "
            "has one, or decode=..., a function from ids to text."
        )
    pieces = Pieces(tokenizer, decode)
    name = getattr(dataset, "name", origin.name)
    return Explanation(
        source=name if isinstance(name, str) else None,
        num_rows=len(dataset),
        decided_by=decided_by(origin, tokenizer),
        rows=[_row(dataset, index, pieces) for index in places],
        notes=hints(tokenizer),
    )


def explain_config(
    cfg: Mapping[Any, Any], *, rows: Sequence[int] | None = None, num_rows: int = 1, section: str = "dataset"
) -> Explanation:
    """The same for a config's dataset section. Its tokenizer and data set are built, nothing else.

    Of a packed data set only the samples that the asked packs need are read.

    Of a config with a graph (``dataloader``) and no ``dataset``, the rows are those of the graph's first source, in its
    order; with the section "dataloader", or a node's name, those of the graph or node, in the first epoch's order.

    Args:
        cfg: a whole config.
        rows: which rows; None: the first ``num_rows``.
        num_rows: how many of the first rows, at most; all where there are fewer.
        section: the dataset section's key, or a node's name.

    Raises:
        ConfigError: there is no such section or row, or a part of the config can't be built.
    """
    if is_of_graph(cfg, section):
        return _explain_graph(cfg, list(range(num_rows) if rows is None else rows), rows is None, section)
    dataset, tokenizer, is_whole = dataset_of(cfg, rows=rows, num_rows=num_rows, section=section)
    chosen = range(min(num_rows, len(dataset))) if rows is None else rows
    found = explain(dataset, tokenizer, rows=list(chosen))
    return found if is_whole else replace(found, num_rows=None)


def graph_rows_of(cfg: Mapping[Any, Any], rows: Sequence[int], section: str) -> tuple[GraphView, GraphRows]:
    """A config's graph, and the rows of the node that a section names; see :func:`explain_config`."""
    view = GraphView(loader=built_graph(cfg)[0])
    name = "" if section == SECTION else None if section == "dataset" else section
    return view, view.rows_of(name, rows=rows)


def _explain_graph(cfg: Mapping[Any, Any], rows: list[int], are_at_most: bool, section: str) -> Explanation:
    view, dataset = graph_rows_of(cfg, rows, section)
    chosen = rows[: len(dataset)] if are_at_most else rows
    found = explain(dataset, view.loader.context.tokenizer, rows=chosen)
    notes = list(found.notes)
    if view.graph is None:
        notes.append(f"Grain runs this graph, so which source a row is of isn't known: {view.loader.why_not_planned}")
    if any(document.ends_with_target for row in found.rows for document in row.documents):
        notes.append("a last label is shown as a token behind its document; it is no token of the row")
    decided = view.decided_by(dataset, [row.index for row in found.rows])
    num_rows = None if view.graph is None else found.num_rows
    return replace(found, num_rows=num_rows, decided_by=decided, notes=tuple(notes))


def dataset_of(
    cfg: Mapping[Any, Any], *, rows: Sequence[int] | None, num_rows: int, section: str
) -> tuple[Any, Any, bool]:
    """A config's data set and tokenizer, and whether the data set is whole; else it holds the asked packs only.

    Arguments and errors are those of :func:`explain_config`.
    """
    from torchpipe.config import instantiate

    for key in ("tokenizer", section):
        if cfg.get(key) is None:
            sections = [str(name) for name in cfg if str(name).startswith("dataset")]
            told = f" It has {', '.join(sections)}." if sections and key == section else ""
            raise ConfigError(
                f"The config has no {key} section, and explain builds the tokenizer and one data set.{told}"
            )
    tokenizer = instantiate(cfg["tokenizer"], caller_globals={})
    num_packs = num_rows if rows is None else max(rows, default=0) + 1 if min(rows, default=0) >= 0 else None
    with first_packs(num_packs) as asked:
        dataset = instantiate_dataset(cfg[section], tokenizer, caller_globals={})
    unfinished = bool(asked.unfinished)
    parts = dataset.datasets if isinstance(dataset, ConcatDataset) else [dataset]
    if not all(any(one is part for part in parts) for one in asked.unfinished):
        # Something stands on top of a shortened data set: what that makes of it may depend on its length.
        unfinished = False
        dataset = instantiate_dataset(cfg[section], tokenizer, caller_globals={})
    return dataset, tokenizer, not unfinished


def _row(dataset: Any, index: int, pieces: Pieces) -> RowView:
    part, number = locate(dataset, index)
    origin = part.origin_of(number) if isinstance(part, GraphRows) else Origin.of(part)
    noun = noun_of(part)
    try:
        sample = dataset[index]
    except (DataError, TokenizerError) as error:
        if not isinstance(part, RowDataset | PackedDataset):  # they name the row themselves
            located(error, f"Row {index}")
        return _refused(error, index, number, origin, noun)
    item = item_of(sample, index, dataset)
    seen = _Seen(part=part, number=number, index=index, origin=origin, sample=sample, item=item)
    offsets = [0, *accumulate(item.lengths)]
    documents = [seen.document(place, offsets[place], pieces) for place in range(len(item.lengths))]
    return RowView(
        index=index,
        source=origin.name,
        packed=item.packed,
        documents=tuple(with_shared_prompt(documents)),
        num_trained=item.num_trained,
        notes=_row_notes(item),
        noun="pair" if item.sides else noun,
        desirable=item.desirable,
    )


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """An item that is looked at: of which data set, which number there and in what was asked, and what it holds."""

    part: Any
    number: int
    index: int
    origin: Origin
    sample: Mapping[str, Any]
    item: Item

    def document(self, place: int, offset: int, pieces: Pieces) -> DocumentView:
        """One of its documents, with where its tokens come from."""
        part, origin = self.part, self.origin
        if isinstance(part, GraphRows):
            fills = bool(self.sample["fills"][place])
            return part.told(
                document_of(self.item, place, offset, pieces, padding=fills), self.sample, self.number, place
            )
        spans = part.spans(self.number) if isinstance(part, PackedDataset) else None
        padding = spans is not None and place >= len(spans)
        document = document_of(self.item, place, offset, pieces, padding=padding)
        conversation = place if self.item.sides else 0  # of the row's
        made: Mapping[str, Any] = {}
        if isinstance(part, PackedDataset) and spans is not None and not padding:
            row, nth = part.row_of(spans[place].sample)
            document, made = replace(document, sample=row, start=spans[place].start), origin.sample_of(row, nth)
            if kind_of(part) == KIND_OF_PAIRS:
                document, conversation = replace(document, side=SIDES[nth]), nth
        elif isinstance(part, StoredDataset):
            row, nth = part.row_of(self.number)
            document, made = replace(document, sample=row), origin.sample_of(row, conversation or nth)
        elif spans is None and not self.item.packed:
            document = replace(document, sample=self.number, notes=_unproved_notes(self.item.num_unproved))
            is_sample = isinstance(origin.dataset, SFTDataset | None)
            made = self.sample if is_sample else origin.sample_of(self.number, conversation)
        document = replace(document, num_cut=num_cut_of(made, self.index))
        known = document.sample is not None
        return with_provenance(document, origin, made, conversation=conversation) if known else document


def _refused(error: TorchpipeError, index: int, number: int, origin: Origin, noun: str) -> RowView:
    """A row that did not become a sample: what is known of it."""
    try:
        told = origin.conversations(number)
    except TorchpipeError:  # it was refused before it was a conversation
        told = []
    sample = number if origin.dataset is not None else None
    return RowView(
        index=index,
        source=origin.name,
        packed=False,
        documents=tuple(conversation_only(one, sample=sample) for one in told or [None]),
        num_trained=0,
        refused=str(error),
        noun=noun,
    )


def _unproved_notes(num_unproved: int) -> tuple[str, ...]:
    if not num_unproved:
        return ()
    turns = "1 trained turn is" if num_unproved == 1 else f"{num_unproved} trained turns are"
    return (f"{turns} not proved to be what the model would sample",)


def _row_notes(item: Item) -> tuple[str, ...]:
    tokens, labels = item.tokens, item.labels
    wrong = [at for at, label in enumerate(labels[:-1]) if label not in (IGNORE_INDEX, tokens[at + 1])]
    notes = []
    if wrong:
        notes.append(
            f"{len(wrong)} labels are not the token that follows, the first at {wrong[0]}: trained is what a label "
            "asks for, not the token shown"
        )
    if labels and labels[-1] != IGNORE_INDEX:
        notes.append(f"the last position predicts token {labels[-1]}, which is not in this row")
    return tuple(notes)


def rows_in_range(rows: Sequence[int], dataset: Any) -> list[int]:
    """The rows' numbers, counted from the start.

    Raises:
        ConfigError: there is no such row.
    """
    num_rows = len(dataset)
    try:
        asked = [operator.index(row) for row in rows]
    except TypeError:
        raise ConfigError(f"rows={rows!r} must be a list of row numbers, as [0, -1].") from None
    return [_in_range(index, num_rows, dataset) for index in asked]


def _in_range(index: int, num_rows: int, dataset: Any) -> int:
    if not -num_rows <= index < num_rows:
        raise ConfigError(
            f"Row {index} was asked for, and the data set has {num_rows:,} {noun_of(dataset)}s. They "
            "count from 0, and -1 is the last."
        )
    return index % num_rows
