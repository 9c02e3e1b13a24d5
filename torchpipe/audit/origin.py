"""Where the samples of a data set come from: its rows, its transforms, and what they decide."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchpipe.data.kto_transform import num_asked
from torchpipe.data.masking import MaskingStrategy
from torchpipe.data.messages import Message
from torchpipe.data.pair_transform import SIDES
from torchpipe.data.shared_prompt import untrained
from torchpipe.data.trace import TokenTrace
from torchpipe.data.whole_row import Cut, gives_trace
from torchpipe.datasets import (
    KTODataset,
    PackedDataset,
    PreferenceDataset,
    PromptDataset,
    SFTDataset,
    StoredDataset,
)
from torchpipe.datasets.joined import JoinedDataset
from torchpipe.errors import located


def locate(dataset: Any, index: int) -> tuple[Any, int]:
    """The data set that a row of joined data sets belongs to, and its number there."""
    while isinstance(dataset, JoinedDataset):
        dataset, index = dataset.locate(index)
    return dataset, index


class Conversation(NamedTuple):
    """The messages of a row and the tools that it offers, as the model transform gets them.

    Attributes:
        messages: all of them; tools: what the row offers.
        side: of a pair: "chosen" or "rejected"; "" elsewhere.
        num_prompt: messages at the start that are never trained, since they are the prompt of what is compared, judged
            or asked for.
        is_open: whether what begins the assistant's reply follows.
    """

    messages: list[Message]
    tools: Any
    side: str = ""
    num_prompt: int = 0
    is_open: bool = False


Told = SFTDataset | PreferenceDataset | KTODataset | PromptDataset
"""The data sets whose rows are shown as messages."""


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The data set that tokenised the samples, where it is one whose parts are known.

    Attributes:
        dataset: None where it is of another kind.
        name: what it calls its source; None where it doesn't say.
    """

    dataset: Told | None
    name: str | None

    @classmethod
    def of(cls, dataset: Any) -> "Origin":
        """The origin of a data set's samples."""
        inner = dataset.samples if isinstance(dataset, PackedDataset | StoredDataset) else dataset
        name = getattr(inner, "name", None)
        return cls(dataset=inner if isinstance(inner, Told) else None, name=name if isinstance(name, str) else None)

    @property
    def message_transform(self) -> Any:
        """Row to messages; None where there is none, or it isn't known."""
        return self.dataset.transform.message_transform if self.dataset else None

    @property
    def model_transform(self) -> Any:
        """Messages to tokens; None where it isn't known."""
        return self.dataset.transform.model_transform if self.dataset else None

    @property
    def whole_transform(self) -> Any:
        """Messages to all tokens of a row, nothing cut; None where it isn't known."""
        return self.dataset.transform.whole_transform if self.dataset else None

    @property
    def limits(self) -> dict[str, Any]:
        """What shortens samples by the data set's own options, name to value; nothing where the tokenizer alone may."""
        if self.dataset is None:
            return {}
        if isinstance(self.dataset, PromptDataset):
            made_by: Any = self.dataset.transform
            overflow = "truncate" if made_by.truncate else "error"
            return {"max_seq_len": None, "max_prompt_len": made_by.max_prompt_len, "overflow": overflow}
        is_pair = isinstance(self.dataset, PreferenceDataset)
        policy: Any = self.dataset.transform.policy if is_pair else self.dataset.transform.overflow
        if policy is None or policy.overflow is None:
            return {}
        names = ("max_seq_len", "max_prompt_len", "max_response_len", "overflow")
        found = {name: value for name in names if (value := getattr(policy, name, None)) is not None}
        if policy.overflow == "truncate":
            cut = "prompt_truncation" if is_pair else "truncation_type"
            found[cut] = getattr(policy, cut)
        return found

    def conversations(self, row: int) -> list[Conversation]:
        """The conversations of a row that is read once more: one, two of a pair, none where that isn't possible.

        Args:
            row: its number.

        Raises:
            Exception: the row can't be read, or its transform fails; the error names the row.
        """
        if self.dataset is None:
            return []
        try:
            read = self.dataset.rows[row]
            read = dict(read) if isinstance(read, dict) else read  # for a transform that changes it
            found = _conversations(self.dataset, read)
        except Exception as error:
            raise located(error, f"Row {row} of {self.name}") from error.__cause__
        return [one for one in found if one.messages and all(isinstance(told, Message) for told in one.messages)]

    def conversation(self, row: int, cut: Cut | None = None, *, place: int = 0) -> Conversation | None:
        """One of them; None where it isn't there. Errors are those of :meth:`conversations`.

        Args:
            row: its number.
            cut: the part of the row that is shown, of whose messages it is.
            place: 1 for the rejected side of a pair.
        """
        found = self.conversations(row)
        if place >= len(found):
            return None
        told = found[place]
        if cut is None or cut.messages is None:
            return told
        return told._replace(
            messages=[told.messages[index] for index in cut.messages],
            num_prompt=sum(index < told.num_prompt for index in cut.messages),
        )

    def shown(self, conversation: Conversation) -> list[Message]:
        """The messages as the tokenizer writes them: after its prompt template."""
        template = getattr(self.model_transform, "prompt_template", None)
        messages = list(conversation.messages)
        return messages if template is None else template(messages, inference=False)

    def traced(self, conversation: Conversation) -> tuple[list[int], TokenTrace] | None:
        """All tokens of the conversation and their trace; None where the model transform gives none.

        Those of an open one may go on behind what begins the reply.
        """
        transform = self.whole_transform
        if not gives_trace(transform):
            return None
        known, messages = _parameters(transform), conversation.messages
        options = {"tools": conversation.tools} if "tools" in known else {}
        if conversation.is_open and "add_generation_prompt" in known:
            options["add_generation_prompt"] = True
        elif conversation.is_open:
            messages = [*messages, Message("assistant", "")]
        tokens, _, trace = transform.tokenize_messages(messages, trace=True, **options)
        return list(tokens), trace

    def sample_of(self, row: int, place: int) -> Mapping[str, Any]:
        """One of the samples of a row, made once more; nothing where none can be a part of its row by the options of
        the data set.
        """
        if self.dataset is None or not self.limits:
            return {}
        return self.dataset.fitted(row).samples[place]


def _conversations(dataset: Told, row: Any) -> list[Conversation]:
    """What a data set's tokenizer is given for a row."""
    if isinstance(dataset, PreferenceDataset):
        pair = dataset.transform.conversations(row)
        return [
            Conversation(list(given["messages"]), given.get("tools"), side, len(pair.prompt))
            for side, given in zip(SIDES, pair.rows(), strict=True)
        ]
    if isinstance(dataset, KTODataset):
        given = dataset.transform.conversation(row)
        return [Conversation(list(given["messages"]), given.get("tools"), "", num_asked(given["messages"]))]
    if isinstance(dataset, PromptDataset):
        given = dataset.transform.conversation(row)
        messages = [untrained(message) for message in given["messages"]]
        return [Conversation(messages, given.get("tools"), "", len(messages), True)]
    transform = dataset.transform.message_transform
    given = transform(row) if transform is not None else row
    return [Conversation(list(given.get("messages") or ()), given.get("tools"))]


def _parameters(model_transform: Any) -> Collection[str]:
    method = getattr(model_transform, "tokenize_messages", None)
    return inspect.signature(method).parameters if callable(method) else ()


def decided_by(origin: Origin, tokenizer: Any) -> dict[str, Any]:
    """What decides which tokens are trained, name to value; None where it isn't known."""
    message_transform = origin.message_transform
    inner = getattr(message_transform, "message_transform", message_transform)  # of one that masks what another gives
    strategy = getattr(message_transform, "masking_strategy", None)
    template = getattr(tokenizer, "prompt_template", None)
    inner_tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # a multimodal transform holds one
    return {
        "message_transform": _name(inner),
        "masking_strategy": strategy.value if isinstance(strategy, MaskingStrategy) else strategy,
        "tokenizer": _name(tokenizer),
        "chat_format": getattr(getattr(inner_tokenizer, "chat_format", None), "name", None),
        "mask_policy": getattr(inner_tokenizer, "mask_policy", None),
        "on_unproved": getattr(inner_tokenizer, "on_unproved", None),
        "prompt_template": _name(template),
        "max_seq_len": getattr(tokenizer, "max_seq_len", None),
        **origin.limits,
    }


def hints(tokenizer: Any) -> tuple[str, ...]:
    """What a reader should know about the tokenizer's format."""
    hint = getattr(getattr(tokenizer, "chat_format", None), "hint", "")
    return (hint,) if hint and getattr(tokenizer, "prompt_template", None) is None else ()


def _name(part: Any) -> str | None:
    return None if part is None else getattr(part, "__name__", type(part).__name__)
