"""The prompt that two conversations share: what both begin with, which is never trained."""

from collections.abc import Sequence
from copy import copy

from torchpipe.data.messages import Message
from torchpipe.errors import DataError


def without_flags(message: Message) -> Message:
    """A copy of a message that is not trained, whatever its strategy or its own data says."""
    hidden = copy(message)
    hidden.masked, hidden.train, hidden.weight = True, False, None
    return hidden


def num_shared(chosen: Sequence[Message], rejected: Sequence[Message]) -> int:
    """How many messages both conversations begin with. Whether they are trained is no difference.

    >>> ask, answers = Message("user", "1 + 1?"), [Message("assistant", text) for text in "23"]
    >>> num_shared([ask, answers[0]], [ask, answers[1]])
    1
    """
    number = 0
    for one, other in zip(chosen, rejected, strict=False):
        if without_flags(one) != without_flags(other):
            break
        number += 1
    return number


def check_prompts(chosen: Sequence[Message], rejected: Sequence[Message], shared: int) -> None:
    """Nothing, where both conversations go on with an answer after the messages that they share.

    Raises:
        DataError: they differ before that, or one of them ends; reason ``prompts_differ``.
    """
    sides = {"chosen": chosen, "rejected": rejected}
    for side, messages in sides.items():
        if len(messages) == shared:
            longer = "rejected" if side == "chosen" else "chosen"
            raise DataError(
                f"The {side} conversation has {shared} messages, and the {longer} one goes on after them. Both need an "
                "answer to the same prompt. Mend the row, leave such rows out (on_error, cache or packed), or set "
                "on_prompts_differ to 'keep'.",
                reason="prompts_differ",
            )
    if any(messages[shared].role != "assistant" for messages in sides.values()):
        roles = " and ".join(f"{messages[shared].role!r} in {side}" for side, messages in sides.items())
        raise DataError(
            f"The two prompts differ: message {shared} is not the same in both ({roles}), and answers can be compared "
            "only if all before them is equal. Mend the row, leave such rows out (on_error, cache or packed), or set "
            "on_prompts_differ to 'keep'.",
            reason="prompts_differ",
        )


def equal_answers(what: str) -> DataError:
    """The error of a pair whose two answers are equal; reason ``chosen_equals_rejected``."""
    return DataError(
        f"The chosen and the rejected {what} are equal, so that nothing is preferred. Leave such rows out (on_error, "
        "cache or packed; or a filter_fn), or set on_equal to 'keep'.",
        reason="chosen_equals_rejected",
    )
