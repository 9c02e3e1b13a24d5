"""What values were asked for their fingerprints, kept for a stretch of work in which none of them changes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

_Answer = TypeVar("_Answer")
_ANSWERS: ContextVar[dict[tuple[str, int], tuple[object, Any]] | None] = ContextVar("answers", default=None)


@contextmanager
def remembering() -> Iterator[None]:
    """Inside of it each object is asked once, however many fingerprints it is part of; behind it nothing is kept.

    A tokenizer can be changed at any time (a token is added, a template replaced), and few objects tell when they were.
    So answers are never kept beyond a stretch in which no code runs that may change one: a step of our own, such as the
    opening of all stores of a graph. A change in between would have no effect on the fingerprint.

    >>> class Named:
    ...     def fingerprint(self):
    ...         print("asked")
    ...         return "a name"
    >>> from torchpipe._fingerprint import fingerprint
    >>> named = Named()
    >>> with remembering():
    ...     same = fingerprint([named, 1]) == fingerprint([named, 1])
    asked
    """
    token = _ANSWERS.set({} if _ANSWERS.get() is None else _ANSWERS.get())
    try:
        yield
    finally:
        _ANSWERS.reset(token)


def answer_of(value: object, question: str, ask: Callable[[], _Answer]) -> _Answer:
    """What an object answers; inside of :func:`remembering`, what it answered when it was first asked.

    Args:
        value: the object.
        question: tells questions about one object apart.
        ask: gives the answer.
    """
    answers = _ANSWERS.get()
    if answers is None:
        return ask()
    key = (question, id(value))
    if key not in answers:
        answers[key] = (value, ask())  # with the object, so that its id is given to no other one
    return answers[key][1]
