"""The one loop that writes a conversation as token ids, whatever the family."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Literal

from torchpipe._suggest import listed
from torchpipe.data.messages import Message
from torchpipe.data.unwritable import refuse_unwritable, with_known_roles
from torchpipe.errors import DataError, TokenizerError, UnwritableError
from torchpipe.tokenizers.arrange import arranged
from torchpipe.tokenizers.chat_format import ChatFormat, Control, Piece, Slot
from torchpipe.tokenizers.conversation import Conversation
from torchpipe.tokenizers.kinds import Kind, Segment
from torchpipe.tokenizers.layout import Turn

MaskPolicy = Literal["message", "sampled"]
"""Which tokens of a message that is to be trained are trained.

``"message"``: all of them, header included (torchtune's rule). ``"sampled"``: what the model itself would sample, so
not the header, which the prompt already holds at inference, and not what stands between turns. Under both, what starts
a document is not trained, nor what ends it after the turn's own end, nor what stands for an image.
"""

_SHORT_TEXT, _MAX_SHORT_TEXTS = 16, 1000
"""Of messages in several parts, so many texts of so few characters are encoded once and kept."""


class FormatEncoder:
    """A :class:`ChatFormat` bound to one tokenizer's ids. What does not depend on content is encoded once and kept.

    Args:
        chat_format: the family.
        encode: ordinary text to ids; it never returns a control token. It takes ``trim_leading_whitespace=True`` where
            the format's ``dummy_prefix`` says so.
        control_tokens: ids of at least the control tokens that the format writes.

    Raises:
        TokenizerError: the format writes a control token that has no id.
    """

    def __init__(
        self, chat_format: ChatFormat, encode: Callable[..., list[int]], control_tokens: Mapping[str, int]
    ) -> None:
        self.chat_format = chat_format
        self._encode = encode
        self._control_tokens = control_tokens
        self._headers: dict[str, list[int]] = {}
        self._short_texts: dict[tuple[str, bool], list[int]] = {}
        self.control_texts: set[str] = set()
        self.document_start = self._fill(chat_format.document_start)
        self.call_prefix = self._fill(chat_format.call_prefix)
        self.call_suffix = self._fill(chat_format.call_suffix)
        self.turn_end = self._fill(chat_format.turn_end)
        self.turn_end_more = self._fill_or(chat_format.turn_end_more, self.turn_end)
        self.last_turn_end = self._fill_or(chat_format.last_turn_end, [])
        self.separator = self._fill(chat_format.separator)
        self.document_end = self._fill(chat_format.document_end)
        self.result_prefix = self._fill(chat_format.result_prefix)
        self.next_result_prefix = self._fill((*chat_format.result_separator, *chat_format.result_prefix))
        self.result_suffix = self._fill(chat_format.result_suffix)
        self.has_turns = bool(chat_format.header or chat_format.turn_end or chat_format.layout)
        self.turn_ends = {role: self._fill(pieces) for role, pieces in chat_format.turn_ends.items()}
        self.trims = chat_format.dummy_prefix != "keep"
        self.trims_all = chat_format.dummy_prefix == "trim"
        self._reasoning = {control.text: self.control_id(control) for control in chat_format.reasoning}
        self._reasoning_split = re.compile(f"({'|'.join(map(re.escape, self._reasoning))})")
        for role in chat_format.roles:  # a control token that is missing is reported here, not at the first row
            self.header(role)

    def header(self, role: str) -> list[int]:
        """Ids that open a message of ``role``. The list is shared: don't change it."""
        if role not in self._headers:
            self._headers[role] = self._fill(self.chat_format.headers.get(role, self.chat_format.header), role)
        return self._headers[role]

    def header_of(self, message: Message | Turn) -> list[int]:
        """Ids that open a message, or a turn that may have a header of its own."""
        own = message.header if isinstance(message, Turn) else None
        return self.header(message.role) if own is None else self._fill(own)

    def end_of(self, message: Message | Turn) -> list[int]:
        """Ids that end a message, or a turn that may have an end of its own."""
        own = message.end if isinstance(message, Turn) else None
        if own is not None:
            return self._fill(own)
        if message.role in self.turn_ends:
            return self.turn_ends[message.role]
        return self.turn_end if message.eot else self.turn_end_more

    def refuse_role(self, message: Message, index: int) -> None:
        """Raises the error of a message whose role has no place in the format.

        Raises:
            DataError: always.
        """
        raise UnwritableError(
            f"Message {index} is a {message.role!r} message, and the {self.chat_format.name} format has no place for "
            f"one: it has {listed(self.chat_format.roles)}. Change the role in a message transform, or drop the row "
            "with filter_fn."
        )

    def is_result(self, message: Message | Turn) -> bool:
        """Whether the message is the result of a call, in a format that marks results."""
        return bool(self.result_prefix) and message.role in ("tool", "ipython")

    def add_content(self, segments: list[Segment], message: Message | Turn, index: int, trim: bool) -> None:
        """Adds a message's texts and images in order. Texts with no image between them are taken together.

        Args:
            segments: what they are added to.
            message: the message. Its text parts are encoded apart, as one text where white space is stripped.
            index: its place in the conversation.
            trim: leave out the space that the model puts before a text.

        Raises:
            DataError: the message holds an image, and the format has no place for one.
        """
        if isinstance(message, Turn):
            segments += [Segment(kind, of, self._fill(pieces)) for kind, of, pieces in message.parts]
            return
        texts = [part["content"] for part in message.content if part["type"] == "text"]
        if len(texts) == len(message.content):
            segments.append(Segment(Kind.CONTENT, index, self._texts(texts, message.role, trim)))
            return
        image = self.chat_format.image
        if image is None:
            raise UnwritableError(
                f"Message {index} ({message.role}) holds an image, and the {self.chat_format.name} text format has no "
                "place for one. Drop the row with filter_fn, or use a multimodal transform."
            )
        for is_image, run in groupby(message.content, key=lambda part: part["type"] == "image"):
            if is_image:
                segments += [Segment(Kind.MEDIA, index, self._fill(image(part))) for part in run]
            else:
                texts = [part["content"] for part in run]
                segments.append(Segment(Kind.CONTENT, index, self._texts(texts, message.role, trim)))

    def _texts(self, texts: list[str], role: str, trim: bool) -> list[int]:
        whitespace = self.chat_format.whitespace
        if whitespace == "strip_end_of_parts":
            texts = [text.rstrip(" ") for text in texts]
        elif whitespace == "strip":
            texts = _stripped(texts)
        if self._reasoning and role == "assistant":
            return [token_id for text in texts for token_id in self._with_reasoning(text)]
        if len(texts) == 1:
            return self._encode(texts[0], trim_leading_whitespace=True) if trim else self._encode(texts[0])
        ids: list[int] = []
        for text in texts:
            ids += self._encode_part(text, trim)
        return ids

    def _encode_part(self, text: str, trim: bool) -> list[int]:
        # A prompt template writes the same few short texts around every message.
        is_short = len(text) <= _SHORT_TEXT
        if is_short and (text, trim) in self._short_texts:
            return self._short_texts[text, trim]
        ids = self._encode(text, trim_leading_whitespace=True) if trim else self._encode(text)
        if is_short and len(self._short_texts) < _MAX_SHORT_TEXTS:
            self._short_texts[text, trim] = ids
        return ids

    def control_id(self, control: Control) -> int:
        """The id of a control token that the format writes.

        Raises:
            TokenizerError: it has none.
        """
        token_id = self._control_tokens.get(control.text)  # the first of its names, mostly
        if token_id is None:
            token_id = control.id_in(self._control_tokens)
        if token_id is None:
            raise TokenizerError(
                f"The {self.chat_format.name} format writes {control.text!r}, which is not among the tokenizer's "
                f"{len(self._control_tokens)} control tokens. Is it the tokenizer file of another family?"
            )
        return token_id

    def writes(self, token_id: int) -> bool:
        """Whether the id is among those that end a turn or a document."""
        ends = (self.turn_end, self.last_turn_end, self.document_end, *self.turn_ends.values())
        return any(token_id in ids for ids in ends)

    def _with_reasoning(self, text: str) -> Iterator[int]:
        for piece in self._reasoning_split.split(text):
            if piece in self._reasoning:
                yield self._reasoning[piece]
            else:
                yield from self._encode(piece)

    def _fill(self, pieces: Sequence[Piece], role: str = "") -> list[int]:
        ids: list[int] = []
        text = ""
        name = self.chat_format.role_names.get(role, role)
        for piece in pieces:
            if isinstance(piece, str):
                text += piece
            elif piece is Slot.ROLE:
                text += name
            else:
                control = piece if isinstance(piece, Control) else Control(name)
                if control.text not in self.control_texts:
                    self.control_texts.update((control.text, *control.aliases))
                ids += [*self._encode(text), self.control_id(control)] if text else [self.control_id(control)]
                text = ""
        return ids + self._encode(text) if text else ids

    def _fill_or(self, pieces: Sequence[Piece] | None, otherwise: list[int]) -> list[int]:
        return otherwise if pieces is None else self._fill(pieces)


def _stripped(texts: Sequence[str]) -> list[str]:
    """The texts without the white space that their whole begins and ends with."""
    if len(texts) == 1:
        return [texts[0].strip()]
    kept = list(texts)
    while kept and not kept[0].strip():
        del kept[0]
    while kept and not kept[-1].strip():
        del kept[-1]
    if kept:
        kept[0] = kept[0].lstrip()
        kept[-1] = kept[-1].rstrip()
    return kept


def render(
    messages: Sequence[Message],
    encoder: FormatEncoder,
    *,
    add_start_tokens: bool = True,
    add_end_tokens: bool = True,
    conversation: Conversation | None = None,
) -> list[Segment]:
    """The conversation as segments, in order.

    Args:
        messages: the conversation.
        encoder: the family, bound to a tokenizer.
        add_start_tokens: False leaves out what starts the first document.
        add_end_tokens: False leaves the last message open (no turn end, no document end), for a model to go on from.
        conversation: the messages with what else a format with a layout writes; it takes the place of ``messages``.

    Raises:
        DataError: there are no messages, or one that the format can't write.
    """
    chat_format = encoder.chat_format
    if not messages:
        raise DataError("The conversation has no messages. Drop such rows with a filter_fn.", reason="empty")
    segments: list[Segment] = []
    before: Message | Turn | None = None
    turns: Sequence[Message | Turn]
    if conversation is not None:
        turns = arranged(conversation, chat_format)
    else:
        turns = with_known_roles(messages, chat_format.roles, format_name=chat_format.name)
    last = len(turns) - 1
    for position, message in enumerate(turns):
        from_assistant = message.role == "assistant"
        if isinstance(message, Turn):
            index = message.message
        else:
            index = position
            if message.role not in chat_format.roles:
                encoder.refuse_role(message, index)
            refuse_unwritable(message, index, format_name=chat_format.name)
        starts_exchange = before is None or before.role == "assistant"
        if starts_exchange and (add_start_tokens if before is None else chat_format.document_per_exchange):
            segments.append(Segment(Kind.DOCUMENT_START, -1, encoder.document_start))
        if encoder.has_turns or message.ipython:
            _open(segments, message, index, before, encoder)
        trim = encoder.trims and (encoder.trims_all or not (starts_exchange or _ends_in_space(before)))
        encoder.add_content(segments, message, index, trim)
        if position < last:
            if encoder.has_turns or from_assistant:
                _close(segments, message, index, turns[position + 1], encoder)
        elif add_end_tokens:
            _end(segments, message, index, encoder)
        elif chat_format.closes_prompt and not from_assistant:
            _close(segments, message, index, None, encoder)
        before = message
    return segments


def _open(
    segments: list[Segment], message: Message | Turn, index: int, before: Message | Turn | None, encoder: FormatEncoder
) -> None:
    """Adds what stands before a message's content."""
    is_result = encoder.is_result(message)
    shares_turn = is_result and before is not None and encoder.is_result(before)
    if not shares_turn:
        segments.append(Segment(Kind.HEADER, index, encoder.header_of(message)))
    if is_result:
        prefix = encoder.next_result_prefix if shares_turn else encoder.result_prefix
        segments.append(Segment(Kind.HEADER, index, prefix))
    if message.ipython:
        segments.append(Segment(Kind.CALL_PREFIX, index, encoder.call_prefix))


def _close(
    segments: list[Segment], message: Message | Turn, index: int, after: Message | Turn | None, encoder: FormatEncoder
) -> None:
    """Adds what stands after the content of a message that the conversation goes on from."""
    _add_suffix(segments, message, index, encoder)
    if after is not None and encoder.is_result(message) and encoder.is_result(after):
        return
    segments.append(Segment(Kind.TURN_END, index, encoder.end_of(message)))
    if encoder.separator:
        segments.append(Segment(Kind.SEPARATOR, index, encoder.separator))
    if encoder.chat_format.document_per_exchange and message.role == "assistant":
        segments.append(_document_end(index, encoder))


def _end(segments: list[Segment], message: Message | Turn, index: int, encoder: FormatEncoder) -> None:
    """Adds what stands after the content of the last message."""
    chat_format = encoder.chat_format
    _add_suffix(segments, message, index, encoder)
    turn_end = encoder.end_of(message)
    if chat_format.last_turn_end is not None:
        turn_end = encoder.last_turn_end
    segments.append(Segment(Kind.TURN_END, index, turn_end))
    if chat_format.separator_after_last:
        segments.append(Segment(Kind.SEPARATOR, index, encoder.separator))
    if message.role == "assistant" or not chat_format.document_per_exchange:
        segments.append(_document_end(index, encoder))


def _add_suffix(segments: list[Segment], message: Message | Turn, index: int, encoder: FormatEncoder) -> None:
    if message.ipython:
        segments.append(Segment(Kind.CALL_SUFFIX, index, encoder.call_suffix))
    elif encoder.is_result(message):
        segments.append(Segment(Kind.TURN_END, index, encoder.result_suffix))


def _document_end(index: int, encoder: FormatEncoder) -> Segment:
    # A document's end that is the turn's only end is what the model samples to stop.
    kind, message = (Kind.DOCUMENT_END, -1) if encoder.turn_end else (Kind.TURN_END, index)
    return Segment(kind, message, encoder.document_end)


def _ends_in_space(message: Message | Turn | None) -> bool:
    """Whether the last text part ends in a space."""
    return isinstance(message, Message) and bool(message.content) and message.content[-1]["content"].endswith(" ")
