"""A rendered text as pieces of ids: cut where a server cuts it, and at control tokens, nowhere else.

The prefix space of a SentencePiece model. Such a model writes a space before a text, so that its first word has the
same ids as any other. It is written

- at the start of the text;
- after a control token where the file does so (``prefix_scheme`` "always": mistral-common, and Hugging Face's legacy
  conversion, encode the text between two control tokens as a text of its own), and not where it doesn't ("first":
  Hugging Face with ``legacy=False``);
- never after a cut in running text: what is sampled goes on from the prompt, which has a prefix already. A cut that
  stands right behind a control token cuts nothing, and the control token's rule holds.

Byte-level encoders write no such space. An added token with ``lstrip`` or ``rstrip`` takes the white space beside it,
up to the next control token or cut: a prompt is encoded before the reply is known, so it can't take the reply's.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar, NamedTuple, cast

from torchpipe.tokenizers.backend import Backend, PrefixScheme
from torchpipe.tokenizers.control_matcher import ControlMatcher, Ranges, Span, stops


class Piece(NamedTuple):
    """Characters ``[start, stop)`` of a text and their ids: one control token, or ordinary text.

    Pieces of equal text may share their list of ids: don't change it.
    """

    start: int
    stop: int
    token_ids: list[int]
    control: bool


class CutText:
    """A text cut into pieces.

    Attributes:
        stops: where each piece ends, in order; it starts where the one before it ends.
        token_ids: the ids of each. Equal texts may share their list: don't change it.
        controls: the control tokens among them.
    """

    __slots__ = ("_pieces", "controls", "stops", "token_ids")

    def __init__(self, stops: list[int], token_ids: list[list[int]], controls: Sequence[Span]) -> None:
        self.stops = stops
        self.token_ids = token_ids
        self.controls = controls
        self._pieces: list[Piece] | None = None

    @property
    def pieces(self) -> list[Piece]:
        """The pieces one by one."""
        if self._pieces is None:
            starts = (0, *self.stops)
            ends_of_controls = {stop for _, stop, *_ in self.controls}
            are_controls = map(ends_of_controls.__contains__, self.stops)
            self._pieces = list(map(Piece, starts, self.stops, self.token_ids, are_controls))
        return self._pieces

    @property
    def tokens(self) -> list[int]:
        """The ids of all pieces, in a new list."""
        tokens: list[int] = []
        for ids in self.token_ids:
            tokens += ids
        return tokens


class PieceEncoder:
    """Rendered texts to pieces, for one tokenizer; it remembers what short texts were encoded as.

    Args:
        matcher: the control tokens.
        backend: ordinary text to ids. It may have ``prefix_scheme`` ("always", "first" or "never") and
            ``encode_continuation``, the encoder of text that goes on from other text; without them it has no prefix.
    """

    _unfingerprinted: ClassVar[frozenset[str]] = frozenset({"_at_start", "_after_control", "_going_on", "_controls"})

    def __init__(self, matcher: ControlMatcher, backend: Backend) -> None:
        self.matcher = matcher
        self.backend = backend
        go_on = getattr(backend, "encode_continuation", backend.encode)
        scheme: PrefixScheme = getattr(backend, "prefix_scheme", "never")
        at_start = go_on if scheme == "never" else backend.encode
        after_control = backend.encode if scheme == "always" else go_on
        self._at_start, self._after_control, self._going_on = map(_ShortTexts, (at_start, after_control, go_on))
        self._controls = {token_id: [token_id] for token_id in matcher.control_tokens.values()}

    def __reduce__(self) -> "tuple[type[PieceEncoder], tuple[ControlMatcher, Backend]]":
        return PieceEncoder, (self.matcher, self.backend)

    def __call__(
        self,
        text: str,
        template_ranges: Ranges,
        cuts: Iterable[int] = (),
        found: Sequence[Span] | None = None,
    ) -> list[Piece]:
        """The pieces of a text, in order; together they hold each of its characters once. See :meth:`cut`."""
        return self.cut(text, template_ranges, cuts, found).pieces

    def cut(
        self,
        text: str,
        template_ranges: Ranges,
        cuts: Iterable[int] = (),
        found: Sequence[Span] | None = None,
    ) -> CutText:
        """The text in pieces.

        Args:
            text: a rendered conversation.
            template_ranges: where the template's own characters stand in it, in order. Control tokens are found there
                alone (see :class:`~torchpipe.tokenizers.control_matcher.ControlMatcher`).
            cuts: positions at which the text is cut whatever stands there: the ends of prompts.
            found: the control tokens that the matcher finds in the text without cuts, where they are known already.

        Raises:
            TokenizerError: the back end can't encode a text (a lone surrogate, an unknown byte).
        """
        ends = stops(cuts, len(text))
        if found is None or not self._holds_with(ends, found):
            found = self.matcher.spans(text, template_ranges, ends)
        places: list[int] = []
        token_ids: list[list[int]] = []
        ids_of_control, after_control, going_on = self._controls, self._after_control, self._going_on
        short = self._at_start
        at, rest = 0, iter(ends)
        end = next(rest)
        for start, stop, _, token_id in found:
            while end <= start:
                if at < end:
                    places.append(end)
                    token_ids.append(short.encode(text[at:end]) if end - at > SHORT_TEXT else short[text[at:end]])
                    short, at = going_on, end
                end = next(rest)
            if at < start:
                places.append(start)
                token_ids.append(short.encode(text[at:start]) if start - at > SHORT_TEXT else short[text[at:start]])
            places.append(stop)
            token_ids.append(ids_of_control[token_id])
            short, at = after_control, stop
        for stop in (end, *rest):
            if at < stop:
                places.append(stop)
                token_ids.append(short.encode(text[at:stop]) if stop - at > SHORT_TEXT else short[text[at:stop]])
                short, at = going_on, stop
        return CutText(places, token_ids, found)

    def _holds_with(self, ends: Sequence[int], found: Sequence[Span]) -> bool:
        """Whether the control tokens are the same where the text is cut: no cut is inside one, nor beside white space
        that one takes.
        """
        if self.matcher.takes_neighbours:
            return len(ends) == 1
        for end in ends[:-1]:
            place = bisect_left(found, (end,)) - 1
            if place >= 0 and found[place][1] > end:
                return False
        return True


def encode_pieces(
    text: str, template_ranges: Ranges, cuts: Iterable[int], matcher: ControlMatcher, backend: Backend
) -> list[Piece]:
    """The pieces of one text; :class:`PieceEncoder` says more, and is faster for many.

    >>> class Letters:
    ...     name, num_tokens, control_tokens = "letters", 256, {}
    ...     def encode(self, text): return list(text.encode())
    ...     def decode(self, token_ids): return bytes(token_ids).decode()
    >>> encode_pieces("<s>hi", [(0, 3)], [], ControlMatcher({"<s>": 256}), Letters())
    [Piece(start=0, stop=3, token_ids=[256], control=True), Piece(start=3, stop=5, token_ids=[104, 105], control=False)]
    """
    return PieceEncoder(matcher, backend)(text, template_ranges, cuts)


SHORT_TEXT = 32  # characters; what templates write between control tokens is mostly shorter
_MOST_REMEMBERED = 10_000


class _ShortTexts(dict[str, list[int]]):
    """Ids of short texts by text, encoded when they are first asked for: what a template writes stands in every row."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        super().__init__()
        self.encode = encode

    def __missing__(self, text: str) -> list[int]:
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        ids = self[text] = self.encode(text)
        return ids


def remembering(encode: Callable[[str], list[int]]) -> Callable[[str], list[int]]:
    """The encoder, with the ids of short texts at hand."""
    short = _ShortTexts(encode)

    def encode_or_recall(text: str) -> list[int]:
        return encode(text) if len(text) > SHORT_TEXT else short[text]

    return encode_or_recall


def token_ranges(piece: Piece, text: str, backend: Backend) -> list[tuple[int, int]]:
    """The characters of ``text`` that each token of a piece stands for; for traces.

    Tokens that share a character all have that character's range; the space that a model writes before a text has no
    characters. Where the tokens don't spell the text, since it was normalised or holds unknown characters, each has
    the range of the whole piece.
    """
    whole = [(piece.start, piece.stop)] * len(piece.token_ids)
    token_bytes = cast("Callable[[int], bytes | None] | None", getattr(backend, "token_bytes", None))
    if piece.control or token_bytes is None:
        return whole
    spelled = [token_bytes(token_id) for token_id in piece.token_ids]
    if None in spelled:
        return whole
    tokens = cast("list[bytes]", spelled)
    expected, given = text[piece.start : piece.stop].encode(), b"".join(tokens)
    prefix = len(given) - len(expected)
    if given[max(prefix, 0) :] != expected or given[: max(prefix, 0)] not in (b"", b" "):
        return whole
    return list(_ranges(tokens, prefix, text, piece.start, piece.stop))


def _ranges(tokens: list[bytes], prefix: int, text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    ends = []  # of each character, in bytes
    size = 0
    for character in text[start:stop]:
        size += len(character.encode())
        ends.append(size)
    position = -prefix
    for token in tokens:
        first, position = max(position, 0), position + len(token)
        begin = bisect_right(ends, first)
        # The character that holds the token's last byte; the prefix alone, or no bytes at all, holds none.
        last = bisect_right(ends, position - 1) + 1 if position > first else begin
        yield start + begin, start + last
