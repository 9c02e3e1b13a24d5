"""Where the samples of a data set come from: its rows, its transforms, and what they decide."""

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torchpipe.data.masking import MaskingStrategy
from torchpipe.data.messages import Message
from torchpipe.data.trace import TokenTrace
from torchpipe.data.whole_row import Cut, gives_trace
from torchpipe.datasets import MaskedMessages, PackedDataset, SFTDataset, StoredDataset
from torchpipe.datasets.joined import JoinedDataset
from torchpipe.errors import located


def locate(dataset: Any, index: int) -> tuple[Any, int]:
    """The data set that a row of joined data sets belongs to, and its number there."""
    while isinstance(dataset, JoinedDataset):
        dataset, index = dataset.locate(index)
    return dataset, index


class Conversation(NamedTuple):
    """The messages of a row and the tools that it offers, as the model transform gets them."""

    messages: list[Message]
    tools: Any


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The data set that tokenised the samples, where it is one whose parts are known.

    Attributes:
        dataset: None where it is of another kind.
        name: what it calls its source; None where it doesn't say.
        recipe: how any data set of ours makes its items; None of others.
    """

    dataset: SFTDataset | None
    name: str | None
    recipe: Any = None

    @classmethod
    def of(cls, dataset: Any) -> "Origin":
        """The origin of a data set's samples."""
        inner = dataset.samples if isinstance(dataset, PackedDataset | StoredDataset) else dataset
        name = getattr(inner, "name", None)
        return cls(
            dataset=inner if isinstance(inner, SFTDataset) else None,
            name=name if isinstance(name, str) else None,
            recipe=getattr(inner, "recipe", None),
        )

    @property
    def message_transform(self) -> Any:
        """Row to messages; None where there is none, or it isn't known."""
        return self.dataset.transform.message_transform if self.dataset else None

    @property
    def model_transform(self) -> Any:
        """Messages to tokens; None where it isn't known."""
        held = self.dataset.transform if self.dataset else self.recipe
        return getattr(held, "model_transform", None)

    @property
    def whole_transform(self) -> Any:
        """Messages to all tokens of a row, nothing cut; None where it isn't known."""
        return self.dataset.transform.whole_transform if self.dataset else None

    def conversation(self, sample: int, cut: Cut | None = None) -> Conversation | None:
        """The conversation of a row that is read once more; None where that isn't possible.

        Args:
            sample: the row's number.
            cut: the part of the row that is shown, of whose messages it is.

        Raises:
            Exception: the row can't be read, or its transform fails; the error names the row.
        """
        if self.dataset is None:
            return None
        try:
            row = self.dataset.rows[sample]
            row = dict(row) if isinstance(row, dict) else row  # for a transform that changes it
            row = self.message_transform(row) if self.message_transform is not None else row
        except Exception as error:
            raise located(error, f"Row {sample} of {self.name}") from error.__cause__
        messages = row.get("messages")
        if not messages or not all(isinstance(message, Message) for message in messages):
            return None
        if cut is not None and cut.messages is not None:
            messages = [messages[index] for index in cut.messages]
        return Conversation(list(messages), row.get("tools"))

    def shown(self, conversation: Conversation) -> list[Message]:
        """The messages as the tokenizer writes them: after its prompt template."""
        template = getattr(self.model_transform, "prompt_template", None)
        messages = list(conversation.messages)
        return messages if template is None else template(messages, inference=False)

    def traced(self, conversation: Conversation) -> tuple[list[int], TokenTrace] | None:
        """All tokens of the conversation and their trace; None where the model transform gives none."""
        transform = self.whole_transform
        if not gives_trace(transform):
            return None
        tools = {"tools": conversation.tools} if "tools" in _parameters(transform) else {}
        tokens, _, trace = transform.tokenize_messages(conversation.messages, trace=True, **tools)
        return list(tokens), trace

    def sample_of(self, row: int, number: int) -> Mapping[str, Any]:
        """One of the samples of a row, made once more; nothing where none can be a part of its row by ``overflow``."""
        if self.dataset is None or self.dataset.transform.overflow is None:
            return {}
        return self.dataset.fitted(row).samples[number]


def _parameters(model_transform: Any) -> Collection[str]:
    method = getattr(model_transform, "tokenize_messages", None)
    return inspect.signature(method).parameters if callable(method) else ()


def decided_by(origin: Origin, tokenizer: Any) -> dict[str, Any]:
    """What decides which tokens are trained, name to value; None where it isn't known."""
    message_transform = origin.message_transform
    policy = origin.dataset.transform.overflow if origin.dataset else None
    inner = message_transform.message_transform if isinstance(message_transform, MaskedMessages) else message_transform
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
        "max_seq_len": policy.max_seq_len if policy else getattr(tokenizer, "max_seq_len", None),
        **({"overflow": policy.overflow} if policy else {}),
        **({"truncation_type": policy.truncation_type} if policy and policy.overflow == "truncate" else {}),
    }


def hints(tokenizer: Any) -> tuple[str, ...]:
    """What a reader should know about the tokenizer's format."""
    hint = getattr(getattr(tokenizer, "chat_format", None), "hint", "")
    return (hint,) if hint and getattr(tokenizer, "prompt_template", None) is None else ()


def _name(part: Any) -> str | None:
    return None if part is None else getattr(part, "__name__", type(part).__name__)
