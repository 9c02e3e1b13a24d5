"""Where each token of a conversation comes from, and why it is or is not trained."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

TokenKind = str
"""What a token is to the format. Families of the table write ``document_start``, ``header``, ``call_prefix``,
``content``, ``call_suffix``, ``turn_end``, ``separator``, ``document_end`` and ``media``; chat templates write ``bos``,
``header``, ``prefill``, ``content``, ``reasoning``, ``tool_call``, ``footer`` and ``eos``."""

CUT_END = "the row was cut to max_seq_len, and its last token became the document's end"


class Origin(NamedTuple):
    """What one token, or a run of tokens, is.

    ``message`` is the index of the message it belongs to, -1 for the document's own. ``trained`` is the opposite of the
    mask. ``reason`` says in words why it is or is not trained. ``part`` names the string of the message that it is a
    part of ("content", "tool_calls[0].function.arguments"), empty for what the format wrote. ``proof`` says how it is
    known what the model samples in its turn: "causal", "exact", "split" or "none"; empty outside of turns.
    ``[start, stop)`` are its characters in the rendered text, -1 where that isn't told.
    """

    kind: str
    message: int
    trained: bool
    reason: str
    part: str = ""
    proof: str = ""
    start: int = -1
    stop: int = -1


_DTYPES: dict[str, type] = {
    "kind": np.uint8,
    "message": np.int32,
    "trained": np.bool_,
    "reason": np.uint16,
    "part": np.uint16,
    "proof": np.uint8,
    "start": np.int32,
    "stop": np.int32,
}
_WORD_FIELDS = ("kind", "reason", "part", "proof")


@dataclass(frozen=True, kw_only=True, eq=False)
class TokenTrace:
    """The provenance of n tokens, in 19 bytes a token.

    Attributes:
        kind: uint8 [n], index into ``kinds``.
        message: int32 [n], the message's index; -1 for the document's own tokens.
        trained: bool [n], the opposite of the mask.
        reason: uint16 [n], index into ``reasons``.
        part: uint16 [n], index into ``parts``; proof: uint8 [n], index into ``proofs``.
        start, stop: int32 [n], characters of the rendered text; -1 where they aren't told.
        kinds, reasons, parts, proofs: the words.
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
    proof: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    kinds: tuple[str, ...]
    reasons: tuple[str, ...]
    parts: tuple[str, ...]
    proofs: tuple[str, ...]
    num_cut: int = 0
    cut_side: Literal["left", "right"] | None = None

    @classmethod
    def from_runs(cls, runs: Iterable[tuple[Origin, int]]) -> "TokenTrace":
        """The trace of runs of tokens: what each is, and how many they are."""
        origins, lengths = [], []
        for origin, num_tokens in runs:
            origins.append(origin)
            lengths.append(num_tokens)
        words = {name: tuple(dict.fromkeys(getattr(origin, name) for origin in origins)) for name in _WORD_FIELDS}
        numbers = {name: {word: number for number, word in enumerate(found)} for name, found in words.items()}

        def spread(name: str) -> Any:
            values = [getattr(origin, name) for origin in origins]
            if name in numbers:
                values = [numbers[name][value] for value in values]
            return np.repeat(np.asarray(values, dtype=_DTYPES[name]), lengths)

        return cls(
            **{name: spread(name) for name in _DTYPES},
            kinds=words["kind"],
            reasons=words["reason"],
            parts=words["part"],
            proofs=words["proof"],
        )

    def __len__(self) -> int:
        return len(self.kind)

    def __getitem__(self, index: int) -> Origin:
        return Origin(
            self.kinds[self.kind[index]],
            int(self.message[index]),
            bool(self.trained[index]),
            self.reasons[self.reason[index]],
            self.parts[self.part[index]],
            self.proofs[self.proof[index]],
            int(self.start[index]),
            int(self.stop[index]),
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
        kept = {name: getattr(self, name)[rows].copy() for name in _DTYPES}
        kinds, reasons, parts = self.kinds, self.reasons, self.parts
        if end_trained is not None and truncation_type == "right" and max_seq_len:
            kinds = tuple(dict.fromkeys((*kinds, "document_end")))
            reasons = tuple(dict.fromkeys((*reasons, CUT_END)))
            kept["kind"][-1], kept["reason"][-1] = kinds.index("document_end"), reasons.index(CUT_END)
            kept["message"][-1], kept["trained"][-1] = -1, end_trained
            parts = tuple(dict.fromkeys((*parts, "")))
            kept["part"][-1] = parts.index("")
        return replace(
            self,
            **kept,
            kinds=kinds,
            reasons=reasons,
            parts=parts,
            num_cut=self.num_cut + len(self) - max_seq_len,
            cut_side=truncation_type,
        )
