"""The samples that a conversation becomes in a format that may leave something of it out."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from torchpipe.data.messages import Message
from torchpipe.tokenizers.conversation import OnLost
from torchpipe.tokenizers.kinds import SAMPLED_KINDS, Kind, Segment


class RowSample(NamedTuple):
    """One sample of a conversation.

    Attributes:
        messages: the conversation; what this sample doesn't train is masked.
        segments: how it is written.
        lost: what was left out, by message.
    """

    messages: Sequence[Message]
    segments: list[Segment]
    lost: Mapping[int, Sequence[str]]

    @property
    def num_unproved(self) -> int:
        """How many trained turns of the assistant are not whole."""
        trained = [index for index, message in enumerate(self.messages) if _is_trained(message)]
        return sum(index in self.lost for index in trained) if self.lost else 0


Write = Callable[[Sequence[Message], bool], tuple[list[Segment], Mapping[int, Sequence[str]]]]
"""Messages, and whether the last is what a model sampled after the others, to segments and what was left out."""


def row_samples(messages: Sequence[Message], write: Write, on_unproved: OnLost) -> list[RowSample]:
    """The samples of one conversation: none where it is dropped, several where turns are split off.

    Raises:
        DataError: the format has no place for something, or would lose it and may not.
    """
    whole = RowSample(messages, *write(messages, False))
    if on_unproved == "drop" and whole.lost:
        return []
    return _split(whole, write) if on_unproved == "split" else [whole]


def _split(whole: RowSample, write: Write) -> list[RowSample]:
    """The whole row with the turns that stand in it as in the conversation that ends with them, and the others."""
    messages = whole.messages
    runs, stops = _runs(whole.segments)
    alone: list[RowSample] = []
    for index, message in enumerate(messages):
        if not _is_trained(message):
            continue
        before = messages[: index + 1]
        own = RowSample([*map(_masked, before[:-1]), message], *write(before, True))
        own_runs, own_stops = _runs(own.segments)
        if runs[: stops.get(index, 0)] != own_runs[: own_stops[index]]:
            alone.append(own)
    if not alone:
        return [whole]
    apart = {len(own.messages) - 1 for own in alone}
    rest = [_masked(message) if index in apart else message for index, message in enumerate(messages)]
    return [*([] if all(message.masked for message in rest) else [whole._replace(messages=rest)]), *alone]


def _runs(segments: Sequence[Segment]) -> tuple[list[tuple[Kind, int, object]], dict[int, int]]:
    """What is written, piece by piece, and where the last sampled piece of each message stops."""
    runs: list[tuple[Kind, int, object]] = []
    stops: dict[int, int] = {}
    for kind, index, pieces in segments:
        runs += [(kind, index, piece) for piece in pieces if piece != ""]
        if kind in SAMPLED_KINDS and pieces:
            stops[index] = len(runs)
    return runs, stops


def _is_trained(message: Message) -> bool:
    return message.role == "assistant" and not message.masked


def _masked(message: Message) -> Message:
    if message.masked:
        return message
    masked = copy(message)
    masked.masked = True
    return masked
