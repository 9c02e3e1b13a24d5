"""The one loop that writes a conversation as token ids, whatever the family."""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Literal, NamedTuple

from torchpipe.data.messages import Message
from torchpipe.errors import DataError, TokenizerError
from torchpipe.tokenizers.chat_format import ChatFormat, Control, Piece, Slot

MaskPolicy = Literal["message", "sampled"]
"""Which tokens of a message that is to be trained are trained.

``"message"``: all of them, header included (torchtune's rule). ``"sampled"``: what the model itself would sample, so
not the header, which the prompt already holds at inference. Under both, what starts and ends the document is not
trained.
"""


class Kind(Enum):
    """What a run of tokens is."""

    DOCUMENT_START = "document_start"
    HEADER = "header"
    CALL_PREFIX = "call_prefix"
    CONTENT = "content"
    TURN_END = "turn_end"
    DOCUMENT_END = "document_end"


_TRAINED_KINDS: Mapping[MaskPolicy, frozenset[Kind]] = {
    "message": frozenset({Kind.HEADER, Kind.CALL_PREFIX, Kind.CONTENT, Kind.TURN_END}),
    "sampled": frozenset({Kind.CALL_PREFIX, Kind.CONTENT, Kind.TURN_END}),
}


class Segment(NamedTuple):
    """A run of tokens of one kind; ``message`` is the index of the message it belongs to, -1 for the document's own."""

    kind: Kind
    message: int
    token_ids: list[int]


class FormatEncoder:
    """A :class:`ChatFormat` bound to one tokenizer's ids. What does not depend on content is encoded once and kept.

    Args:
        chat_format: the family.
        encode: ordinary text to ids; it never returns a control token.
        control_tokens: ids of at least the control tokens that the format writes.

    Raises:
        TokenizerError: the format writes a control token that has no id.
    """

    def __init__(
        self, chat_format: ChatFormat, encode: Callable[[str], list[int]], control_tokens: Mapping[str, int]
    ) -> None:
        self.chat_format = chat_format
        self._encode = encode
        self._control_tokens = control_tokens
        self._headers: dict[str, list[int]] = {}
        self.document_start = self._fill(chat_format.document_start)
        self.call_prefix = self._fill(chat_format.call_prefix)
        self.turn_end = self._fill(chat_format.turn_end)
        self.turn_end_more = self._fill(chat_format.turn_end_more)
        self.document_end = self._fill(chat_format.document_end)
        self.header("user")  # a control token that is missing is reported here, not at the first row

    def header(self, role: str) -> list[int]:
        """Ids that open a message of ``role``. The list is shared: don't change it."""
        if role not in self._headers:
            self._headers[role] = self._fill(self.chat_format.header, role)
        return self._headers[role]

    def content(self, message: Message, index: int) -> list[int]:
        """Ids of a message's text. Its text parts are one text: they are joined before white space is stripped.

        Raises:
            DataError: the message holds something other than text.
        """
        if message.contains_media:
            raise DataError(
                f"Message {index} ({message.role}) holds an image, and the {self.chat_format.name} text format has no "
                "place for one. Drop the row with filter_fn, or use a multimodal transform."
            )
        text = message.text_content
        return self._encode(text.strip() if self.chat_format.strip_content else text)

    def _fill(self, pieces: Sequence[Piece], role: str = "") -> list[int]:
        ids: list[int] = []
        text = ""
        for piece in pieces:
            if isinstance(piece, Control):
                ids += [*self._encode(text), self._control_id(piece.text)]
                text = ""
            else:
                text += self.chat_format.role_names.get(role, role) if piece is Slot.ROLE else str(piece)
        return ids + self._encode(text)

    def _control_id(self, text: str) -> int:
        if text not in self._control_tokens:
            raise TokenizerError(
                f"The {self.chat_format.name} format writes {text!r}, which is not among the tokenizer's "
                f"{len(self._control_tokens)} control tokens. Is it the tokenizer file of another family?"
            )
        return self._control_tokens[text]


def render(messages: Sequence[Message], encoder: FormatEncoder, *, add_end_tokens: bool = True) -> list[Segment]:
    """The conversation as segments, in order.

    Args:
        messages: the conversation.
        encoder: the family, bound to a tokenizer.
        add_end_tokens: False leaves the last message open (no turn end, no document end), for a model to go on from.
    """
    segments = [Segment(Kind.DOCUMENT_START, -1, encoder.document_start)]
    last = len(messages) - 1
    for index, message in enumerate(messages):
        segments.append(Segment(Kind.HEADER, index, encoder.header(message.role)))
        if message.ipython:
            segments.append(Segment(Kind.CALL_PREFIX, index, encoder.call_prefix))
        segments.append(Segment(Kind.CONTENT, index, encoder.content(message, index)))
        if add_end_tokens or index < last:
            turn_end = encoder.turn_end if message.eot else encoder.turn_end_more
            segments.append(Segment(Kind.TURN_END, index, turn_end))
    if add_end_tokens:
        segments.append(Segment(Kind.DOCUMENT_END, -1, encoder.document_end))
    return segments


def tokens_and_mask(
    segments: Sequence[Segment], messages: Sequence[Message], policy: MaskPolicy
) -> tuple[list[int], list[bool]]:
    """Ids and mask of equal length; True = not trained."""
    tokens: list[int] = []
    mask: list[bool] = []
    trained_kinds = _TRAINED_KINDS[policy]
    for kind, index, token_ids in segments:
        tokens += token_ids
        mask += [kind not in trained_kinds or messages[index].masked] * len(token_ids)
    return tokens, mask
