"""What the slots of the pipeline expect of each other."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

Row = TypeVar("Row", covariant=True)

Collate = Callable[[list[Mapping[str, Any]]], Mapping[str, Any]]
"""A list of samples in, one batch out."""


class Transform(Protocol):
    """Turns one row (or sample) into a new one. It never changes its argument."""

    def __call__(self, sample: Mapping[str, Any], /) -> Mapping[str, Any]:
        """The new row."""
        ...


class BaseTokenizer(Protocol):
    """Text to token ids and back."""

    def encode(self, text: str, **kwargs: Any) -> list[int]:
        """The ids of ``text``."""
        ...

    def decode(self, token_ids: list[int], **kwargs: Any) -> str:
        """The text of ``token_ids``."""
        ...


class ModelTokenizer(Protocol):
    """Messages to token ids and a mask, the way one model family was trained."""

    special_tokens: dict[str, int]
    max_seq_len: int | None

    def tokenize_messages(self, messages: Sequence[Any], **kwargs: Any) -> tuple[list[int], list[bool]]:
        """Ids and mask of equal length; True in the mask = not trained."""
        ...


@runtime_checkable
class RandomAccessDataSource(Protocol[Row]):
    """Rows that can be counted and read by index."""

    def __len__(self) -> int:
        """How many rows there are."""
        ...

    def __getitem__(self, index: int, /) -> Row:
        """Row ``index``."""
        ...


def can_be_read_ahead(dataset: object) -> bool:
    """Whether items may be read in a thread, before they are asked for, while the process does something else.

    A data set says so by ``can_be_read_ahead`` (a bool, or a property) on its own class: reading an item then draws no
    global random numbers, and several threads may read at once. A class that inherits it has to say it again, since its
    own code may do otherwise. What makes something of items, such as a processor of :mod:`torchpipe.pipeline`, says it
    likewise of being called.

    >>> can_be_read_ahead([1, 2])
    False
    """
    return "can_be_read_ahead" in vars(type(dataset)) and bool(getattr(dataset, "can_be_read_ahead", False))
