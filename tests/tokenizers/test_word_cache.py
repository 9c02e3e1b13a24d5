"""Words that a SentencePiece back end keeps: ids are the library's own, whatever the model and the text."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from torchpipe.tokenizers import SentencePieceBackend
from torchpipe.tokenizers.sentencepiece_model import adds_dummy_prefix, merges_text_as_it_is, without_dummy_prefix
from torchpipe.tokenizers.word_cache import MAX_WORD, WordCache, are_within_words

MISTRAL = "tokenizers/mistral/tokenizer.model.v1"
LIKE_LLAMA = {"model_type": "bpe", "normalization_rule_name": "identity", "remove_extra_whitespaces": False}
# Name of a trained model: what it differs in from Llama's kind, and whether its words can be encoded apart.
MODELS: dict[str, tuple[dict[str, Any], bool]] = {
    "like Llama": ({"byte_fallback": True}, True),
    "no byte pieces": ({}, True),
    "no space before a text": ({"add_dummy_prefix": False, "byte_fallback": True}, True),
    "pieces of several words": ({"split_by_whitespace": False}, False),
    "a piece that the user defined": ({"user_defined_symbols": ["<turn>", "\n\n"]}, True),
    "a piece of two words that the user defined": ({"user_defined_symbols": ["new york"]}, False),
    "space at a word's end": ({"treat_whitespace_as_suffix": True}, False),
    "white space dropped": ({"remove_extra_whitespaces": True}, False),
    "text normalized": ({"normalization_rule_name": "nmt_nfkc"}, False),
    "unigram": ({"model_type": "unigram"}, False),
}
# Spaces in runs, U+2581 as text, what a piece may hold, and characters that the models don't know.
SPACES, WORDS = (" ", "  ", "▁", "\n", "\n\n", "\t"), ("a", "an", "the", "new", "york", "new york", "7", "x" * 40)
FRAGMENTS = st.sampled_from([*SPACES, *WORDS, "<turn>", "<s>", "</s>", "é", "日", "🙂", "\0"])
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join)


@pytest.fixture(scope="module", params=MODELS)
def trained(request: pytest.FixtureRequest, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Name and file of a small model, trained on real text."""
    with (shared_data / "gsm8k" / "train.jsonl").open(encoding="utf-8") as file:
        lines = [json.loads(next(file))["question"] for _ in range(60)]
    changed, _ = MODELS[request.param]
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([*lines, "the new york the new york é"]),
        model_writer=model,
        vocab_size=500,
        hard_vocab_limit=False,
        minloglevel=2,
        **{**LIKE_LLAMA, **changed},
    )
    path = tmp_path_factory.mktemp("models") / "tokenizer.model"
    path.write_bytes(model.getvalue())
    return request.param, path


def test_ids_are_those_of_the_library_for_every_kind_of_model(trained: Any) -> None:
    _, path = trained
    backend, library = SentencePieceBackend(path), SentencePieceProcessor(model_file=str(path))
    unprefixed = SentencePieceProcessor(model_proto=without_dummy_prefix(path.read_bytes()))

    @settings(max_examples=150, deadline=None)
    @given(text=TEXTS)
    def equal(text: str) -> None:
        for _ in range(2):  # the second time, all words are kept
            assert backend.encode(text) == library.encode(text)
            trimmed = backend.encode(text, trim_leading_whitespace=True)
            assert trimmed == (unprefixed if backend.encodes_whitespace else library).encode(text)

    equal()


def test_words_are_encoded_apart_only_where_no_merge_can_join_them(trained: Any) -> None:
    name, path = trained
    library = SentencePieceProcessor(model_file=str(path))
    pieces = library.id_to_piece(list(range(library.vocab_size())))
    assert (merges_text_as_it_is(path.read_bytes()) and are_within_words(pieces)) is MODELS[name][1]


def test_the_model_file_says_whether_a_space_comes_first(shared_data: Path) -> None:
    proto = (shared_data / MISTRAL).read_bytes()
    assert adds_dummy_prefix(proto)
    assert not adds_dummy_prefix(without_dummy_prefix(proto))


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(TEXTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=60)))
def test_ids_of_a_published_model_are_those_of_the_library(text: str, published: Any) -> None:
    backend, library = published
    assert backend.encode(text) == library.encode(text)


@pytest.fixture(scope="module")
def published(shared_data: Path) -> Any:
    file = str(shared_data / MISTRAL)
    return SentencePieceBackend(file), SentencePieceProcessor(model_file=file)


def test_a_word_is_encoded_once_unless_it_is_long() -> None:
    encoded: list[str] = []

    def encode(word: str) -> list[int]:
        encoded.append(word)
        return [len(word)]

    long = " " + "x" * MAX_WORD
    words = WordCache(encode)
    for _ in range(2):
        assert words.encode(f"a  b a{long}") == [1, 3, 2, len(long)]
    assert encoded == ["a", "  b", " a", long, long]


def test_changing_what_was_returned_changes_nothing_that_is_kept(published: Any) -> None:
    backend, library = published
    backend.encode("hello").append(0)
    assert backend.encode("hello") == library.encode("hello")
