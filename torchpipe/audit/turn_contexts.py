"""The contexts of an assistant's turns: as they are trained, and as a server feeds them."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from torchpipe.audit.origin import Conversation
from torchpipe.audit.pieces import Piece, Pieces
from torchpipe.data.messages import Message
from torchpipe.data.trace import Origin as TokenOrigin
from torchpipe.data.trace import TokenTrace
from torchpipe.errors import ConfigError, TorchpipeError
from torchpipe.tokenizers import ChatFormatTokenizer, ChatTemplateTokenizer, PublisherFormatTokenizer

_NOT_IN_REPLY = ("header", "prefill", "separator")


@dataclass(frozen=True, kw_only=True)
class TurnContext:
    """The context of one assistant turn, in training and at inference.

    Attributes:
        message: the turn's message.
        proof: how it is known what the model samples in it: "causal", "exact", "none"; "" for formats of the table,
            which write a turn in one way only.
        unproved: what stands in the way of a proof; "" where nothing does.
        num_trained_on: tokens of the row before the reply; num_fed: tokens that the server feeds.
        differs_at: the first token at which the two are not the same, or where one ends; None where they are the same.
        differs_in: the message that the row's token there belongs to; -1 for the document's own, None where the row's
            context ends there.
        row_context: the row's tokens from there on, up to the reply; sampled: those of the reply itself.
        server_context: the rest of what the server feeds.
        same_text: whether the texts are the same, and only cut into other tokens.
        option: the template's option, and its value, with which the server feeds what the row has; None where no
            option does, or none is needed.
        fault: why there is nothing to compare with, as words; "" where there is.
    """

    message: int
    proof: str = ""
    unproved: str = ""
    num_trained_on: int = 0
    num_fed: int = 0
    differs_at: int | None = None
    differs_in: int | None = None
    row_context: tuple[Piece, ...] = ()
    sampled: tuple[Piece, ...] = ()
    server_context: tuple[Piece, ...] = ()
    same_text: bool = False
    option: tuple[str, bool] | None = None
    fault: str = ""

    @property
    def same(self) -> bool:
        """Whether the server feeds what the row has before the reply, token by token."""
        return self.differs_at is None and not self.fault


Written = tuple[list[int], TokenTrace]


@dataclass(frozen=True, kw_only=True)
class ContextWriter:
    """Writes conversations as they are trained, and as a server feeds them.

    Attributes:
        row: a conversation's tokens and trace.
        prompt: what a server feeds for the reply to some messages; with a template's option, if one is given.
        options: the template's options that may change the prompt, in the order in which they are tried.
        pieces: tokens as what they stand for.
    """

    row: Callable[[Conversation], Written]
    prompt: Callable[[Conversation, tuple[str, bool] | None], list[int]]
    options: Callable[[Conversation], Sequence[tuple[str, bool]]]
    pieces: Pieces

    @classmethod
    def of(cls, tokenizer: Any) -> "ContextWriter":
        """The writer of a tokenizer.

        Raises:
            ConfigError: it is of another kind.
        """
        if isinstance(tokenizer, ChatTemplateTokenizer):
            return _template_writer(tokenizer)
        if isinstance(tokenizer, ChatFormatTokenizer):
            return _format_writer(tokenizer)
        raise ConfigError(
            f"explain --inference knows what a server feeds for chat templates and for the formats of the table, and "
            f"the tokenizer is a {type(tokenizer).__name__}."
        )

    def turns(self, conversation: Conversation) -> list[TurnContext]:
        """The assistant's turns of a conversation."""
        tokens, trace = self.row(conversation)
        messages = conversation.messages
        places = [index for index, message in enumerate(messages) if message.role == "assistant"]
        return [self._turn(conversation, index, tokens, trace) for index in places]

    def _turn(self, conversation: Conversation, index: int, tokens: list[int], trace: TokenTrace) -> TurnContext:
        reply = _reply(trace, index)
        if not reply:
            return TurnContext(message=index, fault="nothing of it is in the row")
        start, stop = reply.start, reply.stop
        origin = trace[start]
        unproved = _why_unproved(origin)
        before = Conversation(conversation.messages[:index], conversation.tools)
        try:
            fed = self.prompt(before, None)
        except TorchpipeError as error:
            fault = f"a server can't write what stands before it: {error}"
            return TurnContext(message=index, proof=origin.proof, unproved=unproved, fault=fault)
        known = TurnContext(
            message=index, proof=origin.proof, unproved=unproved, num_trained_on=start, num_fed=len(fed)
        )
        at = _first_difference(tokens[:start], fed)
        if at is None:
            return known
        pieces, fed_pieces = self.pieces(tokens), self.pieces(fed)
        return TurnContext(
            message=index,
            proof=origin.proof,
            unproved=unproved,
            num_trained_on=start,
            num_fed=len(fed),
            differs_at=at,
            differs_in=int(trace.message[at]) if at < start else None,
            row_context=tuple(pieces[at:start]),
            sampled=tuple(pieces[start:stop]),
            server_context=tuple(fed_pieces[at:]),
            same_text=_text(pieces[:start]) == _text(fed_pieces),
            option=self._option(before, tokens, start, bool(unproved)),
        )

    def _option(self, before: Conversation, tokens: list[int], start: int, unproved: bool) -> tuple[str, bool] | None:
        for option in self.options(before):
            try:
                fed = self.prompt(before, option)
            except TorchpipeError:
                continue
            if tokens[: len(fed)] == fed and (unproved or len(fed) == start):
                return option
        return None


def _template_writer(tokenizer: ChatTemplateTokenizer) -> ContextWriter:
    whole = copy(tokenizer)
    whole.max_seq_len = None
    whole.on_unproved = "common_prefix"

    def row(conversation: Conversation) -> Written:
        shown = [copy(message) for message in conversation.messages]
        for message in shown:
            message.masked = message.role != "assistant"  # the tokens are the same; all turns are told of
        tokens, _, trace = whole.tokenize_messages(shown, conversation.tools, trace=True)
        return tokens, trace

    def prompt(conversation: Conversation, option: tuple[str, bool] | None) -> list[int]:
        server = copy(whole)
        if option is not None:
            server.template_kwargs = {**whole.template_kwargs, option[0]: option[1]}
        return server.tokenize_messages(conversation.messages, conversation.tools, add_generation_prompt=True)[0]

    def options(conversation: Conversation) -> list[tuple[str, bool]]:
        template = whole.tool_template if conversation.tools else whole.chat_template
        names = sorted(template.thinking_options)
        return [(name, value) for name in names for value in (True, False) if whole.template_kwargs.get(name) != value]

    return ContextWriter(row=row, prompt=prompt, options=options, pieces=Pieces(tokenizer))


def _format_writer(tokenizer: ChatFormatTokenizer) -> ContextWriter:
    whole = copy(tokenizer)
    whole.max_seq_len = None
    if isinstance(whole, PublisherFormatTokenizer):
        whole.on_unproved = "common_prefix"

    def row(conversation: Conversation) -> Written:
        template = whole.prompt_template
        if template is not None:
            num_written = len(template(list(conversation.messages), inference=False))
            if num_written != len(conversation.messages):
                raise ConfigError(
                    f"The prompt template makes {num_written} messages of {len(conversation.messages)}, so explain "
                    "--inference can't tell which reply is whose."
                )
        tools = {"tools": conversation.tools} if conversation.tools else {}
        tokens, _, trace = whole.tokenize_messages(conversation.messages, trace=True, **tools)
        return tokens, trace

    def prompt(conversation: Conversation, option: tuple[str, bool] | None) -> list[int]:
        if isinstance(whole, PublisherFormatTokenizer):
            return whole.tokenize_messages(conversation.messages, conversation.tools, add_generation_prompt=True)[0]
        open_turn = [*conversation.messages, Message("assistant", "")]
        return whole.tokenize_messages(open_turn, add_end_tokens=False)[0]

    return ContextWriter(row=row, prompt=prompt, options=lambda conversation: (), pieces=Pieces(tokenizer))


def _reply(trace: TokenTrace, message: int) -> range:
    """The tokens of a turn that are sampled; of a turn that has no such span in the row, those from its first string
    on.
    """
    own = [(place, trace[place]) for place in (trace.message == message).nonzero()[0].tolist()]
    told = [place for place, origin in own if origin.proof]
    by_kind = [place for place, origin in own if origin.kind not in _NOT_IN_REPLY and (origin.part or origin.start < 0)]
    places = told or by_kind
    return range(places[0], places[-1] + 1) if places else range(0)


def _why_unproved(origin: TokenOrigin) -> str:
    if origin.proof == "none":
        return origin.reason.removeprefix("unproved: ")
    if not origin.proof and origin.start >= 0:
        return "a server writes the messages before it in another way"
    return ""


def _first_difference(row: list[int], fed: list[int]) -> int | None:
    if row == fed:
        return None
    shorter = min(len(row), len(fed))
    return next((place for place in range(shorter) if row[place] != fed[place]), shorter)


def _text(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)
