"""A conversation with fewer messages, so that it fits."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torchpipe.data.messages import Message
from torchpipe.data.whole_row import WholeRow, calls_with_results

Indices = tuple[int, ...]


def without_oldest_turns(messages: Sequence[Message]) -> list[Indices]:
    """The messages that stay when one turn after the other is left out from the oldest on; the longest choice first.

    A turn is a user's message and all that answers it. What the system says stays. When one turn is left, its oldest
    calls go, each with its results, and the user's message stays.

    >>> talk = [Message("system", "Be kind"), *[Message(role, "") for _ in range(3) for role in ("user", "assistant")]]
    >>> without_oldest_turns(talk)
    [(0, 3, 4, 5, 6), (0, 5, 6)]
    """
    roles = [message.role for message in messages]
    end = len(messages)
    begin = next((index for index, role in enumerate(roles) if role not in ("system", "developer")), end)
    last_answer = max((index for index, role in enumerate(roles) if role == "assistant"), default=-1)
    turns = [index for index in range(begin, last_answer + 1) if roles[index] == "user"]
    choices = [(*range(begin), *range(turn, end)) for turn in turns if turn > begin]
    if not turns:
        return choices
    answers = [index for index in range(turns[-1], end) if roles[index] == "assistant"]
    answers = [index for index in answers if roles[index - 1] != "assistant"]
    asked = (*range(begin), *range(turns[-1], answers[0]))
    return [*choices, *((*asked, *range(answer, end)) for answer in answers[1:])]


def prefixes_around_calls(messages: Sequence[Message]) -> list[Indices]:
    """The messages that stay when one after the other is left out from the end on, a call together with its results."""
    inside = {index for first, end in calls_with_results(messages) for index in range(first + 1, end)}
    return [tuple(range(end)) for end in range(len(messages) - 1, 0, -1) if end not in inside]


def longest_that_fits(
    whole: WholeRow,
    choices: Sequence[Indices],
    max_seq_len: int,
    to_sample: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> tuple[Indices, dict[str, Any]] | None:
    """The first choice whose sample is short enough, and that sample; the last choice where none is.

    Each choice is made anew, so what is kept is what a row with these messages alone gives.

    Args:
        whole: the row.
        choices: which messages stay, the longest choice first.
        max_seq_len: the most tokens.
        to_sample: a row to its sample.

    Returns:
        None where there is no choice.
    """
    made: dict[int, dict[str, Any]] = {}

    def fits(choice: int) -> bool:
        if choice not in made:
            made[choice] = to_sample(whole.with_messages(choices[choice]))
        return len(made[choice]["tokens"]) <= max_seq_len

    if not choices:
        return None
    found = min(bisect_left(range(len(choices)), True, key=fits), len(choices) - 1)
    fits(found)
    return choices[found], made[found]
