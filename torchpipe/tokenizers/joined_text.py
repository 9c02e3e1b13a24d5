"""Encodes a rendered conversation whose text was left as text: what stands between two control tokens, as one text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

from torchpipe.data.messages import Message
from torchpipe.tokenizers.control_matcher import ControlMatcher
from torchpipe.tokenizers.kinds import SAMPLED_KINDS, Kind, Segment

Encode = Callable[[str], list[int]]

_OWN_KINDS = (Kind.DOCUMENT_START, Kind.HEADER, Kind.PREFILL, Kind.TOOLS)
"""What the format, or the tools that many rows share, bring to a text."""
_MOST_REMEMBERED = 1000


def as_text(text: str, *, trim_leading_whitespace: bool = False) -> list[int]:
    """The text itself in place of its ids, for :class:`~torchpipe.tokenizers.render.FormatEncoder`."""
    return cast("list[int]", [text])


class JoinedTextEncoder:
    """Segments whose ids are control tokens' ids and texts, mixed, to segments of ids.

    Text is cut at control tokens, and where the prompt of an assistant's turn ends and the model samples: a server
    encodes the prompt before there is a reply. A token of two segments belongs to the second.

    Args:
        encode: ordinary text to ids.
        joins: False cuts text between segments, too.
        spelled: finds the control tokens that texts may spell; None: texts spell none.
    """

    def __init__(self, encode: Encode, *, joins: bool = True, spelled: ControlMatcher | None = None) -> None:
        self._encode = encode
        self._joins = joins
        self._spelled = spelled
        self._known: dict[str, list[int]] = {}

    def __call__(self, segments: Sequence[Segment], messages: Sequence[Message]) -> list[Segment]:
        """The segments with ids in place of text; those that no message brings start the document, or prompt a reply.

        Args:
            segments: the conversation as it was rendered.
            messages: the messages that they are of.
        """
        written: list[Segment] = []
        texts: list[str] = []
        owners: list[Segment] = []  # of the texts
        sampled_before = started = False
        from_assistant = [message.role == "assistant" for message in messages]
        for kind, index, pieces in segments:
            if not pieces:
                continue
            if index < 0:
                kind = Kind.PREFILL if started else Kind.DOCUMENT_START
                sampled = False
            else:
                started = True
                sampled = from_assistant[index] and kind in SAMPLED_KINDS
            if texts and (not self._joins or (sampled and not sampled_before)):
                self._write(texts, owners)
                texts, owners = [], []
            ids: list[int] = []
            segment = Segment(kind, index, ids)
            written.append(segment)
            for piece in pieces if self._spelled is None else _with_spelled(pieces, self._spelled):
                if isinstance(piece, str):
                    texts.append(piece)
                    owners.append(segment)
                    continue
                if texts:
                    self._write(texts, owners)
                    texts, owners = [], []
                ids.append(piece)
            sampled_before = sampled
        if texts:
            self._write(texts, owners)
        return written

    def _write(self, texts: list[str], owners: list[Segment]) -> None:
        """Encodes the texts as one, and gives each owner its ids."""
        last = owners[-1]
        if owners[0] is last:
            text = texts[0] if len(texts) == 1 else "".join(texts)
            last.token_ids.extend(self._own(text) if last.kind in _OWN_KINDS else self._encode(text))
            return
        whole = "".join(texts)
        ids = self._own(whole) if all(owner.kind in _OWN_KINDS for owner in owners) else self._encode(whole)
        start = 0
        text = ""
        for place, owner in enumerate(owners[:-1]):
            text += texts[place]
            if owners[place + 1] is not owner:
                stop = max(start, _shared(self._encode(text), ids))
                owner.token_ids.extend(ids[start:stop])
                start = stop
        last.token_ids.extend(ids[start:])

    def _own(self, text: str) -> list[int]:
        ids = self._known.get(text)
        if ids is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            ids = self._known[text] = self._encode(text)
        return ids


def _with_spelled(pieces: Iterable[int | str], spelled: ControlMatcher) -> Iterator[int | str]:
    """The pieces, with the ids of the control tokens that texts spell."""
    for piece in pieces:
        if not isinstance(piece, str):
            yield piece
            continue
        at = 0
        for start, stop, token_id in spelled.find(piece, ()):
            if at < start:
                yield piece[at:start]
            yield token_id
            at = stop
        if at < len(piece):
            yield piece[at:]


def _shared(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids two lists begin with alike."""
    for count, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return count
    return min(len(a), len(b))
