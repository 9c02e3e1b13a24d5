"""What :func:`~torchpipe.tokenizers.render.render` wrote, told token by token."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from torchpipe.data.messages import Message
from torchpipe.data.trace import Origin, TokenTrace
from torchpipe.tokenizers.kinds import Kind, Segment
from torchpipe.tokenizers.render import MaskPolicy
from torchpipe.tokenizers.token_mask import TRAINED_KINDS

_UNTRAINED_ANYWAY = {
    Kind.DOCUMENT_START: "starts the document",
    Kind.DOCUMENT_END: "ends the document, after the turn's own end",
}


def trace_segments(
    segments: Sequence[Segment],
    messages: Sequence[Message],
    mask: Sequence[bool],
    policy: MaskPolicy,
    lost: Mapping[int, Sequence[str]] | None = None,
) -> TokenTrace:
    """The provenance of a rendered conversation.

    Args:
        segments: the conversation as it was rendered.
        messages: the same conversation.
        mask: of all tokens of the segments; True = not trained. It is what decides; this function finds the words.
        policy: the mask policy that made it.
        lost: of messages, by index, what the format left out.
    """
    return TokenTrace.from_runs(_runs(segments, messages, mask, policy, lost or {}))


def _runs(
    segments: Sequence[Segment],
    messages: Sequence[Message],
    mask: Sequence[bool],
    policy: MaskPolicy,
    lost: Mapping[int, Sequence[str]],
) -> Iterator[tuple[Origin, int]]:
    start = 0
    parts = [_parts(message) for message in messages]
    for segment in segments:
        writes_parts = segment.kind in (Kind.CONTENT, Kind.MEDIA)
        part = next(parts[segment.message], "") if writes_parts else ""
        stop = start + len(segment.token_ids)
        message = messages[segment.message] if segment.message >= 0 else None
        for masked, run in groupby(mask[start:stop]):
            lost_here = () if message is None else lost.get(segment.message, ())
            reason = _why_masked(segment.kind, message, policy) if masked else _why_trained(message, lost_here)
            yield Origin(segment.kind.value, segment.message, not masked, reason, part), len(list(run))
        start = stop


def _parts(message: Message) -> Iterator[str]:
    """The part that each segment of a message's content writes: an image, or a run of texts."""
    for is_image, run in groupby(enumerate(message.content), key=lambda place: place[1]["type"] == "image"):
        places = [index for index, _ in run]
        alone = (is_image or len(places) == 1) and len(message.content) > 1
        yield from [f"content[{index}]" for index in places] if alone else ["content"]


def _why_masked(kind: Kind, message: Message | None, policy: MaskPolicy) -> str:
    if message is None:
        return _UNTRAINED_ANYWAY.get(kind, f"{_words(kind)} of the document")
    if message.masked:
        return "message masked"
    if kind is Kind.MEDIA:
        return "stands for an image"
    if kind in TRAINED_KINDS[policy]:
        return f"{_words(kind)} left out by train_on"
    return f"{_words(kind)} (mask_policy {policy})"


def _why_trained(message: Message | None, lost: Sequence[str]) -> str:
    if lost:
        return f"message trained, unproved: the format left out its {' and '.join(lost)}"
    return "message trained" if message is not None else "belongs to the last message's turn"


def _words(kind: Kind) -> str:
    return kind.value.replace("_", " ")
