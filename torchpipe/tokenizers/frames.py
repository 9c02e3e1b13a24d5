"""What stands around the texts of a conversation, in ids: rendered once for all conversations of one outline."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from torchpipe.data.messages import Message
from torchpipe.tokenizers.backend import Backend, as_bytes, encode_texts
from torchpipe.tokenizers.chat_format import ChatFormat
from torchpipe.tokenizers.kinds import Kind, Segment
from torchpipe.tokenizers.render import MaskPolicy
from torchpipe.tokenizers.token_mask import TRAINED_KINDS

_MOST_FRAMES = 10_000
_IDS, _MASK = np.dtype(np.uint32), np.dtype(np.bool_)

Outline = tuple[object, ...]
"""The mask policy, whether the last message ends, and of each message in turn its role, masked, eot and ipython."""


class Frame(NamedTuple):
    """What a conversation's outline alone decides.

    Attributes:
        ids: bytes of uint32 before each text, and after the last.
        masks: a byte for each of these ids, 1 = not trained.
        text_masks: the byte of every token of each text.
        runs: each text in pieces, which are texts of the format and indices of messages, whose texts stand there; None
            where the texts are those of the messages.
    """

    ids: list[bytes]
    masks: list[bytes]
    text_masks: list[bytes]
    runs: list[tuple[str | int, ...]] | None = None

    def texts(self, own: list[str]) -> list[str]:
        """What is encoded, given the messages' texts."""
        if self.runs is None:
            return own
        return ["".join([piece if type(piece) is str else own[piece] for piece in run]) for run in self.runs]  # pyright: ignore[reportCallIssue, reportArgumentType]

    def filled(self, encoded: Sequence[memoryview]) -> tuple[np.ndarray, np.ndarray]:
        """Ids (uint32) and mask (bool), with the encoded texts, as bytes of uint32, in their places."""
        ids: list[bytes | memoryview] = [b""] * (2 * len(encoded) + 1)
        ids[::2] = self.ids
        ids[1::2] = encoded
        mask = [b""] * len(ids)
        mask[::2] = self.masks
        mask[1::2] = [flag * (len(text) // 4) for flag, text in zip(self.text_masks, encoded, strict=True)]
        return np.frombuffer(b"".join(ids), dtype=_IDS), np.frombuffer(b"".join(mask), dtype=_MASK)


class Frames:
    """Conversations of plain texts to ids and masks, by the frames of their outlines.

    A frame is what ``render`` makes of a conversation of empty texts. It holds for all others of that outline where
    what a format writes around texts does not depend on them: see :func:`has_frames`.

    Args:
        chat_format: the family.
        backend: ordinary text to ids.
        render: messages to segments; ``add_end_tokens=False`` leaves the last one open.
    """

    def __init__(self, chat_format: ChatFormat, backend: Backend, render: Callable[..., Sequence[Segment]]) -> None:
        self._strip = {"keep": None, "strip": str.strip, "strip_end_of_parts": _without_spaces_behind}[
            chat_format.whitespace
        ]
        self._split_at = tuple(control.text for control in chat_format.reasoning)
        self._backend = backend
        self._render = render
        self._frames: dict[Outline, Frame | None] = {}

    def fill(
        self, conversations: Sequence[Sequence[Message]], policy: MaskPolicy, *, ends: bool = True
    ) -> list[tuple[np.ndarray, np.ndarray] | None]:
        """Ids (uint32) of each conversation and its mask (bool, True = not trained), those of ``tokens_and_mask``.

        None where a message holds something else than one text that is encoded as a whole, or there is none. All texts
        are encoded at once. Without ``ends`` the last message stays open, for a model to go on from.

        Raises:
            DataError: the format has no place for a role.
            TokenizerError: the back end can't encode a text.
        """
        frames: list[Frame | None] = []
        texts: list[str] = []
        stops: list[int] = []  # where each conversation's texts end
        for messages in conversations:
            outline: list[object] = [policy, ends]
            own = self._own_texts(messages, outline)
            frame = self._frame_of(tuple(outline), messages, policy, ends) if own else None
            frames.append(frame)
            if frame is not None:
                texts += frame.texts(own)
            stops.append(len(texts))
        encoded = self._encoded(texts) if texts else ()
        return [
            None if frame is None else frame.filled(encoded[start:stop])
            for frame, start, stop in zip(frames, [0, *stops], stops, strict=False)
        ]

    def _encoded(self, texts: list[str]) -> Sequence[memoryview]:
        """The ids of texts. One that conversations share, as the two of a pair share their prompt, is encoded once."""
        unlike = {id(text): text for text in texts}
        given = list(unlike.values())
        if self._strip is not None:
            given = [self._strip(text) for text in given]
        encoded = encode_texts(self._backend, given)
        if len(given) == len(texts):
            return encoded
        found = dict(zip(unlike, encoded, strict=True))
        return [found[id(text)] for text in texts]

    def _own_texts(self, messages: Sequence[Message], outline: list[object]) -> list[str]:
        """The text of each message, whose outlines are added; none where one holds something else."""
        own: list[str] = []
        for message in messages:
            content = message.content
            if (
                len(content) != 1
                or content[0]["type"] != "text"
                or message.tool_calls
                or not (message.reasoning is message.name is message.weight is None)
            ):
                return []
            text = content[0]["content"]
            if self._split_at and message.role == "assistant" and any(mark in text for mark in self._split_at):
                return []
            outline += (message.role, message.masked, message.eot, message.ipython)
            own.append(text)
        return own

    def _frame_of(self, outline: Outline, messages: Sequence[Message], policy: MaskPolicy, ends: bool) -> Frame | None:
        if outline in self._frames:
            return self._frames[outline]
        if len(self._frames) >= _MOST_FRAMES:
            self._frames.clear()
        frame = self._frames[outline] = self._frame(messages, policy, ends)
        return frame

    def _frame(self, messages: Sequence[Message], policy: MaskPolicy, ends: bool) -> Frame | None:
        ids, masks, text_masks = [b""], [b""], []
        segments = self._render([message.with_content("") for message in messages], add_end_tokens=ends)
        for kind, index, token_ids in segments:
            masked = kind not in TRAINED_KINDS[policy] or messages[index].masked
            mask = b"\x01" if masked else b"\x00"
            if kind is Kind.CONTENT:
                text_masks.append(mask)
                ids.append(b"")
                masks.append(b"")
            else:
                ids[-1] += as_bytes(token_ids)
                masks[-1] += mask * len(token_ids)
        return Frame(ids, masks, text_masks)


def has_frames(chat_format: ChatFormat) -> bool:
    """Whether what a format writes around a text is the same whatever the text is, and each text is encoded apart."""
    return chat_format.layout is None and chat_format.dummy_prefix == "keep"


def _without_spaces_behind(text: str) -> str:
    return text.rstrip(" ")
