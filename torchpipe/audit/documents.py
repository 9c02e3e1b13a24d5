"""The documents of a row, token by token, and where each token comes from."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchpipe.audit.explain_words import cut_notes
from torchpipe.audit.explanation import DocumentView, MessageView, TokenView
from torchpipe.audit.item import Item
from torchpipe.audit.origin import Conversation, Origin
from torchpipe.audit.pieces import Pieces
from torchpipe.data.pair_transform import SIDES
from torchpipe.data.trace import Origin as TokenOrigin
from torchpipe.data.whole_row import Cut
from torchpipe.errors import located


def document_of(item: Item, place: int, offset: int, pieces: Pieces, *, padding: bool) -> DocumentView:
    """One document of an item, of which nothing more is known.

    Args:
        item: the item.
        place: the document's number.
        offset: its first token's place in the item.
        pieces: ids to what they stand for.
        padding: whether it only fills the row.
    """
    here = slice(offset, offset + item.lengths[place])
    tokens = item.tokens[here]
    views = [
        TokenView(
            id=token,
            piece=piece,
            label=label,
            trained=is_trained,
            position=position,
            kind=None,
            message=None,
            reason="fills the row" if padding else None,
        )
        for token, piece, label, is_trained, position in zip(
            tokens, pieces(tokens), item.labels[here], item.trained[here], item.positions[here], strict=True
        )
    ]
    return DocumentView(
        sample=None,
        start=0,
        offset=0 if item.sides else offset,  # each side is a row of its own
        padding=padding,
        messages=None,
        tokens=tuple(views),
        side=item.sides[place] if item.sides else "",
    )


def conversation_only(told: Conversation | None, *, sample: int | None) -> DocumentView:
    """A document of a row that was refused: its messages, as far as they are known."""
    return DocumentView(
        sample=sample,
        start=0,
        offset=0,
        padding=False,
        messages=None if told is None else tuple(MessageView.of(message) for message in told.messages),
        tokens=(),
        tools=None if told is None else told.tools,
        side="" if told is None else told.side,
        num_prompt=0 if told is None else told.num_prompt,
    )


def with_provenance(
    document: DocumentView, origin: Origin, made: Mapping[str, Any], *, conversation: int = 0
) -> DocumentView:
    """The document with where its tokens come from.

    Args:
        document: of a known sample.
        origin: of the sample.
        made: the sample that it is (a part of).
        conversation: which of the row's: 1 for the rejected side of a pair.

    Raises:
        Exception: the row can't be read once more; the error names it.
    """
    sample = document.sample
    assert sample is not None
    cut: Cut | None = made.get("cut")
    places: Sequence[int] = range(document.start, document.start + len(document.tokens))
    if cut is not None:
        # Of a part of a row, the last label may be the next part's first token.
        whole = [*cut.places, cut.stop]
        places = [whole[place] for place in places]
        document = replace(document, start=places[0], cut_side=cut.side, notes=(*document.notes, *cut_notes(made)))
    told = origin.conversation(sample, cut, place=conversation)
    if told is None:
        return document
    try:
        views = tuple(MessageView.of(message) for message in origin.shown(told))
        cut_to = "max_prompt_len" if told.is_open else document.cut_to
        document = replace(document, messages=views, tools=told.tools, num_prompt=told.num_prompt, cut_to=cut_to)
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
        known = _in_words(trace[places[place]], told)
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


def _in_words(token: TokenOrigin, told: Conversation) -> TokenOrigin:
    """A token of a prompt, with the reason why it is never trained; else as it is."""
    if told.is_open and token.message >= len(told.messages):
        return token._replace(message=-1, trained=False, reason="begins the reply, which is not there yet")
    if not 0 <= token.message < told.num_prompt:
        return token
    if told.is_open:
        return token._replace(trained=False, reason="a prompt, of which nothing is trained")
    whose = "of both answers" if told.side else "of the answer that is judged"
    return token._replace(reason=f"the prompt {whose}, never trained")


def with_shared_prompt(documents: Sequence[DocumentView]) -> list[DocumentView]:
    """The documents, those of a pair with the tokens that both sides begin with, and neither trains."""
    found = list(documents)
    for place in range(len(found) - 1):
        one, other = found[place : place + 2]
        if (one.side, other.side) != SIDES:
            continue
        num_shared = 0
        for mine, theirs in zip(one.tokens, other.tokens, strict=False):
            if mine.id != theirs.id or mine.trained or theirs.trained:
                break
            num_shared += 1
        found[place : place + 2] = [replace(side, num_shared=num_shared) for side in (one, other)]
    return found


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
