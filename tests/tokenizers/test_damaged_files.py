"""Tokenizer files that are damaged, cut, or of another kind: a sentence each, and no text that is lost."""

import base64
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.errors import ConfigError, TokenizerError
from torchpipe.models.clip import clip_tokenizer
from torchpipe.models.gemma import gemma_tokenizer
from torchpipe.models.llama2 import llama2_tokenizer
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.models.llama4 import llama4_tokenizer
from torchpipe.models.mistral import mistral_tokenizer
from torchpipe.models.phi3 import phi3_mini_tokenizer
from torchpipe.models.phi4 import phi4_tokenizer
from torchpipe.models.qwen2 import qwen2_tokenizer
from torchpipe.models.qwen2_5 import qwen2_5_tokenizer
from torchpipe.models.qwen3 import qwen3_tokenizer
from torchpipe.models.t5 import t5_tokenizer
from torchpipe.modules.tokenizers import (
    GPT2BaseTokenizer,
    HuggingFaceBaseTokenizer,
    SentencePieceBaseTokenizer,
    TikTokenBaseTokenizer,
)
from torchpipe.tokenizers import LLAMA3, HuggingFaceBackend, TikTokenBackend
from torchpipe.tokenizers.byte_level import ByteLevelBackend

BYTES = "\n".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}" for byte in range(256))
ASCII = "\n".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}" for byte in range(128))

FORMS: dict[str, tuple[str, list[Callable[[str], Any]]]] = {
    "sentencepiece": (
        ".model",
        [
            llama2_tokenizer,
            mistral_tokenizer,
            gemma_tokenizer,
            phi3_mini_tokenizer,
            t5_tokenizer,
            SentencePieceBaseTokenizer,
        ],
    ),
    "byte-pair": (
        ".json",
        [
            llama3_tokenizer,
            llama4_tokenizer,
            qwen2_tokenizer,
            qwen2_5_tokenizer,
            qwen3_tokenizer,
            phi4_tokenizer,
            lambda path: TikTokenBaseTokenizer(path, "ranks", LLAMA3.pattern, 300, 301, {}),
        ],
    ),
    "merges": ("merges", [clip_tokenizer, lambda path: GPT2BaseTokenizer(path, path)]),
}
FOREIGN = {
    "nothing": b"",
    "zeros": b"\0" * 200,
    "noise": bytes(range(256)) * 4,
    "text": b"# A page about tokenizers\n",
    "a pointer": b"version https://git-lfs.github.com/spec/v1\nsize 12\n",
    "JSON": b"{}",
    "a list": b"[1]",
    "half JSON": b'{"model": {"type": "BPE", ',
    "null": b"null",
}


@pytest.mark.parametrize("held", FOREIGN)
@pytest.mark.parametrize("form", FORMS)
def test_no_class_reads_what_is_no_tokenizer_file(tmp_path: Path, form: str, held: str) -> None:
    file = tmp_path / "given"
    file.write_bytes(FOREIGN[held])
    for read in FORMS[form][1]:
        with pytest.raises(TokenizerError, match="given"):
            read(str(file))


def test_each_class_reads_or_refuses_each_file_and_loses_no_text(shared_data: Path) -> None:
    files = [path for path in sorted((shared_data / "tokenizers").rglob("*")) if path.is_file()]
    assert len(files) > 8
    outcomes = {"read": 0, "refused": 0}
    for _, readers in FORMS.values():
        for read in readers:
            for file in files:
                try:
                    tokenizer = read(str(file))
                    options = {} if hasattr(tokenizer, "max_seq_len") else {"add_bos": False}
                    text = tokenizer.decode(tokenizer.encode("Hello wörld", **options))
                except TokenizerError:
                    outcomes["refused"] += 1
                else:
                    # Models of SentencePiece without byte pieces have an unknown piece, which stands for the letter.
                    assert "wörld" in text.lower() or file.parent.name == "sentencepiece" or file.name == "m.model"
                    outcomes["read"] += 1
    assert outcomes["read"] > 20 < outcomes["refused"]


def test_ranks_without_a_byte_of_the_text_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "ascii.tiktoken"
    file.write_text(ASCII)
    backend = TikTokenBackend(file, LLAMA3.pattern)
    assert backend.encode("Hi") == [72, 105]
    with pytest.raises(TokenizerError, match=r"ascii\.tiktoken: the vocabulary lacks a byte of 'é', character 1 of a"):
        backend.encode("né")
    file.write_text(BYTES)
    assert TikTokenBackend(file, LLAMA3.pattern).encode("é") == [0xC3, 0xA9]


def small_json(shared_data: Path) -> dict[str, Any]:
    return json.loads((shared_data / "tokenizers" / "torchtune" / "tiny_bpe_tokenizer.json").read_text("utf-8"))


def test_a_tokenizer_json_without_a_byte_of_the_text_is_refused(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "tokenizers" / "torchtune" / "tiny_bpe_tokenizer.json"
    backend = HuggingFaceBackend(path)
    assert backend.decode(backend.encode("Hello x")) == "Hello x"
    for text, char in (("wörld", "ö"), ("🦙", "🦙"), ("o\u0308", "ö")):  # the file's normalizer joins the last one
        with pytest.raises(TokenizerError, match=f"the vocabulary lacks a byte of '{char}'"):
            backend.encode(text)
    with pytest.raises(TokenizerError, match="lacks a byte of 'ö', character 7 of a text"):
        qwen2_tokenizer(str(path)).encode("Hello wörld")
    spec = small_json(shared_data)
    spec["model"]["unk_token"] = "!"
    (tmp_path / "with_unknown.json").write_text(json.dumps(spec))
    unknown = HuggingFaceBackend(tmp_path / "with_unknown.json")
    assert "!" in unknown.decode(unknown.encode("wörld"))


@pytest.mark.parametrize(
    "change",
    [
        {"added_tokens": None},
        {"added_tokens": [1]},
        {"added_tokens": [{"content": "<x>"}]},
        {"added_tokens": [{"content": "<x>", "id": "7"}]},
        {"added_tokens": [{"content": "<x>", "id": -1}]},
        {"added_tokens": [{"content": None, "id": 1}]},
        {"added_tokens": [{"content": "", "id": 1}]},
        {"added_tokens": [{"content": "<x>", "id": 1}, {"content": "<x>", "id": 2}]},
        {"model": None},
        {"model": []},
        {"model": {"type": "BPE", "vocab": None, "merges": []}},
        {"model": {"type": "BPE", "vocab": [1], "merges": []}},
        {"model": {"type": "BPE", "vocab": {}, "merges": None}},
        {"model": {"type": "BPE", "vocab": {}, "merges": [1]}},
        {"model": {"type": "BPE", "vocab": {}, "merges": [[1, 2]]}},
    ],
)
def test_a_tokenizer_json_with_a_wrong_part_is_refused(
    shared_data: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    file = tmp_path / "odd.json"
    file.write_text(json.dumps({**small_json(shared_data), **change}))
    config = tmp_path / "config.json"
    config.write_text('{"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"}')
    for read in (HuggingFaceBackend, qwen2_tokenizer):
        with pytest.raises(TokenizerError, match=r"odd\.json"):
            read(str(file))
    with pytest.raises(TokenizerError, match=r"odd\.json"):
        HuggingFaceBaseTokenizer(str(file), tokenizer_config_json_path=str(config))


def test_a_byte_order_mark_does_not_hide_json(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "tokenizers" / "torchtune" / "tiny_bpe_tokenizer.json"
    marked = tmp_path / "marked.json"
    marked.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert qwen2_tokenizer(str(marked)).encode("Hi") == qwen2_tokenizer(str(path)).encode("Hi")


def test_ids_of_another_models_config_are_refused(shared_data: Path, tmp_path: Path) -> None:
    path = str(shared_data / "tokenizers" / "torchtune" / "tiny_bpe_tokenizer.json")
    config = tmp_path / "generation_config.json"
    for bos, eos, sentence in ((2000, 128001, "eos_token_id 128001"), (-4, 2000, "bos_token_id -4")):
        config.write_text(json.dumps({"bos_token_id": bos, "eos_token_id": [eos]}))
        with pytest.raises(TokenizerError, match=rf"gives {sentence}, which .*tiny_bpe_tokenizer\.json doesn't have"):
            HuggingFaceBaseTokenizer(path, generation_config_path=str(config))


def test_a_cut_merges_file_is_refused(shared_data: Path, tmp_path: Path, byte_level_files: Any) -> None:
    vocab, merges = byte_level_files(shared_data / "tokenizers" / "gpt2" / "gpt2.tiktoken")
    lines = merges.read_text(encoding="utf-8").splitlines(keepends=True)
    cut = tmp_path / "cut.txt"
    for kept in (0, 20_000):
        cut.write_text("".join(lines[:kept]), encoding="utf-8")
        for read in (ByteLevelBackend, GPT2BaseTokenizer, qwen2_tokenizer):
            with pytest.raises(TokenizerError, match=r"cut\.txt holds .* merges, which don't make .* Is the file cut"):
                read(str(vocab), str(cut))
    twice = tmp_path / "twice.json"
    twice.write_text(json.dumps({**json.loads(vocab.read_text(encoding="utf-8")), "Hello": 5}))
    with pytest.raises(TokenizerError, match=r"twice\.json gives one id to several pieces"):
        ByteLevelBackend(str(twice), str(merges))


def test_clips_merges_that_are_empty_or_damaged_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "merges.gz"
    whole = bytearray(gzip.compress(b"#version: 0.2\n" + b"a b\n" * 100))
    for content, sentence in (
        (b"", "holds no merges"),
        (b"#version: 0.2\n", "holds no merges"),
        (bytes(whole[:10]) + b"\xff" * 20, "while decompressing"),
        (bytes(whole[:20]), "is not UTF-8 text"),
    ):
        file.write_bytes(content)
        with pytest.raises(TokenizerError, match=sentence):
            clip_tokenizer(str(file))


@pytest.mark.parametrize("path", [None, 5, "a\0b", ["a"]])
def test_what_is_no_path_is_refused(path: Any) -> None:
    for _, readers in FORMS.values():
        for read in readers:
            with pytest.raises(ConfigError, match="path"):
                read(path)


def test_a_split_expression_that_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ranks"
    file.write_text(BYTES)
    with pytest.raises(ConfigError, match=r"pattern='\(' is no regular expression: "):
        TikTokenBackend(file, "(")
    (tmp_path / "vocab.json").write_text('{"a": 0}')
    (tmp_path / "merges.txt").write_text("")
    with pytest.raises(ConfigError, match=r"pattern='\(' is no regular expression: "):
        ByteLevelBackend(tmp_path / "vocab.json", tmp_path / "merges.txt", "(")
