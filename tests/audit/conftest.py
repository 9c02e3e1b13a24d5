"""Data sets for the views of an explanation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.datasets import chat_dataset
from torchpipe.models.tiny import tiny_tokenizer

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
