"""A text as pieces of ids: what is cut, where a prefix space stands, and which characters a token stands for."""

import json
import pickle
import unicodedata
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torchpipe.errors import TokenizerError
from torchpipe.tokenizers import Backend, HuggingFaceBackend, SentencePieceBackend
from torchpipe.tokenizers.control_matcher import ControlMatcher, TokenFlags
from torchpipe.tokenizers.pieces import Piece, PieceEncoder, encode_pieces, token_ranges

GoldenTokenizer = Callable[[str], tuple[Backend, dict[str, int]]]
BYTE_LEVEL = ["llama3.1", "qwen3", "deepseek-v4", "mistral-v3-tekken", "gpt-oss"]

TEXTS = st.lists(
    st.sampled_from([" ", "\n", "\n\n", "Hello", " world", "é", "日本", "🙂", "<|", "|>", "1", "'s", "\t"])
)
texts = st.one_of(TEXTS.map("".join), st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
cuts_in = st.sets(st.integers(0, 60), max_size=4)
unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ids_of(pieces: list[Piece]) -> list[int]:
    return list(chain.from_iterable(piece.token_ids for piece in pieces))


@pytest.fixture(scope="module", params=BYTE_LEVEL)
def encoder(request: pytest.FixtureRequest, golden_tokenizer: GoldenTokenizer) -> PieceEncoder:
    backend, control_tokens = golden_tokenizer(request.param)
    return PieceEncoder(ControlMatcher(control_tokens), backend)


@unhurried
@given(st.lists(st.tuples(st.booleans(), texts), max_size=6), cuts_in, st.data())
def test_pieces_hold_each_character_once_and_decode_to_the_text(
    encoder: PieceEncoder, parts: list[tuple[bool, str]], cuts: set[int], data: st.DataObject
) -> None:
    backend, control_tokens = encoder.backend, encoder.matcher.control_tokens
    names = {token_id: text for text, token_id in control_tokens.items()}
    text, ranges = "", []
    for template, part in parts:
        control = data.draw(st.sampled_from(sorted(control_tokens)[:40]))
        spelled = part + control + part
        ranges += [(len(text), len(text) + len(spelled))] if template else []
        text += spelled
    pieces = encoder(text, ranges, cuts)
    assert pieces == encoder(text, ranges, cuts, encoder.matcher.spans(text, ranges))
    assert [piece.start for piece in pieces] == [0, *(piece.stop for piece in pieces)][: len(pieces)]
    assert (pieces[-1].stop if pieces else 0) == len(text)
    assert all(not piece.start < cut < piece.stop for piece in pieces for cut in cuts)
    for piece in pieces:
        spelled = text[piece.start : piece.stop]
        if piece.control:
            assert names[piece.token_ids[0]] == spelled
            assert any(start <= piece.start and piece.stop <= stop for start, stop in joined(ranges))
        else:
            assert set(names).isdisjoint(piece.token_ids)
            assert backend.decode(piece.token_ids) == normal(backend, spelled)


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for start, stop in ranges:
        if out and out[-1][1] == start:
            out[-1] = (out[-1][0], stop)
        else:
            out.append((start, stop))
    return out


def normal(backend: Backend, text: str) -> str:
    return unicodedata.normalize("NFC", text) if getattr(backend, "_normalization", None) else text


@unhurried
@given(text=texts, ranges=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=4), cuts=cuts_in)
def test_ids_do_not_depend_on_whose_text_it_is_where_nothing_spells_a_control_token(
    encoder: PieceEncoder, text: str, ranges: list[tuple[int, int]], cuts: set[int]
) -> None:
    if encoder.matcher.find(text, [(0, len(text))]):
        return
    template = [(start, start + length) for start, length in sorted(ranges)]
    assert encoder(text, template, cuts) == encoder(text, [], cuts)


def test_a_cut_stands_where_a_server_cuts(golden_tokenizer: GoldenTokenizer) -> None:
    backend, control_tokens = golden_tokenizer("qwen3")
    encode = PieceEncoder(ControlMatcher(control_tokens), backend)
    prompt, reply = "<|im_start|>assistant\n", "\nHi<|im_end|>"
    text = prompt + reply
    whole, cut = encode(text, [(0, len(text))]), encode(text, [(0, len(text))], [len(prompt)])
    assert ids_of(cut) == ids_of(encode(prompt, [(0, 99)])) + ids_of(encode(reply, [(0, 99)])) != ids_of(whole)


def test_text_that_normalises_is_normalised_between_control_tokens(golden_tokenizer: GoldenTokenizer) -> None:
    backend, control_tokens = golden_tokenizer("qwen3")
    text = "<|im_end|>\u0338cafe\u0301"  # ">" and U+0338 would compose
    pieces = encode_pieces(text, [(0, len(text))], [], ControlMatcher(control_tokens), backend)
    assert [piece.control for piece in pieces] == [True, False]
    assert backend.decode(pieces[1].token_ids) == "\u0338caf\u00e9"
    assert set(token_ranges(pieces[1], text, backend)) == {(10, len(text))}


@pytest.fixture(scope="module")
def mistral(shared_data: Path) -> Path:
    return shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1"


def shown(pieces: list[Piece], backend: SentencePieceBackend) -> list[list[str]]:
    return [[backend.processor.id_to_piece(token_id) for token_id in piece.token_ids] for piece in pieces]


def test_a_prefix_space_follows_control_tokens_where_the_files_tokenizer_puts_it(mistral: Path) -> None:
    text = "Hi<s>the<s> cat"
    for scheme, expected in {
        "always": [["▁Hi"], ["<s>"], ["▁the"], ["<s>"], ["▁", "▁cat"]],
        "first": [["▁Hi"], ["<s>"], ["the"], ["<s>"], ["▁cat"]],
        "never": [["Hi"], ["<s>"], ["the"], ["<s>"], ["▁cat"]],
    }.items():
        backend = SentencePieceBackend(mistral, prefix_scheme=scheme)  # type: ignore[arg-type]
        for travelled in (backend, pickle.loads(pickle.dumps(backend))):
            encode = PieceEncoder(ControlMatcher(backend.control_tokens), travelled)
            assert shown(encode(text, [(0, len(text))]), backend) == expected


def test_what_goes_on_from_a_prompt_has_no_prefix_space_of_its_own(mistral: Path) -> None:
    backend = SentencePieceBackend(mistral)
    text = "<s>[INST] hi [/INST] the cat"
    cut = text.index(" the")
    pieces = encode_pieces(text, [(0, len(text))], [cut], ControlMatcher(backend.control_tokens), backend)
    assert shown(pieces, backend)[-1] == ["▁the", "▁cat"]
    assert ids_of(pieces)[-2:] == backend.encode("the cat")
    behind_control = encode_pieces("<s>the", [(0, 3)], [3], ControlMatcher(backend.control_tokens), backend)
    assert shown(behind_control, backend) == [["<s>"], ["▁the"]]


# A tokenizer.json with each way of putting a space before a text, and added tokens that take white space.
SPACES = {
    "first": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}},
    "always": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}},
    "never": {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": False}},
    "prepend": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        }
    },
    "bytes": {
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    },
}
ADDED = {"<s>": {}, "<l>": {"lstrip": True}, "<r>": {"rstrip": True}, "<b>": {"lstrip": True, "rstrip": True}}
WORDS = [
    "▁",
    "a",
    "b",
    "c",
    "▁a",
    "ab",
    "▁b",
    "▁▁",
    "é",
    "\n",
    "<",
    ">",
    "s",
    "l",
    "r",
    "Ġ",
    "Ċ",
    "Ã",
    "©",
    "Ġa",
    "<unk>",
]


@pytest.fixture(scope="module", params=SPACES)
def spaced_file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    vocab = {word: token_id for token_id, word in enumerate(WORDS)}
    spec: dict[str, Any] = {
        "version": "1.0",
        "added_tokens": [
            {"id": len(WORDS) + offset, "content": text, "special": True, "normalized": False}
            | {flag: flags.get(flag, False) for flag in TokenFlags._fields}
            for offset, (text, flags) in enumerate(ADDED.items())
        ],
        "normalizer": None,
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": None,
        "model": {"type": "BPE", "vocab": vocab, "merges": ["▁ a", "a b", "▁ b", "▁ ▁", "Ġ a"], "unk_token": "<unk>"},
    } | SPACES[request.param]
    file = tmp_path_factory.mktemp("spaced") / "tokenizer.json"
    file.write_text(json.dumps(spec), encoding="utf-8")
    return file


@unhurried
@given(st.lists(st.sampled_from([*ADDED, " ", "  ", "\n", "a", "b", "ab", "é", " \u3000"]), max_size=12).map("".join))
def test_a_rendered_text_has_the_ids_that_the_library_gives_it(spaced_file: Path, text: str) -> None:
    backend = HuggingFaceBackend(spaced_file)
    library = tokenizers.Tokenizer.from_file(str(spaced_file))
    matcher = ControlMatcher(backend.control_tokens, flags=backend.flags)
    pieces = encode_pieces(text, [(0, len(text))], [], matcher, backend)
    assert ids_of(pieces) == library.encode(text, add_special_tokens=False).ids
    assert "".join(text[piece.start : piece.stop] for piece in pieces) == text


def test_a_reply_keeps_the_space_that_the_prompts_last_token_cannot_take(spaced_file: Path) -> None:
    backend = HuggingFaceBackend(spaced_file)
    encode = PieceEncoder(ControlMatcher(backend.control_tokens, flags=backend.flags), backend)
    pieces = encode("a<r>\n ab", [(0, 8)], [5])
    assert [(piece.start, piece.stop) for piece in pieces] == [(0, 1), (1, 5), (5, 8)]
    travelled = pickle.loads(pickle.dumps(encode))
    assert travelled("a<r>\n ab", [(0, 8)], [5]) == pieces


def test_ranges_of_tokens_are_those_of_their_characters(golden_tokenizer: GoldenTokenizer) -> None:
    text = "<|begin_of_text|>a naïve 🙂\U00020000 b"
    for backend, tokens in (golden_tokenizer("llama3.1"), golden_tokenizer("deepseek-v4")):
        for piece in encode_pieces(text, [(0, len(text))], [], ControlMatcher(tokens), backend):
            ranges = token_ranges(piece, text, backend)
            assert (ranges[0][0], ranges[-1][1]) == (piece.start, piece.stop)
            for token_id, (start, stop) in zip(piece.token_ids, ranges, strict=True):
                token = text[start:stop] if piece.control else backend.decode([token_id])
                assert token == text[start:stop] or ("\ufffd" in token and stop - start <= 2)


def test_a_prefix_space_has_no_characters_and_tokens_of_one_character_share_it(mistral: Path) -> None:
    backend = SentencePieceBackend(mistral)
    (piece,) = encode_pieces("the 🦣\n", [], [], ControlMatcher({}), backend)
    assert token_ranges(piece, "the 🦣\n", backend) == [(0, 3), (3, 4), (4, 5), (4, 5), (4, 5), (4, 5), (5, 6)]
    (piece,) = encode_pieces("🦣", [], [], ControlMatcher({}), backend)
    assert token_ranges(piece, "🦣", backend) == [(0, 0), (0, 1), (0, 1), (0, 1), (0, 1)]


def test_a_back_end_that_tells_no_bytes_gives_the_pieces_range() -> None:
    class Letters:
        name, num_tokens = "letters", 256

        def __init__(self) -> None:
            self.control_tokens: dict[str, int] = {}

        def encode(self, text: str) -> list[int]:
            return list(text.encode())

        def decode(self, token_ids: Sequence[int]) -> str:
            return bytes(token_ids).decode()

    piece = encode_pieces("abc", [], [], ControlMatcher({}), Letters())[0]
    assert token_ranges(piece, "abc", Letters()) == [(0, 3)] * 3


def test_an_empty_text_has_no_pieces(mistral: Path) -> None:
    assert encode_pieces("", [], [0], ControlMatcher({"<s>": 1}), SentencePieceBackend(mistral)) == []


def test_text_without_utf8_is_refused(golden_tokenizer: GoldenTokenizer) -> None:
    backend, control_tokens = golden_tokenizer("llama3.1")
    with pytest.raises(TokenizerError, match="lone surrogate"):
        encode_pieces("a\ud83d", [], [], ControlMatcher(control_tokens), backend)
