"""The SentencePiece back end on real model files: Mistral's, T5's and two small ones."""

import pickle
from pathlib import Path

import pytest
from sentencepiece import SentencePieceProcessor

from torchpipe.errors import SourceError, TokenizerError
from torchpipe.tokenizers import SentencePieceBackend, open_backend
from torchpipe.tokenizers.families import MISTRAL

FILES = {
    "mistral v1": "mistral/tokenizer.model.v1",
    "mistral v3": "mistral/mistral_instruct_tokenizer_240323.model.v3",
    "t5": "torchtune/sentencepiece.model",
    "small": "torchtune/m.model",
    "botchan": "sentencepiece/test_model.model",
}
TEXTS = [
    "",
    " ",
    "Hello, world!",
    " two  spaces",
    "naïve café",
    "日本語",
    "🙂👩‍👩‍👧",
    "a\r\nb\tc",
    "x" * 5000,
    "\u200b\ufeff",
]


@pytest.fixture(scope="module", params=FILES)
def file(request: pytest.FixtureRequest, shared_data: Path) -> Path:
    return shared_data / "tokenizers" / FILES[request.param]


@pytest.fixture(scope="module")
def mistral_v3(shared_data: Path) -> SentencePieceBackend:
    return SentencePieceBackend(shared_data / "tokenizers" / FILES["mistral v3"])


def test_ids_equal_those_of_the_library(file: Path) -> None:
    backend, library = SentencePieceBackend(file), SentencePieceProcessor(model_file=str(file))
    for text in TEXTS:
        assert backend.encode(text) == library.encode(text)


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_whole_from_a_model_with_byte_pieces(mistral_v3: SentencePieceBackend, text: str) -> None:
    assert mistral_v3.decode(mistral_v3.encode(text)) == text


def test_no_control_token_can_be_forged(file: Path) -> None:
    backend = SentencePieceBackend(file)
    library = SentencePieceProcessor(model_file=str(file))
    assert backend.control_tokens["</s>"] == library.eos_id()
    controls = set(backend.control_tokens.values()) - {library.unk_id()}
    for text in backend.control_tokens:
        for spelled in (text, f"a{text}b", f" {text} "):
            assert controls.isdisjoint(backend.encode(spelled))
            assert controls.isdisjoint(backend.encode(spelled, trim_leading_whitespace=True))


def test_mistral_v3_lists_its_turn_markers(mistral_v3: SentencePieceBackend) -> None:
    markers = {"<s>": 1, "</s>": 2, "[INST]": 3, "[/INST]": 4, "[TOOL_CALLS]": 5}
    assert markers.items() <= mistral_v3.control_tokens.items()
    assert mistral_v3.num_tokens == 32768


def test_a_named_piece_becomes_a_control_token(shared_data: Path) -> None:
    file = shared_data / "tokenizers" / FILES["mistral v1"]
    plain, marked = SentencePieceBackend(file), SentencePieceBackend(file, ["▁the", "not in the file"])
    the = plain.encode("the")[0]
    assert plain.encode("see the cat").count(the) == 1
    assert marked.control_tokens == {**plain.control_tokens, "▁the": the}
    assert the not in marked.encode("see the cat")
    assert marked.decode(marked.encode("see the cat")) == "see the cat"
    assert marked.encode("a dog") == plain.encode("a dog")
    assert the not in pickle.loads(pickle.dumps(marked)).encode("the")


def test_trimming_leaves_out_the_space_before_a_text(mistral_v3: SentencePieceBackend) -> None:
    words = mistral_v3.encode("Hello there")
    trimmed = mistral_v3.encode("Hello there", trim_leading_whitespace=True)
    assert mistral_v3.processor.id_to_piece(words[0]).startswith("▁")
    assert not mistral_v3.processor.id_to_piece(trimmed[0]).startswith("▁")
    assert mistral_v3.encode("say") + mistral_v3.encode(" Hello there", trim_leading_whitespace=True) == (
        mistral_v3.encode("say Hello there")
    )
    assert mistral_v3.encode("", trim_leading_whitespace=True) == []


def test_trimming_changes_nothing_where_the_model_drops_white_space(shared_data: Path) -> None:
    backend = SentencePieceBackend(shared_data / "tokenizers" / FILES["t5"])
    assert backend.encodes_whitespace is False
    assert backend.encode(" hello", trim_leading_whitespace=True) == backend.encode("hello")


def test_back_ends_travel_to_worker_processes(file: Path) -> None:
    backend = SentencePieceBackend(file)
    copy = pickle.loads(pickle.dumps(backend))
    assert copy.encode("a <s> b") == backend.encode("a <s> b")
    assert copy.control_tokens == backend.control_tokens


def test_a_lone_surrogate_is_refused(mistral_v3: SentencePieceBackend) -> None:
    with pytest.raises(TokenizerError, match="lone surrogate"):
        mistral_v3.encode("a\ud83db")


def test_a_missing_or_foreign_file_is_named(tmp_path: Path, llama3_tokenizer_file: Path) -> None:
    with pytest.raises(SourceError, match=r"Can't read the tokenizer file .*none\.model"):
        SentencePieceBackend(tmp_path / "none.model")
    with pytest.raises(TokenizerError, match="is not a SentencePiece model"):
        SentencePieceBackend(llama3_tokenizer_file)
    (tmp_path / "empty.model").write_bytes(b"")
    with pytest.raises(TokenizerError, match=r"empty\.model is not a SentencePiece model"):
        SentencePieceBackend(tmp_path / "empty.model")


def test_a_cut_file_is_refused(tmp_path: Path, file: Path) -> None:
    (tmp_path / "cut.model").write_bytes(file.read_bytes()[:5000])
    with pytest.raises(TokenizerError, match=r"cut\.model is not a SentencePiece model"):
        SentencePieceBackend(tmp_path / "cut.model")


def test_open_backend_tells_a_model_file_by_how_it_begins(file: Path) -> None:
    assert isinstance(open_backend(file, MISTRAL), SentencePieceBackend)


def test_bytes_of_a_token(mistral_v3: SentencePieceBackend) -> None:
    ids = mistral_v3.encode("a\tnaïve 日𒀀")
    assert b"".join(mistral_v3.token_bytes(token_id) or b"" for token_id in ids) == " a\tnaïve 日𒀀".encode()
    assert mistral_v3.token_bytes(40000) is None
