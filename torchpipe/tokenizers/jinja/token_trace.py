"""Where each token of a rendered conversation comes from, and why it is or is not trained."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from torchpipe.data.openai_dicts import REASONING_KEYS
from torchpipe.data.trace import Origin, TokenTrace
from torchpipe.tokenizers.backend import Backend
from torchpipe.tokenizers.jinja.conversation import RenderedSample
from torchpipe.tokenizers.jinja.coverage import field_name
from torchpipe.tokenizers.jinja.provenance import UNKNOWN, Source
from torchpipe.tokenizers.jinja.rendering import Printed, Rendering
from torchpipe.tokenizers.jinja.turns import Turn
from torchpipe.tokenizers.pieces import Piece, token_ranges
from torchpipe.tokenizers.render import MaskPolicy

_THINK_START = re.compile(r"<think(?:ing)?>|<\|START_THINKING\|>|\[THINK\]")
_THINK_END = re.compile(r"</think(?:ing)?>|<\|END_THINKING\|>|\[/THINK\]")


class TextPart(NamedTuple):
    """Characters [start, stop) of the text that are of one kind."""

    start: int
    stop: int
    kind: str
    message: int
    part: str


def trace_of(
    sample: RenderedSample,
    pieces: Sequence[Piece],
    mask: Sequence[bool],
    backend: Backend,
    *,
    policy: MaskPolicy,
    bos_id: int | None,
    eos_id: int | None,
) -> TokenTrace:
    """The provenance of a sample's tokens.

    Args:
        sample: the rendered conversation.
        pieces: its tokens; mask: of all of them. The mask is what decides; this function finds the words.
        backend: whose tokens they are.
        policy: the mask policy that made the mask.
        bos_id, eos_id: the control tokens that start and end a document, where the tokenizer knows them.
    """
    rendering = sample.rendering
    parts = list(parts_of(sample))
    starts = [part.start for part in parts]
    turns = {turn.message: turn for turn in sample.turns}
    named = {bos_id: "bos", eos_id: "eos"} if None not in (bos_id, eos_id) else {bos_id: "bos"}

    def origins() -> Iterator[tuple[Origin, int]]:
        place = 0
        for piece in pieces:
            ranges = token_ranges(piece, rendering.text, backend)
            for token_id, (start, stop) in zip(piece.token_ids, ranges, strict=True):
                part = parts[max(0, bisect_right(starts, start) - 1)]
                turn = turns.get(part.message)
                if turn is None and (turn := turn_at(sample.turns, start)) is not None:
                    # The control token that opens the next message may be what the model stops at.
                    kind = "footer" if start >= turn.stop_start else "content"
                    part = part._replace(kind=kind, message=turn.message, part="")
                trained = not mask[place]
                kind = part.kind
                if piece.control and not trained and token_id in named and kind in ("header", "footer"):
                    kind = named[token_id]
                in_turn = turn is not None and turn.start <= start < turn.stop
                reason = _reason(kind, trained, part.message, in_turn, turn, sample, policy)
                proof = turn.proof if in_turn and turn is not None else ""
                yield Origin(kind, part.message, trained, reason, part.part, proof, start, stop), 1
                place += 1

    return TokenTrace.from_runs(origins())


def turn_at(turns: Sequence[Turn], place: int) -> Turn | None:
    """The turn in whose reply a place stands."""
    number = bisect_right(turns, place, key=lambda turn: turn.start) - 1
    return turns[number] if number >= 0 and place < turns[number].stop else None


def _reason(
    kind: str, trained: bool, message: int, in_turn: bool, turn: Turn | None, sample: RenderedSample, policy: MaskPolicy
) -> str:
    if trained and policy == "message":
        return "message trained"
    if trained:
        assert turn is not None
        return "sampled by the model" if turn.proved else f"unproved: {turn.why_not}"
    if message < 0:
        return f"{kind}, no message's"
    if in_turn and message not in sample.trained:
        return "message masked"
    if in_turn and policy == "sampled":
        return "left out by train_on"
    if turn is not None and kind in ("header", "prefill"):
        return "the prompt ends with it"
    if turn is not None and kind in ("footer", "eos"):
        return "after the stop token"
    return f"{kind} of a message that the model reads"


def parts_of(sample: RenderedSample) -> Iterator[TextPart]:
    """The text in parts, in order: the row's strings, and what the template wrote between them."""
    rendering, turns = sample.rendering, {turn.message: turn for turn in sample.turns}
    row = rendering.printed
    place = 0
    for number, (start, stop, source, *_) in enumerate(row):
        yield from _template_parts(rendering, turns, place, start, row, number)
        yield TextPart(start, stop, _kind(source), source.message if source.message >= 0 else -1, _name(source))
        place = stop
    yield from _template_parts(rendering, turns, place, len(rendering.text), row, len(row))


def _template_parts(
    rendering: Rendering,
    turns: Mapping[int, Turn],
    start: int,
    stop: int,
    row: Sequence[Printed],
    number: int,
) -> Iterator[TextPart]:
    """The template's own text in [start, stop), cut where it becomes another message's, or its turn's reply."""
    before = row[number - 1].source if number else None
    after = row[number].source if number < len(row) else None
    owners = rendering.owners
    first = max(0, bisect_right(owners, start, key=itemgetter(0)) - 1)
    for place in range(first, len(owners)):
        own_start = max(start, owners[place][0])
        own_stop = min(stop, owners[place + 1][0] if place + 1 < len(owners) else stop)
        if own_start >= stop:
            return
        message = owners[place][1]
        turn = turns.get(message)
        goes_on = after is not None and after.message == message
        ended = before is not None and before.message == message
        first_kind = _kind(before) if ended and before is not None else None
        last_kind = _kind(after) if goes_on and after is not None else None
        if turn is None:
            kind = "footer" if after is None or (ended and not goes_on and message >= 0) else "header"
            yield TextPart(own_start, own_stop, kind, message, "")
            continue
        yield from _turn_parts(rendering.text, turn, own_start, own_stop, first_kind, last_kind)


def _turn_parts(
    text: str, turn: Turn, start: int, stop: int, before: str | None, after: str | None
) -> Iterator[TextPart]:
    """The template's text of an assistant's turn: the prompt, the reply, its stop token, and what follows.

    ``before`` and ``after`` are the kinds of the turn's strings beside it. What is between reasoning and another string
    is reasoning up to the tag that ends it.
    """
    prompt_stop = min(stop, max(start, turn.start))
    thought = _THINK_START.search(text, start, prompt_stop)
    prefill = thought.start() if thought else prompt_stop
    reply_stop = min(stop, max(prompt_stop, turn.stop_start))
    ended = _THINK_END.search(text, prompt_stop, reply_stop) if before == "reasoning" else None
    thought_stop = ended.end() if ended else prompt_stop
    for begin, end, kind in (
        (start, prefill, "header"),
        (prefill, prompt_stop, "prefill"),
        (prompt_stop, thought_stop, "reasoning"),
        (thought_stop, reply_stop, after or before or "content"),
        (reply_stop, stop, "footer"),
    ):
        if begin < end:
            yield TextPart(begin, end, kind, turn.message, "")


def _kind(source: Source) -> str:
    if source is UNKNOWN or source.message < 0:
        return "header"
    if source.path[0] == "tool_calls":
        return "tool_call"
    return "reasoning" if source.path[0] in REASONING_KEYS else "content"


def _name(source: Source) -> str:
    if source is UNKNOWN:
        return "unknown"
    if source.message == -1:
        return "tools"
    return field_name(source) if source.message >= 0 else f"template_kwargs.{field_name(source)}"
