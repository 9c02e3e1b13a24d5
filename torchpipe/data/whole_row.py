"""A row and its sample, nothing of which was cut: where its messages, calls and images stand, and any part of it."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

import numpy as np

from torchpipe.data.messages import RESULT_ROLES, Message
from torchpipe.data.trace import TokenTrace
from torchpipe.errors import DataError

TokenRange = tuple[int, int]
"""First token, and one past the last."""


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Which part of its row a sample is.

    Attributes:
        start, stop: its tokens' places in the row, or in what ``messages`` make of it.
        messages: the indices of the messages that it was made of; None: of all.
        stop_from: the place of the stop token that took the last token's place; None where none did.
        side: what was cut away: "right", "left" or "turns"; of a side of a pair, "both" where the prompt was cut and
            the response too; None for a piece of a row that was split.
    """

    start: int
    stop: int
    messages: tuple[int, ...] | None = None
    stop_from: int | None = None
    side: Literal["right", "left", "turns", "both"] | None = None

    @property
    def places(self) -> list[int]:
        """The place of each token in the row."""
        return [
            *range(self.start, self.stop - (self.stop_from is not None)),
            *([] if self.stop_from is None else [self.stop_from]),
        ]

    def of_messages(self, messages: Sequence[int], side: Literal["right", "left", "turns"]) -> "Cut":
        """The same cut, of a row that was made of these messages."""
        inner = range(len(messages)) if self.messages is None else self.messages
        return replace(self, messages=tuple(messages[index] for index in inner), side=side)


@dataclass(frozen=True, kw_only=True, eq=False)
class WholeRow:
    """A row and its sample, nothing of which was cut.

    Attributes:
        row: what the model transform was given.
        sample: what it gave, and the labels.
        parts: the model transform.
    """

    row: Mapping[str, Any]
    sample: Mapping[str, Any]
    parts: Any

    @cached_property
    def messages(self) -> Sequence[Message]:
        """Those of the row; none where it is no conversation."""
        return self.row.get("messages") or ()

    @cached_property
    def calls(self) -> list[tuple[int, int]]:
        """The assistant's calls that have results: the message of the call, and one past that of the last result."""
        return calls_with_results(self.messages)

    @cached_property
    def num_images(self) -> int:
        """Images of its messages."""
        return sum(len(message.get_media()) for message in self.messages)

    @cached_property
    def places(self) -> TokenTrace | None:
        """Which message each token is from; None where the transform doesn't tell, or tells it of other tokens."""
        if not self.messages or not gives_trace(self.parts):
            return None
        template = getattr(self.parts, "prompt_template", None)
        if template is not None and len(template(list(self.messages), inference=False)) != len(self.messages):
            return None  # its indices would be those of other messages
        tools = {"tools": self.row["tools"]} if self.row.get("tools") else {}
        tokens, _, trace = self.parts.tokenize_messages(self.messages, **tools, trace=True)
        return trace if list(tokens) == list(self.sample["tokens"]) else None

    @cached_property
    def call_ranges(self) -> list[TokenRange]:
        """The tokens of each call and its results."""
        return [] if self.places is None else _ranges_of(self.places.message, self.calls)

    @cached_property
    def media_ranges(self) -> list[TokenRange]:
        """The tokens of each image.

        Raises:
            DataError: there are images, and the transform doesn't tell where.
        """
        if self.num_images == 0:
            return []
        if self.places is None:
            raise DataError(
                f"The row holds images, and {type(self.parts).__name__} doesn't tell where their tokens stand "
                "(tokenize_messages(..., trace=True)), so it can't be cut. Raise max_seq_len, or drop it."
            )
        trace = self.places
        media = np.flatnonzero(trace.kind == trace.kinds.index("media")).tolist() if "media" in trace.kinds else []
        runs = groupby(media, key=lambda place: (trace.message[place], trace.part[place]))
        ranges = [(run[0], run[-1] + 1) for run in (list(places) for _, places in runs)]
        if len(ranges) != self.num_images:
            raise DataError(f"The row holds {self.num_images} images, and the tokens of {len(ranges)} were found.")
        return ranges

    @cached_property
    def turns(self) -> list[int]:
        """Where turns begin: the first tokens of the user's messages, or, without a trace, those after what is trained.

        Raises:
            DataError: there are calls with results, and the transform doesn't tell where.
        """
        if self.places is None:
            if self.calls:
                raise DataError(
                    f"The row holds calls and their results, and {type(self.parts).__name__} doesn't tell where their "
                    "tokens stand (tokenize_messages(..., trace=True)), so it can't be split. Set overflow to "
                    "'truncate' or 'drop'."
                )
            mask = self.sample["mask"]
            return [place for place in range(1, len(mask)) if mask[place] and not mask[place - 1]]
        asked = [(index, index + 1) for index, message in enumerate(self.messages) if message.role == "user"]
        return [self._with_document_start(first) for first, _ in _ranges_of(self.places.message, asked)]

    def _with_document_start(self, place: int) -> int:
        trace = self.places
        while trace is not None and place and trace.kinds[trace.kind[place - 1]] in ("document_start", "bos"):
            place -= 1
        return place

    def with_messages(self, indices: Iterable[int]) -> dict[str, Any]:
        """The row with these of its messages alone."""
        return {**self.row, "messages": [self.messages[index] for index in indices]}

    def part(self, cut: Cut) -> dict[str, Any]:
        """The sample's part; labels and loss weights are those of the whole row.

        Whatever has a number a token is cut along, and media that are not wholly in the part are left out.
        """
        places = cut.places
        targets = places if cut.stop_from is None else [*places[:-2], cut.stop_from - 1, len(self.sample["tokens"]) - 1]
        taken = dict(self.sample)
        for key, values in self.sample.items():
            if self._is_per_token(values):
                kept = targets if key in ("labels", "loss_weights") else places
                taken[key] = values[kept] if hasattr(values, "ndim") else [values[place] for place in kept]
        if self.num_images:
            whole = self.whole_images(cut)
            taken["encoder_input"] = _images(self.sample.get("encoder_input"), whole, self.num_images)
            if "encoder_mask" in self.sample:
                taken["encoder_mask"] = [self.sample["encoder_mask"][index][places] for index in whole]
        return {**taken, "cut": cut}

    def whole_images(self, cut: Cut) -> list[int]:
        """The images that are wholly in the part, by their numbers."""
        last = cut.stop - (cut.stop_from is not None)
        return [n for n, (first, end) in enumerate(self.media_ranges) if cut.start <= first and end <= last]

    def _is_per_token(self, values: Any) -> bool:
        if hasattr(values, "ndim"):
            return values.ndim == 1 and len(values) == len(self.sample["tokens"])
        return (
            isinstance(values, list | tuple)
            and len(values) == len(self.sample["tokens"])
            and all(isinstance(value, int | float) for value in values)
        )


def calls_with_results(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """The assistant's messages whose results follow: its index, and one past the last result's.

    >>> talk = [Message("user", "?"), Message("assistant", "f()", ipython=True), Message("tool", "1")]
    >>> calls_with_results(talk)
    [(1, 3)]
    """
    found = []
    for index, message in enumerate(messages):
        if message.role not in RESULT_ROLES:
            continue
        if found and found[-1][1] == index:
            found[-1] = (found[-1][0], index + 1)
        else:
            found.append((max(index - 1, 0), index + 1))
    return found


def gives_trace(transform: Any) -> bool:
    """Whether the model transform tells which message each token is from."""
    method = getattr(transform, "tokenize_messages", None)
    return callable(method) and "trace" in inspect.signature(method).parameters


def _ranges_of(message_of_token: np.ndarray, groups: Sequence[tuple[int, int]]) -> list[TokenRange]:
    ranges = []
    for first, end in groups:
        places = np.flatnonzero((message_of_token >= first) & (message_of_token < end))
        if len(places):
            ranges.append((int(places[0]), int(places[-1]) + 1))
    return ranges


def _images(values: Any, whole: Sequence[int], num_images: int) -> Any:
    """What an encoder is given, at any depth, for these images alone."""
    if isinstance(values, Mapping):
        return {key: _images(inner, whole, num_images) for key, inner in values.items()}
    return [values[index] for index in whole] if isinstance(values, list) and len(values) == num_images else values
