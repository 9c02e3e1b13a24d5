"""A conversation as chat templates take it, and which of its messages are trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.messages import Message
from torchpipe.data.openai_dicts import as_openai
from torchpipe.errors import DataError

TEMPLATE_ROLES = ("system", "developer", "user", "assistant", "tool", "ipython", "function", "observation")
"""The roles that a message may have: templates write them into control tokens, where no other text may stand."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A conversation.

    Attributes:
        messages: OpenAI's dicts, as the template reads them.
        unmasked: indices of the messages that are trained.
    """

    messages: Sequence[Mapping[str, Any]]
    unmasked: frozenset[int]

    @classmethod
    def of(cls, messages: Sequence[Message | Mapping[str, Any]]) -> "Row":
        """The row of messages of ours, or of OpenAI's dicts, which stay as they are.

        A dict is trained where it is the assistant's, unless it says ``masked: true``, ``train: false`` or a
        ``weight`` of 0.

        Raises:
            DataError: there are no messages, or one is neither, or has a role that no template knows.
        """
        if not messages:
            raise DataError("The conversation has no messages. Drop such rows with a filter_fn.")
        dicts: list[Mapping[str, Any]] = []
        unmasked: list[int] = []
        for index, message in enumerate(messages):
            if isinstance(message, Message):
                dicts.append(as_openai(message))
                trained = not message.masked
            elif isinstance(message, Mapping):
                dicts.append(message)
                trained = _is_trained(message)
            else:
                raise DataError(f"Message {index} is a {type(message).__name__}, neither a Message nor a dict.")
            _check_role(dicts[-1].get("role"), index)
            if trained:
                unmasked.append(index)
        return cls(messages=dicts, unmasked=frozenset(unmasked))

    @property
    def trained_turns(self) -> frozenset[int]:
        """The assistant's messages among those that are trained."""
        return frozenset(index for index in self.unmasked if self.messages[index]["role"] == "assistant")

    @property
    def has_assistant(self) -> bool:
        """Whether the assistant says anything."""
        return any(message["role"] == "assistant" for message in self.messages)

    def untrained(self) -> "Row":
        """The row with all messages masked."""
        return replace(self, unmasked=frozenset())


def _is_trained(message: Mapping[str, Any]) -> bool:
    if message.get("masked") or message.get("train") is False or message.get("weight") == 0:
        return False
    return message.get("role") == "assistant"


def _check_role(role: object, index: int) -> None:
    if role not in TEMPLATE_ROLES:
        raise DataError(
            f"Message {index} has the role {role!r}; a role is one of {listed(TEMPLATE_ROLES)}."
            f"{did_you_mean(str(role), TEMPLATE_ROLES)} Rename it in the source, or drop such rows with a filter_fn."
        )
