"""Where each token of a conversation comes from, and why it is or is not trained."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

TokenKind = Literal[
    "document_start",
    "header",
    "call_prefix",
    "content",
    "media",
    "call_suffix",
    "turn_end",
    "separator",
    "document_end",
]
"""What a token is to the format; :mod:`torchpipe.tokenizers.render` writes them. A new kind needs no change here."""

CUT_END = "the row was cut to max_seq_len, and its last token became the document's end"


class Origin(NamedTuple):
    """What one token, or a run of tokens, is.

    ``message`` is the index of the message it belongs to, -1 for the document's own. ``trained`` is the opposite of the
    mask. ``reason`` says in words why it is or is not trained. ``part`` is the index of the part of the message's
    content that it writes: an image, or a text with no other text beside it; -1 where it writes none or several.
    """

    kind: str
    message: int
    trained: bool
    reason: str
    part: int = -1


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenTrace:
    """The provenance of n tokens, in 12 bytes a token.

    Attributes:
        kind: uint8 [n], index into ``kinds``.
        message: int32 [n], the message's index; -1 for the document's own tokens.
        trained: bool [n], the opposite of the mask.
        reason: uint16 [n], index into ``reasons``.
        part: int32 [n], the index of the part of the message's content, or -1; see :class:`Origin`.
        kinds, reasons: the words.
        num_cut: tokens that truncation left out.
        cut_side: the side that was cut, None where nothing was.

    >>> trace = TokenTrace.from_runs([(Origin("document_start", -1, False, "starts the document"), 1)])
    >>> len(trace), trace[0].reason
    (1, 'starts the document')
    """

    kind: np.ndarray
    message: np.ndarray
    trained: np.ndarray
    reason: np.ndarray
    part: np.ndarray
    kinds: tuple[str, ...]
    reasons: tuple[str, ...]
    num_cut: int = 0
    cut_side: Literal["left", "right"] | None = None

    @classmethod
    def from_runs(cls, runs: Iterable[tuple[Origin, int]]) -> "TokenTrace":
        """The trace of runs of tokens: what each is, and how many they are."""
        origins, lengths = [], []
        for origin, num_tokens in runs:
            origins.append(origin)
            lengths.append(num_tokens)
        kinds = list(dict.fromkeys(origin.kind for origin in origins))
        reasons = list(dict.fromkeys(origin.reason for origin in origins))

        def spread(values: list[int] | list[bool], dtype: type) -> np.ndarray:
            return np.repeat(np.asarray(values, dtype=dtype), lengths)

        return cls(
            kind=spread([kinds.index(origin.kind) for origin in origins], np.uint8),
            message=spread([origin.message for origin in origins], np.int32),
            trained=spread([origin.trained for origin in origins], np.bool_),
            reason=spread([reasons.index(origin.reason) for origin in origins], np.uint16),
            part=spread([origin.part for origin in origins], np.int32),
            kinds=tuple(kinds),
            reasons=tuple(reasons),
        )

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, index: int) -> Origin:
        return Origin(
            self.kinds[self.kind[index]],
            int(self.message[index]),
            bool(self.trained[index]),
            self.reasons[self.reason[index]],
            int(self.part[index]),
        )

    def __iter__(self) -> Iterator[Origin]:
        return (self[index] for index in range(len(self)))

    def truncate(
        self,
        max_seq_len: int | None,
        truncation_type: Literal["left", "right"] = "right",
        *,
        end_trained: bool | None = None,
    ) -> "TokenTrace":
        """The trace of the same tokens after :func:`~torchpipe.data.sequences.truncate`.

        Args:
            max_seq_len: the most tokens to keep; None keeps all.
            truncation_type: the side that is cut away.
            end_trained: whether the document's end, which took the last kept token's place, is trained; None where
                nothing took it.
        """
        if max_seq_len is None or len(self) <= max_seq_len:
            return self
        start = len(self) - max_seq_len if truncation_type == "left" else 0
        rows = slice(start, start + max_seq_len)
        kinds, reasons = self.kinds, self.reasons
        kind, message = self.kind[rows].copy(), self.message[rows].copy()
        trained, reason, part = self.trained[rows].copy(), self.reason[rows].copy(), self.part[rows].copy()
        if end_trained is not None and truncation_type == "right" and max_seq_len:
            kinds = tuple(dict.fromkeys((*kinds, "document_end")))
            reasons = tuple(dict.fromkeys((*reasons, CUT_END)))
            kind[-1], reason[-1] = kinds.index("document_end"), reasons.index(CUT_END)
            message[-1], part[-1], trained[-1] = -1, -1, end_trained
        return TokenTrace(
            kind=kind,
            message=message,
            trained=trained,
            reason=reason,
            part=part,
            kinds=kinds,
            reasons=reasons,
            num_cut=self.num_cut + len(self) - max_seq_len,
            cut_side=truncation_type,
        )
