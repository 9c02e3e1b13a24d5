"""The rows of a data set taken apart: what :func:`torchpipe.audit.explain` returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torchpipe.audit.pieces import Piece
from torchpipe.data.messages import Message


@dataclass(frozen=True, kw_only=True)
class CallView:
    """A call of a tool; all is raw. ``arguments`` are as the data has them: a dict, or JSON text."""

    name: str
    arguments: Mapping[str, Any] | str
    id: str | None = None


@dataclass(frozen=True, kw_only=True)
class MessageView:
    """A message as the tokenizer got it; ``text``, ``reasoning``, ``name`` and the calls are raw."""

    role: str
    text: str
    masked: bool
    ipython: bool
    eot: bool
    num_images: int
    reasoning: str | None = None
    calls: tuple[CallView, ...] = ()
    name: str | None = None
    tool_call_id: str | None = None
    weight: float | None = None

    @classmethod
    def of(cls, message: Message) -> "MessageView":
        """The view of a message."""
        return cls(
            role=message.role,
            text=message.text_content,
            masked=message.masked,
            ipython=message.ipython,
            eot=message.eot,
            num_images=len(message.get_media()),
            reasoning=message.reasoning,
            calls=tuple(CallView(name=call.name, arguments=call.arguments, id=call.id) for call in message.tool_calls),
            name=message.name,
            tool_call_id=message.tool_call_id,
            weight=message.weight,
        )


@dataclass(frozen=True, kw_only=True)
class TokenView:
    """One token of a row.

    Attributes:
        id: the token's id; piece: what it stands for.
        label: what this position is to predict; -100 for nothing.
        trained: whether the position before has this token as its label, so that the loss sees it.
        position: its ``input_pos``, or its place where the sample has none.
        kind, message, part, proof: see :class:`~torchpipe.data.trace.Origin`; None where the tokenizer gave no trace.
        reason: why it is or is not trained; None where that isn't known.
        start, stop: its characters [start, stop) in the rendered text; None where they aren't told.
    """

    id: int
    piece: Piece
    label: int
    trained: bool
    position: int
    kind: str | None
    message: int | None
    reason: str | None
    part: str | None = None
    proof: str | None = None
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True, kw_only=True)
class DocumentView:
    """One document of a row; a row that is not packed is one document.

    Attributes:
        sample: the number of the sample that it is (a part of); None where that isn't known.
        start: the first token's place in that sample.
        offset: the first token's place in the row.
        padding: whether it only fills the row.
        messages: None where they aren't known; tools: the tools that the row offers, as it has them.
        tokens: all of them.
        num_cut: tokens that were cut to ``cut_to``; cut_side: where, None where that isn't known.
        notes: sentences about what is unusual.
        side: of a pair: "chosen" or "rejected"; "" elsewhere.
        num_prompt: messages at its start that are the prompt of what is compared, judged or asked for; none of them is
            trained.
        num_shared: of a pair, tokens that both sides begin with, and neither trains.
        source: of a graph, the name of the node whose row it is; None elsewhere.
        ends_with_target: whether the last of the tokens is the document's last label, and no input.
    """

    sample: int | None
    start: int
    offset: int
    padding: bool
    messages: tuple[MessageView, ...] | None
    tokens: tuple[TokenView, ...]
    num_cut: int = 0
    cut_side: str | None = None
    cut_to: str = "max_seq_len"
    notes: tuple[str, ...] = ()
    tools: Any = None
    side: str = ""
    num_prompt: int = 0
    num_shared: int = 0
    source: str | None = None
    ends_with_target: bool = False

    @property
    def num_tokens(self) -> int:
        """Its tokens in the row."""
        return len(self.tokens) - self.ends_with_target

    @property
    def num_trained(self) -> int:
        """Tokens of this document that the loss sees."""
        return sum(token.trained for token in self.tokens)

    @property
    def traced(self) -> bool:
        """Whether the tokens' provenance is known."""
        return any(token.kind is not None for token in self.tokens)


@dataclass(frozen=True, kw_only=True)
class RowView:
    """One row of a data set: a sample, or a pack of several.

    Attributes:
        index: the row's number.
        source: what the data set it stands in calls its source; None where it doesn't say.
        packed: whether it may hold several documents.
        documents: in order; they hold all tokens of the row, which are none where it is refused.
        num_trained: labels that are not -100.
        notes: sentences about what is unusual.
        refused: the sentence with which the row was refused; None where it became a sample.
        noun: what an item is: "row", "pack", "pair" or "prompt".
        desirable: whether the answer is a desirable one; None where rows have no such label.
    """

    index: int
    source: str | None
    packed: bool
    documents: tuple[DocumentView, ...]
    num_trained: int
    notes: tuple[str, ...] = ()
    refused: str | None = None
    noun: str = "row"
    desirable: bool | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens, padding included."""
        return sum(document.num_tokens for document in self.documents)

    @property
    def num_shown(self) -> int:
        """The same, and last labels that are no inputs."""
        return sum(len(document.tokens) for document in self.documents)


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Rows of a data set, token by token. ``print`` it, or let a notebook show it.

    Attributes:
        source: where the rows come from, as the data set calls it; None where it doesn't say.
        num_rows: rows of the data set; None where only the first packs were made.
        decided_by: what decides which tokens are trained, name to value; None where it isn't known.
        rows: those that were asked for.
        notes: sentences about the whole.
    """

    source: str | None
    num_rows: int | None
    decided_by: Mapping[str, Any]
    rows: Sequence[RowView]
    notes: tuple[str, ...] = ()

    def to_text(
        self, *, color: bool = False, labels: bool = False, width: int = 100, max_tokens: int | None = None
    ) -> str:
        """See :func:`torchpipe.audit.explain_text.to_text`."""
        from torchpipe.audit.explain_text import to_text

        return to_text(self, color=color, labels=labels, width=width, max_tokens=max_tokens)

    def to_dict(self) -> dict[str, Any]:
        """See :func:`torchpipe.audit.explain_json.to_dict`."""
        from torchpipe.audit.explain_json import to_dict

        return to_dict(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from torchpipe.audit.explain_html import to_html

        return to_html(self)
