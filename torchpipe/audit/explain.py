"""Rows of a data set, token by token: what each is, whether it is trained, and why."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchpipe.audit.explain_words import cut_notes
from torchpipe.audit.explanation import DocumentView, Explanation, MessageView, RowView, TokenView
from torchpipe.audit.item_row import integers, row_of_item
from torchpipe.audit.origin import Origin, decided_by, hints, locate
from torchpipe.audit.pieces import Pieces
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data.whole_row import Cut
from torchpipe.datasets import ConcatDataset, PackedDataset, StoredDataset, instantiate_dataset
from torchpipe.datasets.first_packs import first_packs
from torchpipe.datasets.row_dataset import RowDataset
from torchpipe.errors import ConfigError, DataError, TokenizerError, TorchpipeError, located


def explain(
    dataset: Any,
    tokenizer: Any = None,
    *,
    rows: Sequence[int] = (0,),
    decode: Callable[[Sequence[int]], str] | None = None,
) -> Explanation:
    """What is trained in some rows, read from their labels.

    Where a token comes from and why it is or is not trained is told for data sets that are, or pack, an
    :class:`~torchpipe.datasets.SFTDataset` whose tokenizer gives a trace. Of others, tokens and labels are shown: of a
    pair both sides, one document each, of a prompt its tokens.
    A row that the data set refuses is shown as its messages and the sentence that refuses it.

    Args:
        dataset: anything with ``len`` and ``[]`` whose samples hold ``tokens`` and ``labels``, or that gives pairs,
            labelled answers or prompts, as our data sets of these do.
        tokenizer: the model transform; None takes the data set's own.
        rows: which rows; negative ones count from the end.
        decode: ids to text; None: the tokenizer's.

    Raises:
        ConfigError: there is no such row, or nothing that decodes.
        DataError: an item is none of these, or its numbers are not as many as they have to be, integers in one axis.
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

    Args:
        cfg: a whole config.
        rows: which rows; None: the first ``num_rows``.
        num_rows: how many of the first rows, at most; all where there are fewer.
        section: the dataset section's key.

    Raises:
        ConfigError: there is no such section or row, or a part of the config can't be built.
    """
    dataset, tokenizer, is_whole = dataset_of(cfg, rows=rows, num_rows=num_rows, section=section)
    chosen = range(min(num_rows, len(dataset))) if rows is None else rows
    found = explain(dataset, tokenizer, rows=list(chosen))
    return found if is_whole else replace(found, num_rows=None)


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
    origin = Origin.of(part)
    try:
        sample = dataset[index]
    except (DataError, TokenizerError) as error:
        if not isinstance(part, RowDataset | PackedDataset):  # they name the row themselves
            located(error, f"Row {index}")
        return _refused(error, index, number, origin)
    row = row_of_item(sample, index, dataset)
    tokens, labels = row.tokens, row.labels
    spans = part.spans(number) if isinstance(part, PackedDataset) else None
    documents = []
    offset = 0
    for place, length in enumerate(row.lengths):
        here = slice(offset, offset + length)
        padding = spans is not None and place >= len(spans)
        # The label of the position before a token says whether it is trained.
        trained = [at > 0 and labels[at - 1] != IGNORE_INDEX for at in range(offset, offset + length)]
        document = _document(
            tokens[here], labels[here], trained, row.positions[here], pieces, offset=offset, padding=padding
        )
        document = replace(document, side=row.sides[place])
        made: Mapping[str, Any] = {}
        if isinstance(part, PackedDataset) and spans is not None and not padding:
            source_row, nth = part.row_of(spans[place].sample)
            document = replace(document, sample=source_row, start=spans[place].start)
            made = origin.sample_of(source_row, nth)
        elif isinstance(part, StoredDataset):
            source_row, nth = part.row_of(number)
            document, made = replace(document, sample=source_row), origin.sample_of(source_row, nth)
        elif spans is None and not row.packed:
            notes = _unproved_notes(integers([sample.get("num_unproved_turns", 0)], "num_unproved_turns", index)[0])
            document, made = replace(document, sample=number, notes=notes), sample
        document = replace(document, num_cut=_num_cut(made, index))
        documents.append(_with_provenance(document, origin, made) if document.sample is not None else document)
        offset += length
    return RowView(
        index=index,
        source=origin.name,
        packed=row.packed,
        documents=tuple(documents),
        num_trained=len(labels) - labels.count(IGNORE_INDEX),
        notes=(*row.notes, *_row_notes(tokens, labels)),
    )


def _refused(error: TorchpipeError, index: int, number: int, origin: Origin) -> RowView:
    """A row that did not become a sample: what is known of it."""
    try:
        told = origin.conversation(number)
    except TorchpipeError:  # it was refused before it was a conversation
        told = None
    document = DocumentView(
        sample=number if origin.dataset is not None else None,
        start=0,
        offset=0,
        padding=False,
        messages=None if told is None else tuple(MessageView.of(message) for message in told.messages),
        tokens=(),
        tools=None if told is None else told.tools,
    )
    return RowView(
        index=index, source=origin.name, packed=False, documents=(document,), num_trained=0, refused=str(error)
    )


def _unproved_notes(num_unproved: int) -> tuple[str, ...]:
    if not num_unproved:
        return ()
    turns = "1 trained turn is" if num_unproved == 1 else f"{num_unproved} trained turns are"
    return (f"{turns} not proved to be what the model would sample",)


def _document(
    tokens: list[int],
    labels: list[int],
    trained: list[bool],
    positions: list[int],
    pieces: Pieces,
    *,
    offset: int,
    padding: bool,
) -> DocumentView:
    views = [
        TokenView(
            id=token,
            piece=piece,
            label=label,
            trained=is_trained,
            position=position,
            kind=None,
            message=None,
            reason=None,
        )
        for token, piece, label, is_trained, position in zip(
            tokens, pieces(tokens), labels, trained, positions, strict=True
        )
    ]
    if padding:
        views = [replace(view, reason="fills the row") for view in views]
    return DocumentView(sample=None, start=0, offset=offset, padding=padding, messages=None, tokens=tuple(views))


def _with_provenance(document: DocumentView, origin: Origin, made: Mapping[str, Any]) -> DocumentView:
    """The document with where its tokens come from; ``made`` is the sample that it is (a part of)."""
    sample = document.sample
    assert sample is not None
    cut: Cut | None = made.get("cut")
    places: Sequence[int] = range(document.start, document.start + len(document.tokens))
    if cut is not None:
        places = [cut.places[place] for place in places]
        document = replace(document, start=places[0], cut_side=cut.side, notes=(*document.notes, *cut_notes(made)))
    told = origin.conversation(sample, cut)
    if told is None:
        return document
    try:
        views = tuple(MessageView.of(message) for message in origin.shown(told))
        document = replace(document, messages=views, tools=told.tools)
        traced = origin.traced(told)
    except Exception as error:
        raise located(error, f"Row {document.sample} of {origin.name}") from error.__cause__
    if traced is None:
        return document
    tokens, trace = traced
    if max(places) >= len(tokens) or [tokens[place] for place in places] != [token.id for token in document.tokens]:
        note = "read once more, the row gave other tokens, so where they come from is not shown"
        return replace(document, notes=(*document.notes, note))
    explained = []
    differ = 0
    for place, token in enumerate(document.tokens):
        known = trace[places[place]]
        asked_for, reason = known.trained, known.reason
        if asked_for != token.trained:
            reason = _why_not_as_traced(document, place, asked_for, cut)
            differ += place > 0
        explained.append(
            replace(
                token,
                kind=known.kind,
                message=known.message,
                part=known.part,
                proof=known.proof,
                reason=reason,
                start=known.start if known.start >= 0 else None,
                stop=known.stop if known.stop >= 0 else None,
            )
        )
    notes = (f"the labels of {differ} tokens are not those that the mask asks for",) if differ else ()
    return replace(
        document,
        tokens=tuple(explained),
        num_cut=trace.num_cut or document.num_cut,
        cut_side=trace.cut_side or document.cut_side,
        notes=(*document.notes, *notes),
    )


def _why_not_as_traced(document: DocumentView, place: int, asked_for: bool, cut: Cut | None) -> str:
    if place == 0 and asked_for and cut is not None and document.start == cut.start:
        return "predicted at the end of the sample before" if cut.side is None else "what predicts it was cut away"
    if place == 0 and asked_for and document.start > 0:
        return "predicted at the end of the pack before"
    if place == 0 and asked_for:
        return "no token before it predicts it"
    if place == 0:
        return "the document before predicts it"
    return "by the labels, against the mask"


def _row_notes(tokens: list[int], labels: list[int]) -> tuple[str, ...]:
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


def _num_cut(sample: Mapping[str, Any], index: int) -> int:
    return integers([sample.get("num_truncated", 0)], "num_truncated", index)[0]


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
        what = "packs" if isinstance(dataset, PackedDataset) or getattr(dataset, "packed", False) else "rows"
        raise ConfigError(
            f"Row {index} was asked for, and the data set has {num_rows:,} {what}. They count from 0, and -1 is the "
            "last."
        )
    return index % num_rows
