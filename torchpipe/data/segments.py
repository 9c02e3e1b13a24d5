"""Rows of text pieces, each with its own train flag, to samples."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from torchpipe._suggest import did_you_mean, listed
from torchpipe.data.columns import cell
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.plain_text import Encoded, TextTransform
from torchpipe.errors import ColumnError, ConfigError, DataError, UnwritableError

Encoding = Literal["apart", "together"]
"""How pieces become tokens. ``apart``: each by itself, so that no token is of two pieces. ``together``: the joined text
at once, as a model reads it; a token of a trained and an untrained piece is not trained."""


class Piece(NamedTuple):
    """A piece of text, and whether it is trained."""

    text: str
    trained: bool


class SegmentsTransform(TextTransform):
    """A row with a list of ``{"label": true or false, "text": ...}`` to the tokens of the texts: no template, no role.

    Args:
        tokenizer: its ``encode`` takes ``add_bos`` and ``add_eos``; with ``encoding="together"`` its ``token_bytes``
            says what each token spells.
        column: where the list is.
        encoding: see :data:`Encoding`.
        add_bos, add_eos: whether BOS stands first, and EOS, trained as the last piece is, last.
        control_tokens: texts of the tokenizer's control tokens that become those tokens where pieces spell them; of any
            other the spelling is text.
        overflow: what becomes of rows that are too long; None keeps them whole.

    Raises:
        ConfigError: the tokenizer has no such control token, or can't do ``together``.

    Calling it raises a DataError when the row holds no such list, or its texts can't be told apart in their tokens.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        column: str = "segments",
        encoding: Encoding = "apart",
        add_bos: bool = False,
        add_eos: bool = False,
        control_tokens: Sequence[str] = (),
        overflow: OverflowPolicy | None = None,
    ) -> None:
        super().__init__(tokenizer, overflow=overflow)
        if encoding not in get_args(Encoding):
            raise ConfigError(
                f"encoding is {encoding!r}. It is one of {listed(get_args(Encoding))}."
                f"{did_you_mean(encoding, get_args(Encoding))}"
            )
        if encoding == "together" and not callable(getattr(tokenizer, "token_bytes", None)):
            raise ConfigError(
                f"encoding='together' needs to know what each token spells, and {type(tokenizer).__name__} has no "
                "`token_bytes`. Use 'apart'."
            )
        self.column = column
        self.encoding = encoding
        self.add_bos = add_bos
        self.add_eos = add_eos
        self.control_tokens = _known(control_tokens, tokenizer)
        self._trims = "trim_leading_whitespace" in inspect.signature(tokenizer.encode).parameters

    def encoded(self, row: Mapping[str, Any]) -> Encoded:
        """The tokens of the row's pieces, and which of them are of untrained ones."""
        if self.encoding == "apart":
            [(tokens, mask)] = self.encoded_rows([row])
            return Encoded(tokens.tolist(), mask.tolist())
        pieces = self._pieces(row)
        tokens, mask = self._ends(self.add_bos, False)
        for ids, untrained in self._together(pieces):
            tokens += ids
            mask += untrained
        end, _ = self._ends(False, self.add_eos)
        return Encoded(tokens + end, mask + [not (pieces and pieces[-1].trained)] * len(end))

    def encoded_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Encoded]:
        """What :meth:`encoded` gives each row; apart, in arrays, and all pieces are encoded at once."""
        if self.encoding == "together":
            return super().encoded_rows(rows)
        pieces = [self._pieces(row) for row in rows]
        runs = [[(run, piece.trained) for piece in some for run in self._runs(piece.text)] for some in pieces]
        first = iter(self._encode_rows([run for some in runs for run, _ in some[:1]], is_first=True))
        others = iter(self._encode_rows([run for some in runs for run, _ in some[1:]], is_first=False))
        start, end = (_ids(self._ends(*asked)[0]) for asked in ((self.add_bos, False), (False, self.add_eos)))
        encoded: list[Encoded] = []
        for some, held in zip(runs, pieces, strict=True):
            ids = [start, *[next(others if place else first) for place in range(len(some))], end]
            trained = [False, *[flag for _, flag in some], bool(held and held[-1].trained)]
            mask = b"".join([_FLAGS[flag] * (len(found) // 4) for found, flag in zip(ids, trained, strict=True)])
            encoded.append(
                Encoded(np.frombuffer(b"".join(ids), dtype=np.uint32), np.frombuffer(bytearray(mask), dtype=np.bool_))
            )
        return encoded

    def _encode_rows(self, runs: Sequence[str | int], *, is_first: bool) -> list[bytes]:
        """The ids of texts and of control tokens, as bytes of uint32."""
        texts = [run for run in runs if not isinstance(run, int)]
        if hasattr(self.tokenizer, "encode_rows"):
            trim = self._trims and not is_first
            at_once = self.tokenizer.encode_rows(texts, add_bos=False, add_eos=False, trim_leading_whitespace=trim)
        else:
            at_once = [self._encode(text, is_first=is_first) for text in texts]
        encoded = map(_ids, at_once)
        return [_ids([run]) if isinstance(run, int) else next(encoded) for run in runs]

    def _ends(self, add_bos: bool, add_eos: bool) -> tuple[list[int], list[bool]]:
        if not (add_bos or add_eos):
            return [], []
        ids = self.tokenizer.encode("", add_bos=add_bos, add_eos=add_eos)
        return ids, [True] * len(ids)

    def _together(self, pieces: Sequence[Piece]) -> Iterator[tuple[list[int], list[bool]]]:
        flags = b"".join(bytes([piece.trained]) * len(_bytes(piece.text)) for piece in pieces)
        place, is_first = 0, True
        for run in self._runs("".join(piece.text for piece in pieces)):
            ids = [run] if isinstance(run, int) else self._encode(run, is_first=is_first)
            texts = [_bytes(self.control_texts[run])] if isinstance(run, int) else self._spelt(run, ids)
            is_first = False
            untrained = []
            for text in texts:
                untrained.append(0 in flags[place : place + len(text)])
                place += len(text)
            yield ids, untrained

    @property
    def control_texts(self) -> dict[int, str]:
        """The control tokens that pieces may spell: id to text."""
        return {token_id: text for text, token_id in self.control_tokens.items()}

    def _spelt(self, text: str, ids: Sequence[int]) -> list[bytes]:
        """The bytes of each token, which together are the text's.

        Raises:
            UnwritableError: they are not, so that it can't be told where a piece ends.
        """
        spelt = [self.tokenizer.token_bytes(token_id) for token_id in ids]
        if None in spelt or b"".join(spelt) != _bytes(text):
            raise UnwritableError(
                "The tokens don't spell the row's text byte by byte (the tokenizer changes texts, as by a space before "
                "them), so it can't be told which are trained. Use encoding='apart'."
            )
        return spelt

    def _encode(self, text: str, *, is_first: bool) -> list[int]:
        options = {} if is_first or not self._trims else {"trim_leading_whitespace": True}
        return self.tokenizer.encode(text, add_bos=False, add_eos=False, **options)

    def _runs(self, text: str) -> Iterator[str | int]:
        """Ordinary text, and the ids of control tokens, in order."""
        if not self.control_tokens:
            yield from [text] if text else []
            return
        longest_first = sorted(self.control_tokens, key=len, reverse=True)
        for run in re.split(f"({'|'.join(map(re.escape, longest_first))})", text):
            if run:
                yield self.control_tokens.get(run, run)

    def _pieces(self, row: Mapping[str, Any]) -> list[Piece]:
        held = cell(row, self.column, None)
        if not isinstance(held, list | tuple):
            what = "null" if held is None else f"a {type(held).__name__}"
            raise ColumnError(
                f"Column {self.column!r} holds {what}. It must be a list of {{'label': true or false, 'text': ...}}.",
                reason="empty" if held is None else None,
            )
        return [_piece(segment, index) for index, segment in enumerate(held)]


def _piece(segment: Any, index: int) -> Piece:
    if not isinstance(segment, Mapping):
        raise DataError(f"Segment {index} is a {type(segment).__name__}. It must be a dict with 'label' and 'text'.")
    text = segment.get("text")
    label = segment.get("label", segment.get("train"))
    if not isinstance(text, str):
        raise DataError(f"Segment {index} has no text under 'text'; it has {listed(segment)}.")
    if not (isinstance(label, bool) or (isinstance(label, int) and label in (0, 1))):
        raise DataError(
            f"Segment {index} has the label {label!r}. 'label' (or 'train') is true where the text is trained, else "
            "false."
        )
    return Piece(text, bool(label))


def _known(control_tokens: Sequence[str], tokenizer: Any) -> dict[str, int]:
    """The ids of control tokens.

    Raises:
        ConfigError: the tokenizer has no such token.
    """
    if isinstance(control_tokens, str):
        raise ConfigError(f"control_tokens is the text {control_tokens!r}. Give a list of texts.")
    known: Mapping[str, int] = getattr(tokenizer, "special_tokens", {})
    unknown = next((text for text in control_tokens if text not in known), None)
    if unknown is not None:
        raise ConfigError(
            f"The tokenizer has no control token {unknown!r}.{did_you_mean(unknown, known)} It has "
            f"{listed(list(known)[:8])}{', ...' if len(known) > 8 else ''}."
        )
    return {text: known[text] for text in control_tokens}


_FLAGS = {False: b"\x01", True: b"\x00"}
"""Of a mask, by whether a token is trained."""


def _ids(token_ids: Sequence[int] | np.ndarray) -> bytes:
    """The ids as bytes of uint32."""
    return np.asarray(token_ids, dtype=np.uint32).tobytes()


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
