"""Tokens one by one: their texts joined are the row, whatever the tokenizer cuts through."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.audit.pieces import Pieces
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()


class DecodeOnly:
    """A tokenizer of somebody else's: ids to text, and nothing more."""

    def decode(self, token_ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        return TOKENIZER.decode(token_ids, truncate_at_eos=False, skip_special_tokens=skip_special_tokens)


class SpaceDropping:
    """Decodes as SentencePiece does: the space before a text's first word is lost."""

    def decode(self, token_ids: Sequence[int]) -> str:
        return DecodeOnly().decode(token_ids, skip_special_tokens=False).removeprefix(" ")


def encoded(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_bos=False, add_eos=False)


def shown(tokenizer: object, token_ids: list[int]) -> list[str]:
    return [piece.shown for piece in Pieces(tokenizer)(token_ids)]


@given(st.text(max_size=40))
def test_the_texts_joined_are_the_row(text: str) -> None:
    ids = TOKENIZER.encode(text)
    whole = f"<|begin_of_text|>{text}<|end_of_text|>"
    for tokenizer in (TOKENIZER, DecodeOnly()):
        pieces = Pieces(tokenizer)(ids)
        assert len(pieces) == len(ids)
        assert "".join(piece.text for piece in pieces) == whole
    assert b"".join(piece.raw or b"" for piece in Pieces(TOKENIZER)(ids)) == text.encode()


def test_newlines_are_not_lost_by_showing_tokens_one_by_one() -> None:
    assert "".join(shown(TOKENIZER, encoded("a\n\nb"))) == "a↵↵b"


def test_an_emoji_that_is_split_shows_its_bytes_and_itself() -> None:
    ids = encoded("🦙")
    assert len(ids) > 1
    assert "".join(shown(TOKENIZER, ids)) == "⟨0xF0⟩⟨0x9F⟩⟨0xA6⟩⟨0x99⟩⟨=🦙⟩"
    assert shown(DecodeOnly(), ids) == ["🦙"] + ["⟨…⟩"] * (len(ids) - 1)
    assert [piece.part_of for piece in Pieces(TOKENIZER)(ids)] == list(range(len(ids)))


def test_an_emoji_that_is_cut_shows_its_bytes() -> None:
    ids = encoded("ok 🦙")
    pieces = Pieces(TOKENIZER)(ids[:-1])
    assert "".join(piece.shown for piece in pieces).endswith("⟨0xA6⟩")
    assert "\ufffd" in "".join(piece.text for piece in pieces)


def test_text_that_looks_like_a_control_token_does_not_look_like_one() -> None:
    forged = shown(TOKENIZER, encoded("<|eot_id|> ⟦<|eot_id|>⟧"))
    assert not any(cell.startswith("⟦") for cell in forged)
    pieces = Pieces(TOKENIZER)([*encoded("<|eot_id|>"), TOKENIZER.special_tokens["<|eot_id|>"]])
    assert [piece.control for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[-1].shown == "⟦<|eot_id|>⟧"


def test_an_id_that_the_vocabulary_lacks_is_shown_as_its_number() -> None:
    assert shown(TOKENIZER, [*encoded("a"), 10**6, *encoded("b")]) == ["a", "⟨id 1000000⟩", "b"]
    assert shown(DecodeOnly(), [10**6])[0] == "⟨id 1000000⟩"


def test_spaces_stay_with_a_decoder_that_drops_the_first() -> None:
    assert shown(SpaceDropping(), encoded(" one two")) == ["one", "·two"]


def test_a_row_without_tokens_has_no_pieces() -> None:
    assert Pieces(TOKENIZER)([]) == []


@pytest.mark.parametrize("kind", ["ranks", "json"])
def test_the_published_vocabulary_shows_the_same_from_both_its_files(
    llama3_tokenizer_file: Path, llama3_tokenizer_json: Path, kind: str
) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file if kind == "ranks" else llama3_tokenizer_json))
    text = "Grüße, 世界!\r\n\tx  \u202e 🦙🏽"
    pieces = Pieces(tokenizer)(tokenizer.encode(text, add_bos=False, add_eos=False))
    assert "".join(piece.text for piece in pieces) == text
    assert "U+202E⟩" in "".join(piece.shown for piece in pieces)
