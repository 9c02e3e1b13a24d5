"""Two conversations that begin with the same messages, their prompt, which is never trained."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
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
    """

    prompt: Sequence[Message]
    chosen: Sequence[Message]
    rejected: Sequence[Message]
    rest: Mapping[str, Any]

    @classmethod
    def of(cls, chosen: Sequence[Message], rejected: Sequence[Message], rest: Mapping[str, Any]) -> "Conversations":
        """Those of two lists of messages. Of two that are equal, all before the last answer is shared.

        >>> ask, answers = Message("user", "1 + 1?"), [Message("assistant", text) for text in "23"]
        >>> pair = Conversations.of([ask, answers[0]], [ask, answers[1]], {})
        >>> len(pair.prompt), pair.prompt[0].masked, pair.chosen[0].text_content
        (1, True, '2')
        """
        shared = _num_shared(chosen, rejected)
        if shared == len(chosen) == len(rejected):
            shared = max((place for place, message in enumerate(chosen) if message.role == "assistant"), default=0)
        return cls(
            prompt=[untrained(message) for message in chosen[:shared]],
            chosen=chosen[shared:],
            rejected=rejected[shared:],
            rest=rest,
        )

    def rows(self, kept: Sequence[int] | None = None) -> list[dict[str, Any]]:
        """What a tokenizer is given for the two, the chosen one first.

        Args:
            kept: which messages of the prompt are left in; None: all.
        """
        prompt = list(self.prompt) if kept is None else [self.prompt[place] for place in kept]
        return [{**self.rest, "messages": [*prompt, *side]} for side in (self.chosen, self.rejected)]

    @property
    def are_equal(self) -> bool:
        """Whether both go on with the same messages."""
        return len(self.chosen) == len(self.rejected) == _num_shared(self.chosen, self.rejected)

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
    """A copy of a message that is not trained, whatever its strategy or its own data says."""
    hidden = copy(message)
    hidden.masked, hidden.train, hidden.weight = True, False, None
    return hidden


def _num_shared(chosen: Sequence[Message], rejected: Sequence[Message]) -> int:
    """How many messages both begin with. Whether they are trained is no difference."""
    number = 0
    for one, other in zip(chosen, rejected, strict=False):
        if untrained(one) != untrained(other):
            break
        number += 1
    return number
