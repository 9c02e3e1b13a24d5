"""The JSON keeps its schema, and is safe to print."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchpipe.audit import explain
from torchpipe.audit.explain_json import SCHEMA, to_json

Chats = Callable[..., Any]

KEYS = {
    "explanation": {"schema", "source", "num_rows", "decided_by", "notes", "rows"},
    "row": {"row", "source", "refused", "packed", "num_tokens", "num_trained", "notes", "documents", "item"}
    | {"desirable"},
    "document": {
        *("sample", "start", "offset", "padding", "num_tokens", "num_trained", "num_cut", "cut_side", "traced"),
        *("notes", "messages", "tools", "tokens", "side", "num_prompt", "num_shared"),
        *("source", "ends_with_target"),
    },
    "message": {
        *("role", "text", "masked", "ipython", "eot", "num_images", "reasoning", "calls", "name", "tool_call_id"),
        "weight",
    },
    "token": {
        *("id", "text", "shown", "bytes", "part_of", "control", "label", "trained", "position", "kind", "message"),
        *("reason", "part", "proof", "start", "stop"),
    },
}


def test_the_schema_is_what_it_was(chats: Chats) -> None:
    whole = json.loads(to_json(explain(chats(["a 🦙"] * 2, max_seq_len=64, packed=True))))
    assert whole["schema"] == SCHEMA == "torchpipe.explain/2"
    row = whole["rows"][0]
    document = row["documents"][0]
    for name, value in {
        "explanation": whole,
        "row": row,
        "document": document,
        "message": document["messages"][0],
        "token": document["tokens"][0],
    }.items():
        assert set(value) == KEYS[name], name


def test_the_schema_is_documented(repository: Path) -> None:
    text = (repository / "docs" / "explain.md").read_text(encoding="utf-8")
    assert SCHEMA in text
    for name, keys in KEYS.items():
        for key in keys:
            assert f"`{key}`" in text, f"{key} of {name}"


def test_texts_joined_are_the_document_and_bytes_are_theirs(chats: Chats, hostile: str) -> None:
    (document,) = json.loads(to_json(explain(chats([hostile]))))["rows"][0]["documents"]
    text = "".join(token["text"] for token in document["tokens"])
    assert text.endswith(f"<|end_header_id|>\n\n{hostile}<|eot_id|><|end_of_text|>")
    assert document["messages"][1]["text"] == hostile
    raw = b"".join(bytes.fromhex(token["bytes"]) for token in document["tokens"] if token["bytes"])
    assert raw.decode() == f"user\n\nquestion 0assistant\n\n{hostile}"
    split = [token for token in document["tokens"] if token["part_of"]]
    assert split
    assert all(token["text"] == "" for token in split)


def test_labels_and_training_are_those_of_the_sample(chats: Chats) -> None:
    dataset = chats(["a b c"])
    row = explain(dataset).to_dict()["rows"][0]
    (document,) = row["documents"]
    assert [token["label"] for token in document["tokens"]] == dataset[0]["labels"]
    assert row["num_trained"] == sum(token["trained"] for token in document["tokens"])


def test_it_is_printable_ascii(chats: Chats, hostile: str) -> None:
    text = to_json(explain(chats([hostile])))
    assert text.isascii()
    assert text.isprintable()
