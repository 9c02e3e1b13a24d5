"""Two conversations that begin with the same messages, their prompt, which is never trained."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from torchpipe.data.messages import Message
from torchpipe.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Conversations:
    """Two conversations, as what they share and what each goes on with.

    Attributes:
        prompt: the messages that both begin with, none of them trained.
        chosen, rejected: what follows in each.
        rest: what else belongs to the row, such as its tools.
        are_equal: whether both are the same all the way.
    """

    prompt: Sequence[Message]
    chosen: Sequence[Message]
    rejected: Sequence[Message]
    rest: Mapping[str, Any]
    are_equal: bool

    @classmethod
    def of(cls, chosen: Sequence[Message], rejected: Sequence[Message], rest: Mapping[str, Any]) -> "Conversations":
        """Those of two lists of messages. Of two that are equal, all before the last answer is shared.

        >>> ask, answers = Message("user", "1 + 1?"), [Message("assistant", text) for text in "23"]
        >>> pair = Conversations.of([ask, answers[0]], [ask, answers[1]], {})
        >>> len(pair.prompt), pair.prompt[0].masked, pair.chosen[0].text_content
        (1, True, '2')
        """
        shared = _num_shared(chosen, rejected)
        are_equal = shared == len(chosen) == len(rejected)
        if are_equal:
            shared = max((place for place, message in enumerate(chosen) if message.role == "assistant"), default=0)
        return cls(
            prompt=[untrained(message) for message in chosen[:shared]],
            chosen=chosen[shared:],
            rejected=rejected[shared:],
            rest=rest,
            are_equal=are_equal,
        )

    def rows(self, kept: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """What a tokenizer is given for the two, the chosen one first.

        Args:
            kept: which messages of the prompt are left in; None: all.
        """
        prompt = list(self.prompt) if kept is None else [self.prompt[place] for place in kept]
        return [{**self.rest, "messages": [*prompt, *side]} for side in (self.chosen, self.rejected)]

    def check_prompts(self) -> None:
        """Nothing, where both go on with an answer.

        Raises:
            DataError: they differ before that, or one of them ends; reason ``prompts_differ``.
        """
        sides = {"chosen": self.chosen, "rejected": self.rejected}
        mend = "Mend the row, leave such rows out (on_error, cache or packed), or set on_prompts_differ to 'keep'."
        for side, other in (("chosen", "rejected"), ("rejected", "chosen")):
            if not sides[side]:
                raise DataError(
                    f"The {side} conversation ends after {len(self.prompt)} messages, and the {other} one goes on from "
                    f"there. Both need an answer to the same prompt. {mend}",
                    reason="prompts_differ",
                )
        if any(messages[0].role != "assistant" for messages in sides.values()):
            roles = " and ".join(f"{messages[0].role!r} in {side}" for side, messages in sides.items())
            raise DataError(
                f"The two prompts differ: message {len(self.prompt)} is not the same in both ({roles}), and answers "
                f"can be compared only if all before them is equal. {mend}",
                reason="prompts_differ",
            )


def untrained(message: Message) -> Message:
    """The message as one that is not trained, whatever its strategy or its own data says; a copy, unless it is one."""
    if message.masked and message.weight is None:
        return message
    hidden = copy(message)
    hidden.masked, hidden.train, hidden.weight = True, False, None
    return hidden


def _num_shared(chosen: Sequence[Message], rejected: Sequence[Message]) -> int:
    """How many messages both begin with. Whether they are trained is no difference."""
    number = 0
    for one, other in zip(chosen, rejected, strict=False):
        if one is not other and not (_SAID(one) == _SAID(other) and _same_content(one, other)):
            break
        number += 1
    return number


_SAID = attrgetter("role", "eot", "ipython", "tool_calls", "reasoning", "name", "tool_call_id")
"""All that a message says, but for its content."""


def _same_content(one: Message, other: Message) -> bool:
    if one.contains_media or other.contains_media:  # arrays, which a list can't compare
        return Message("user", one.content) == Message("user", other.content)
    return one.content == other.content
