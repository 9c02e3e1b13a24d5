"""Frames of formats with a layout, which encode a text with what the format writes beside it, up to a control token."""

import re
from collections.abc import Callable, Sequence
from typing import cast

from torchpipe.data.messages import RESULT_ROLES, Message
from torchpipe.tokenizers.backend import Backend, as_bytes
from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.conversation import SYSTEM_ROLES
from torchpipe.tokenizers.frames import Frame, Frames
from torchpipe.tokenizers.joined_text import JoinedTextEncoder
from torchpipe.tokenizers.kinds import Segment
from torchpipe.tokenizers.render import MaskPolicy
from torchpipe.tokenizers.token_mask import TRAINED_KINDS

_FIRST_PLACE = 0xF0000
"""Where Unicode's private use begins. A character of it stands for each message's text while a frame is made."""
_MOST_MESSAGES = 0xFFFE

Write = Callable[[Sequence[Message]], Sequence[Segment] | None]


class JoinedFrames(Frames):
    """Conversations of plain texts to ids and masks, in a format whose layout has ``text_marks``.

    Args:
        chat_format: the family.
        backend: ordinary text to ids.
        write: messages to segments in which texts are texts, and ids those of control tokens; None where the format
            leaves something of them out.
    """

    def __init__(self, chat_format: ChatFormat, backend: Backend, write: Write) -> None:
        super().__init__(chat_format, backend, lambda messages, **_: write(messages) or ())
        layout = chat_format.layout
        assert layout is not None
        assert layout.text_marks is not None
        self._write = write
        self._strip = None
        self._split_at = ()
        self._marks = layout.text_marks
        self._joins = layout.joins_texts
        self._strips = layout.strips
        self._strips_system = layout.strips if layout.strips_system is None else layout.strips_system

    def _own_texts(self, messages: Sequence[Message], outline: list[object]) -> list[str]:
        own = super()._own_texts(messages, outline)
        if len(own) > _MOST_MESSAGES:
            return []
        for index, text in enumerate(own):
            role = messages[index].role
            bare = text.strip()
            if bare != text:
                if not (self._strips_system if role in SYSTEM_ROLES else self._strips):
                    return []
                own[index] = bare
            if not bare or role in RESULT_ROLES:
                return []
            for mark in self._marks:
                if mark in text:
                    return []
        return own

    def _frame(self, messages: Sequence[Message], policy: MaskPolicy, ends: bool) -> Frame | None:
        """None where something is left out, a text has no one place, or what is encoded as one is trained in part."""
        segments = self._write([message.with_content(chr(_FIRST_PLACE + i)) for i, message in enumerate(messages)])
        if segments is None:
            return None
        runs: list[tuple[str | int, ...]] = []
        frame = Frame([b""], [b""], [], runs)
        characters = ""
        run_masks: set[bytes] = set()
        for kind, index, pieces in JoinedTextEncoder(_characters, joins=self._joins)(segments, messages):
            mask = b"\x01" if kind not in TRAINED_KINDS[policy] or messages[index].masked else b"\x00"
            for piece in cast("list[str | int]", pieces):
                if isinstance(piece, int):
                    frame.ids[-1] += as_bytes([piece])
                    frame.masks[-1] += mask
                    continue
                run_masks.add(mask)
                characters += piece
                if piece:
                    continue
                if len(run_masks) > 1:
                    return None
                run = _pieces(characters, len(messages))
                if any(isinstance(part, int) for part in run):
                    runs.append(run)
                    frame.text_masks.append(run_masks.pop())
                    frame.ids.append(b"")
                    frame.masks.append(b"")
                else:
                    ids = self._backend.encode(characters)
                    frame.ids[-1] += as_bytes(ids)
                    frame.masks[-1] += run_masks.pop() * len(ids)
                characters = ""
        written = [part for run in runs for part in run if isinstance(part, int)]
        return frame if sorted(written) == list(range(len(messages))) else None


def _characters(text: str) -> list[int]:
    """The characters in place of the ids, and an empty text where they end: what is encoded as one text."""
    return cast("list[int]", [*text, ""])


def _pieces(text: str, num_messages: int) -> tuple[str | int, ...]:
    """The text, cut at the characters that stand for messages, whose indices are put in their place."""
    places = f"([{chr(_FIRST_PLACE)}-{chr(_FIRST_PLACE + num_messages - 1)}])"
    parts = re.split(places, text)
    return tuple(ord(part) - _FIRST_PLACE if number % 2 else part for number, part in enumerate(parts) if part)


def has_joined_frames(chat_format: ChatFormat) -> bool:
    """Whether what a format with a layout writes around a text is the same whatever the text is."""
    return chat_format.layout is not None and chat_format.layout.text_marks is not None
