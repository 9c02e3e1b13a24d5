"""Which tokens of a rendered conversation are trained."""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate

from torchpipe.data.train_on import TrainOn
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.jinja.conversation import RenderedSample
from torchpipe.tokenizers.jinja.token_trace import parts_of, turn_at
from torchpipe.tokenizers.pieces import CutText, Piece, token_ranges
from torchpipe.tokenizers.render import MaskPolicy

Ranges = list[tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class MaskRules:
    """What of a conversation is trained.

    Attributes:
        policy: "sampled" trains what the model samples; "message" all of a message.
        train_on: which parts of that count.
        bos_id, eos_id: what starts and ends a document, which "message" doesn't train.
    """

    policy: MaskPolicy
    train_on: TrainOn
    bos_id: int | None
    eos_id: int | None


def mask_of(
    sample: RenderedSample, unmasked: Collection[int], cut: CutText, backend: Backend, rules: MaskRules
) -> list[bool]:
    """The mask of all tokens of the text; True = not trained.

    Args:
        sample: the conversation.
        unmasked: the messages that are trained, whoever speaks.
        cut: the sample's text, encoded.
        backend: that encoded it.
        rules: what counts.
    """
    if rules.policy == "sampled":
        trained = sampled_ranges(sample)
    else:
        trained = message_ranges(sample, unmasked, cut.pieces, bos_id=rules.bos_id, eos_id=rules.eos_id)
    mask = mask_of_ranges(cut, trained, sample.rendering.text, backend)
    if not rules.train_on.is_all:
        _take_away(mask, sample, cut.pieces, backend, rules.train_on)
    return mask


def sampled_ranges(sample: RenderedSample) -> Ranges:
    """The characters [start, stop) that the model samples in trained turns, in order."""
    return [(turn.start, turn.stop) for turn in sample.turns if turn.message in sample.trained]


def message_ranges(
    sample: RenderedSample, trained: Collection[int], pieces: Sequence[Piece], *, bos_id: int | None, eos_id: int | None
) -> Ranges:
    """The characters [start, stop) of the text of trained messages, in order, whoever speaks.

    What starts the document is left out, and what ends it where the turn has an end of its own before it.
    """
    owners = sample.rendering.owners
    ends = [start for start, _ in owners[1:]] + [len(sample.rendering.text)]
    stops = {turn.message: turn.stop for turn in sample.turns}
    controls = [piece for piece in pieces if piece.control]
    place = 0
    ranges: Ranges = []
    for (start, owner), end in zip(owners, ends, strict=True):
        first = place
        while place < len(controls) and controls[place].start < end:
            place += 1
        if owner not in trained:
            continue
        for piece in controls[first:place]:
            (token_id,) = piece.token_ids
            if token_id == bos_id or (token_id == eos_id and piece.start >= stops.get(owner, end)):
                ranges.append((start, piece.start))
                start = piece.stop
        ranges.append((start, end))
    return [(start, end) for start, end in ranges if start < end]


def _take_away(
    mask: list[bool], sample: RenderedSample, pieces: Sequence[Piece], backend: Backend, train_on: TrainOn
) -> None:
    """Masks, in place, what ``train_on`` leaves out of what is trained."""
    parts = list(parts_of(sample))
    starts = [part.start for part in parts]
    last = max((turn.message for turn in sample.turns if turn.message in sample.trained), default=-1)
    counts = {
        "content": train_on.answer,
        "reasoning": train_on.reasoning,
        "tool_call": train_on.tool_calls,
    }
    place = 0
    for piece in pieces:
        for start, _ in token_ranges(piece, sample.rendering.text, backend):
            part = parts[max(0, bisect_right(starts, start) - 1)]
            turn = turn_at(sample.turns, start)
            if turn is not None and start >= turn.stop_start:  # whoever's text it is: the next header may be the stop
                counted = train_on.ends(is_last=turn.message == last)
            else:
                ends = train_on.ends(is_last=part.message == last) if part.kind == "footer" else True
                counted = counts.get(part.kind, ends)
            mask[place] = mask[place] or not counted
            place += 1


def weights_of(
    sample: RenderedSample, weights: Sequence[float], pieces: Sequence[Piece], backend: Backend
) -> list[float]:
    """For each token the weight of the message in whose turn it is sampled, else of the one whose text it is.

    Text of no message weighs 1.0.
    """
    owners = sample.rendering.owners
    starts = [start for start, _ in owners]
    found: list[float] = []
    for piece in pieces:
        for start, _ in token_ranges(piece, sample.rendering.text, backend):
            turn = turn_at(sample.turns, start)
            owner = owners[max(0, bisect_right(starts, start) - 1)][1] if turn is None else turn.message
            found.append(weights[owner] if owner >= 0 else 1.0)
    return found


def mask_of_ranges(cut: CutText, trained: Ranges, text: str, backend: Backend) -> list[bool]:
    """The mask of all tokens of a text; True = not trained.

    A token is trained where all its characters are within one range. A piece is looked into token by token only where
    a range starts or ends inside it, which no proved turn's does.
    """
    stops = cut.stops
    offsets = list(accumulate(map(len, cut.token_ids), initial=0))
    mask = [True] * offsets[-1]
    for start, stop in trained:
        first = bisect_left(stops, start)  # the piece that the range starts in, or that ends where it starts
        last = bisect_right(stops, stop)  # the piece that it ends in, or that starts where it ends
        inside = first + (start > 0)
        if inside < last:
            mask[offsets[inside] : offsets[last]] = [False] * (offsets[last] - offsets[inside])
        for place, edge in ((first, start), (last, stop)):
            if place < len(stops) and (stops[place - 1] if place else 0) < edge < stops[place]:
                own = [not _within(part, trained) for part in token_ranges(cut.pieces[place], text, backend)]
                mask[offsets[place] : offsets[place + 1]] = own
    return mask


def _within(part: tuple[int, int], ranges: Ranges) -> bool:
    return any(start <= part[0] and part[1] <= stop for start, stop in ranges)
