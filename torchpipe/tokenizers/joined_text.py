"""Encodes a rendered conversation whose text was left as text: what stands between two control tokens, as one text."""

from collections.abc import Callable, Sequence
from typing import cast

from torchpipe.data.messages import Message
from torchpipe.tokenizers.kinds import SAMPLED_KINDS, Kind
from torchpipe.tokenizers.render import Segment

Encode = Callable[[str], list[int]]


def as_text(text: str, *, trim_leading_whitespace: bool = False) -> list[int]:
    """The text itself in place of its ids, for :class:`~torchpipe.tokenizers.render.FormatEncoder`."""
    return cast("list[int]", [text])


def encode_joined(
    segments: Sequence[Segment], messages: Sequence[Message], encode: Encode, *, joins: bool = True
) -> list[Segment]:
    """The segments with ids in place of text.

    Text is cut at control tokens, and where the prompt of an assistant's turn ends and the model samples: a server
    encodes the prompt before there is a reply. A token of two segments belongs to the second.

    Args:
        segments: segments whose ids are control tokens' ids and texts, mixed.
        messages: the messages that they are of.
        encode: ordinary text to ids.
        joins: False cuts text between segments, too.
    """
    joiner = _Joiner(encode)
    sampled_before = False
    for place, (kind, index, pieces) in enumerate(segments):
        joiner.ids.append([])
        if not pieces:
            continue
        sampled = kind in SAMPLED_KINDS and index >= 0 and messages[index].role == "assistant"
        if not joins or (sampled and not sampled_before):
            joiner.flush()
        for piece in pieces:
            if isinstance(piece, str):
                joiner.texts.append((place, piece))
            else:
                joiner.flush()
                joiner.ids[place].append(piece)
        sampled_before = sampled
    joiner.flush()
    written: list[Segment] = []
    started = False
    for (kind, index, _), ids in zip(segments, joiner.ids, strict=True):
        started = started or index >= 0
        if index < 0:  # what no message brings: a system turn of the format's own, or the header that prompts a reply
            kind = Kind.PREFILL if started else Kind.DOCUMENT_START
        written.append(Segment(kind, index, ids))
    return written


class _Joiner:
    """Texts that stand beside each other, by the place of their segment, until they are encoded as one."""

    def __init__(self, encode: Encode) -> None:
        self.encode = encode
        self.ids: list[list[int]] = []
        self.texts: list[tuple[int, str]] = []

    def flush(self) -> None:
        """Encodes the texts, and gives each segment its ids."""
        if not self.texts:
            return
        ids = self.encode("".join(text for _, text in self.texts))
        start = 0
        text = ""
        for (place, own), (after, _) in zip(self.texts, self.texts[1:], strict=False):
            text += own
            if after != place:
                stop = max(start, _shared(self.encode(text), ids))
                self.ids[place] += ids[start:stop]
                start = stop
        self.ids[self.texts[-1][0]] += ids[start:]
        self.texts = []


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids two lists begin with alike."""
    for count, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return count
    return min(len(a), len(b))
