"""Token ids as what they stand for: control tokens, text, and bytes that are only a part of a character."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchpipe.audit.visible import visible, visible_bytes

CONTINUED = "⟨…⟩"
"""Shown for a token that adds bytes to a character whose bytes the tokenizer doesn't tell."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One token.

    Attributes:
        text: what the token stands for. A character that several tokens share is the text of the first of them, and
            the others have none, so the texts of a row joined are the row.
        shown: the token, safe to print, with everything visible (see :mod:`torchpipe.audit.visible`).
        control: whether it is a control token; text never is, whatever it spells.
        part_of: where it shares a character with others: how many tokens before it the first of them stands.
        raw: its bytes where the tokenizer tells them.
    """

    text: str
    shown: str
    control: bool = False
    part_of: int | None = None
    raw: bytes | None = None


class Pieces:
    """Ids to :class:`Piece` s, for one tokenizer.

    Args:
        tokenizer: anything with ``decode``; ``special_tokens`` (text to id) and ``token_bytes`` (id to bytes or None)
            are used where it has them.
        decode: ids to text; None: the tokenizer's own.
    """

    def __init__(self, tokenizer: Any, decode: Callable[[Sequence[int]], str] | None = None) -> None:
        self._control = _control_texts(getattr(tokenizer, "special_tokens", None))
        self._bytes: Callable[[int], bytes | None] = getattr(tokenizer, "token_bytes", None) or (lambda token_id: None)
        self._decode = decode or whole_decoder(tokenizer)

    def __call__(self, token_ids: Sequence[int]) -> list[Piece]:
        """One piece a token."""
        pieces: list[Piece] = []
        run: list[int] = []
        for token_id in token_ids:
            if token_id not in self._control:
                run.append(token_id)
                continue
            pieces += self._ordinary(run)
            run = []
            pieces.append(control_piece(self._control[token_id]))
        return [*pieces, *self._ordinary(run)]

    def _ordinary(self, run: list[int]) -> Iterator[Piece]:
        data = [self._bytes(token_id) for token_id in run]
        known = [item for item in data if item is not None]
        return _from_bytes(known) if len(known) == len(run) else self._from_text(run)

    def _from_text(self, run: list[int]) -> Iterator[Piece]:
        """By decoding: what a token adds to the text of those before it is its own.

        A tokenizer may write a token differently at the start of a text, so each is decoded behind the one before.
        """
        before: list[int] = []
        group: list[int] = []
        for place, token_id in enumerate(run, start=1):
            group.append(token_id)
            text = self._added(before, group)
            if text is None:
                yield from (Piece(text="", shown=f"⟨id {member}⟩") for member in group)
                before, group = [], []
            elif not text.endswith("\ufffd") or len(group) == _MOST_PARTS or place == len(run):
                yield from _shared(text, len(group))
                before, group = group, []

    def _added(self, before: list[int], group: list[int]) -> str | None:
        try:
            behind, both = self._decode(before), self._decode([*before, *group])
            return both[len(behind) :] if both.startswith(behind) else self._decode(group)
        except Exception:  # an id that the vocabulary doesn't have, in the decoder's own kind of error
            return None


_MOST_PARTS = 8  # tokens that may share a character before it is taken for one that never ends


def control_piece(text: str) -> Piece:
    """A control token, in brackets that text can't hold."""
    return Piece(text=text, shown=f"⟦{visible(text)}⟧", control=True)


def whole_decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """The tokenizer's ``decode``, told to leave nothing out where it has such switches."""
    decode = tokenizer.decode
    try:
        parameters = inspect.signature(decode).parameters
    except (TypeError, ValueError):
        parameters = {}
    switches = {
        name: False
        for name in ("truncate_at_eos", "skip_special_tokens", "clean_up_tokenization_spaces")
        if name in parameters
    }
    return lambda token_ids: decode(list(token_ids), **switches)


def _control_texts(special_tokens: Any) -> dict[int, str]:
    if not isinstance(special_tokens, Mapping):
        return {}
    return {token_id: str(text) for text, token_id in special_tokens.items() if isinstance(token_id, int)}


def _shared(text: str, num_tokens: int) -> Iterator[Piece]:
    if num_tokens == 1:
        yield Piece(text=text, shown=visible(text))
        return
    yield Piece(text=text, shown=visible(text), part_of=0)
    yield from (Piece(text="", shown=CONTINUED, part_of=place) for place in range(1, num_tokens))


def _from_bytes(data: Sequence[bytes]) -> Iterator[Piece]:
    group: list[bytes] = []
    for item in data:
        group.append(item)
        try:
            b"".join(group).decode("utf-8")
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and len(group) < _MOST_PARTS:
                continue
        yield from _group(group)
        group = []
    yield from _group(group)


def _group(group: Sequence[bytes]) -> Iterator[Piece]:
    whole = b"".join(group)
    text = whole.decode("utf-8", "replace")
    if len(group) == 1:
        yield Piece(text=text, shown=visible_bytes(whole), raw=whole)
        return
    ends: dict[int, str] = {}  # end of a character in bytes -> the character
    start = 0
    for character in whole.decode("utf-8", "surrogateescape"):
        size = len(character.encode("utf-8", "surrogateescape"))
        ends[start + size] = character
        start += size
    at = 0
    for place, item in enumerate(group):
        shown = visible_bytes(item)
        # The character whose last byte came with this token, and whose first with an earlier one.
        for end in range(at + 1, at + len(item) + 1):
            character = ends.get(end)
            if character is not None and end - len(character.encode("utf-8", "surrogateescape")) < at:
                shown += f"⟨={visible(character).strip('⟨⟩')}⟩"
        at += len(item)
        yield Piece(text=text if place == 0 else "", shown=shown, part_of=place, raw=item)
