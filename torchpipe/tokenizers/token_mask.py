"""Ids and mask of a rendered conversation."""

from collections.abc import Mapping, Sequence

from torchpipe.data.messages import Message
from torchpipe.data.train_on import TrainOn
from torchpipe.tokenizers.kinds import SAMPLED_KINDS, Kind, Segment
from torchpipe.tokenizers.render import MaskPolicy

TRAINED_KINDS: Mapping[MaskPolicy, tuple[Kind, ...]] = {
    "message": (*SAMPLED_KINDS, Kind.HEADER, Kind.PREFILL, Kind.SEPARATOR),
    "sampled": SAMPLED_KINDS,
}
_CALL_KINDS = (Kind.CALL_PREFIX, Kind.CALL_SUFFIX, Kind.TOOL_CALL)


def tokens_and_mask(
    segments: Sequence[Segment], messages: Sequence[Message], policy: MaskPolicy, train_on: TrainOn | None = None
) -> tuple[list[int], list[bool]]:
    """Ids and mask of equal length; True = not trained. ``train_on`` takes parts of trained messages away."""
    tokens: list[int] = []
    mask: list[bool] = []
    trained_kinds = TRAINED_KINDS[policy]
    for kind, index, token_ids in segments:
        tokens += token_ids
        mask += [kind not in trained_kinds or messages[index].masked] * len(token_ids)
    if train_on is not None and not train_on.is_all:
        _take_away(mask, segments, messages, train_on)
    return tokens, mask


def _take_away(mask: list[bool], segments: Sequence[Segment], messages: Sequence[Message], train_on: TrainOn) -> None:
    """Masks, in place, what ``train_on`` leaves out of what is trained."""
    last_trained = -1
    at = 0
    for segment in segments:
        if not all(mask[at : at + len(segment.token_ids)]):
            last_trained = max(last_trained, segment.message)
        at += len(segment.token_ids)
    at = 0
    for kind, index, token_ids in segments:
        if kind is Kind.TURN_END:
            counts = train_on.ends(is_last=index == last_trained)
        elif kind is Kind.CONTENT:  # a message with ipython=True is a call as a whole
            counts = train_on.trains("tool_calls" if messages[index].ipython else "answer")
        elif kind is Kind.REASONING:
            counts = train_on.reasoning
        else:
            counts = kind not in _CALL_KINDS or train_on.tool_calls
        if not counts:
            mask[at : at + len(token_ids)] = [True] * len(token_ids)
        at += len(token_ids)
