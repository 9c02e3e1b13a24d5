"""Chat templates of many models, and conversations to render with them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest


class Conversation(NamedTuple):
    id: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    add_generation_prompt: bool


@pytest.fixture(scope="session")
def chat_templates(shared_data: Path) -> dict[str, str]:
    """106 public chat templates, by their path."""
    files = sorted(file for file in (shared_data / "templates").glob("*/*") if file.is_file())
    return {f"{file.parent.name}/{file.name}": file.read_text(encoding="utf-8") for file in files}


@pytest.fixture(scope="session")
def edge_conversations() -> list[Conversation]:
    """40 conversations that go wrong easily."""
    rows = json.loads((Path(__file__).parent / "edge_conversations.json").read_text(encoding="utf-8"))
    return [Conversation(**row) for row in rows]


@pytest.fixture(scope="session")
def golden_conversations(shared_data: Path) -> list[Conversation]:
    """The 24 conversations of the golden files, which are the same in every family."""
    lines = (shared_data / "golden" / "qwen3.jsonl").read_text(encoding="utf-8").splitlines()
    rows = {row["id"]: row for row in map(json.loads, lines)}
    return [Conversation(*(row[name] for name in Conversation._fields)) for row in rows.values()]


@pytest.fixture(scope="session")
def conversations(golden_conversations: list[Conversation], edge_conversations: list[Conversation]):
    """All of them."""
    return [*golden_conversations, *edge_conversations]


@pytest.fixture(scope="session")
def template_options() -> dict[str, Any]:
    """What templates ask for beside the conversation; the day stands still."""
    return {
        "bos_token": "<s>",
        "eos_token": "</s>",
        "date_string": "26 Jul 2024",
        "strftime_now": lambda format: "26 Jul 2024",
    }
