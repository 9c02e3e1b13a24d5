"""A conversation as chat templates take it, and which of its messages are trained."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.messages import Message
from torchpipe.data.openai_dicts import REASONING_KEYS, as_openai
from torchpipe.data.turn_flags import FLAG_KEYS, turn_flags
from torchpipe.errors import DataError, MessageError

TEMPLATE_ROLES = ("system", "developer", "user", "assistant", "tool", "ipython", "function", "observation")
"""The roles that a message may have: templates write them into control tokens, where no other text may stand."""
_TEXT_ALONE = {"role", "content"}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A conversation.

    Attributes:
        messages: OpenAI's dicts, as servers hand them to a template: without keys whose value is null, and reasoning
            under each of its names that templates read.
        unmasked: indices of the messages that are trained.
        weights: of each message, 1.0 where it has none.
    """

    messages: Sequence[Mapping[str, Any]]
    unmasked: frozenset[int]
    weights: Sequence[float] = ()

    @classmethod
    def of(cls, messages: Sequence[Message | Mapping[str, Any]], *, parse_arguments: bool = False) -> "Row":
        """The row of messages of ours, or of OpenAI's dicts.

        Args:
            messages: the conversation.
            parse_arguments: whether JSON text of a call's arguments becomes what it says.

        A dict is trained where it is the assistant's, unless it says otherwise itself, in the keys that
        :func:`~torchpipe.data.turn_flags.turn_flags` reads.

        Raises:
            DataError: there are no messages, or one is neither, or has a role that no template knows, content that
                is neither text nor parts, or calls that are none.
        """
        if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
            raise MessageError(f"The messages are a {type(messages).__name__}. They must be a list of messages.")
        if not messages:
            raise MessageError("The conversation has no messages. Drop such rows with a filter_fn.", reason="empty")
        dicts: list[Mapping[str, Any]] = []
        unmasked: list[int] = []
        weights: list[float] = []
        for index, message in enumerate(messages):
            if isinstance(message, Message):
                turn, trained, weight = as_openai(message), not message.masked, message.weight
            elif isinstance(message, Mapping):
                turn, (said, weight) = message, turn_flags(message, f"message {index}")
                trained = message.get("role") == "assistant" if said is None else said
                _check_values(message, index)
            else:
                raise MessageError(f"Message {index} is a {type(message).__name__}, neither a Message nor a dict.")
            if turn.get("role") not in TEMPLATE_ROLES:
                raise _unknown_role(turn.get("role"), index)
            served = turn if turn.keys() == _TEXT_ALONE and turn["content"] is not None else _as_served(turn)
            dicts.append(_with_parsed_arguments(served, index) if parse_arguments else served)
            weights.append(1.0 if weight is None else float(weight))
            if trained:
                unmasked.append(index)
        return cls(messages=dicts, unmasked=frozenset(unmasked), weights=weights)

    @property
    def is_weighted(self) -> bool:
        """Whether a trained message has a weight that a mask can't say."""
        if self.weights.count(1.0) == len(self.weights):
            return False
        return any(self.weights[index] not in (0, 1) for index in self.unmasked)

    @property
    def trained_turns(self) -> frozenset[int]:
        """The assistant's messages among those that are trained."""
        return frozenset([index for index in self.unmasked if self.messages[index]["role"] == "assistant"])

    @property
    def has_assistant(self) -> bool:
        """Whether the assistant says anything."""
        return "assistant" in [message["role"] for message in self.messages]

    def untrained(self) -> "Row":
        """The row with all messages masked."""
        return replace(self, unmasked=frozenset())


def _as_served(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message much as Hugging Face's ``apply_chat_template`` gives it to a template (transformers 5).

    Null keys go, and reasoning stands under the names that templates read. Null content beside calls becomes the empty
    text, where transformers leaves the key out: templates that write both write the same, and a sixth fail without it.
    What says whether it is trained is left out: a template may write all keys, and ids don't depend on the mask.
    """
    if None in message.values() or not FLAG_KEYS.isdisjoint(message):
        message = {key: value for key, value in message.items() if value is not None and key not in FLAG_KEYS}
    if "content" not in message:
        message = {**message, "content": ""}
    reasoning = next((message[key] for key in REASONING_KEYS if key in message), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


def _with_parsed_arguments(message: Mapping[str, Any], index: int) -> Mapping[str, Any]:
    calls = message.get("tool_calls")
    if not calls:
        return message
    parsed = []
    for number, call in enumerate(calls):
        function = call.get("function", call)
        if isinstance(function.get("arguments"), str):
            try:
                function = {**function, "arguments": json.loads(function["arguments"])}
            except (ValueError, RecursionError) as error:
                raise MessageError(
                    f"The arguments of call {number} of message {index} are no JSON ({error}). Mend them in the "
                    "source, or drop such rows with a filter_fn."
                ) from None
            call = {**call, "function": function} if "function" in call else function
        parsed.append(call)
    return {**message, "tool_calls": parsed}


def _unknown_role(role: object, index: int) -> DataError:
    return MessageError(
        f"Message {index} has the role {role!r}; a role is one of {listed(TEMPLATE_ROLES)}."
        f"{did_you_mean(str(role), TEMPLATE_ROLES)} Rename it in the source, or drop such rows with a filter_fn."
    )


def _check_values(message: Mapping[str, Any], index: int) -> None:
    """Refuses content and calls that a template would write as Python writes them, or lose without a word."""
    content, calls = message.get("content"), message.get("tool_calls")
    if not (content is None or isinstance(content, str)):
        if not isinstance(content, list):
            raise MessageError(
                f"The content of message {index} is a {type(content).__name__}. It must be text, null or a list of "
                "parts. Turn it into text in a message_transform."
            )
        for number, part in enumerate(content):
            if not isinstance(part, (str, Mapping)):
                raise MessageError(
                    f"Part {number} of message {index} is a {type(part).__name__}. It must be a dict with 'type' and "
                    "'text', or text."
                )
    if not calls:
        return
    if not isinstance(calls, (list, tuple)):
        raise MessageError(
            f"The tool_calls of message {index} are a {type(calls).__name__}. They must be a list of calls."
        )
    for number, call in enumerate(calls):
        function = call.get("function", call) if isinstance(call, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(name, str) or not name:
            raise MessageError(
                f"Call {number} of message {index} has no name. A call is a dict with a 'function', which is a dict "
                "with 'name' and 'arguments'. Mend it in the source, or drop such rows with a filter_fn."
            )
