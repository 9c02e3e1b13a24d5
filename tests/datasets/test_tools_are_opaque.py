"""Tool schemas and arguments reach the template as they stand on the disk: no row gets another one's keys."""

import json
from pathlib import Path
from typing import Any

import pytest

from torchpipe.datasets import chat_dataset, messages_dataset
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import ChatTemplateTokenizer

TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }} "
    "{{ call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOOLS: list[Any] = [
    [{"type": "function", "function": {"name": "tool_a", "parameters": {"x": {"type": "integer", "default": 10**20}}}}],
    [{"type": "function", "function": {"name": "tool_b", "parameters": {"y": {"type": "number", "default": 1.0}}}}],
    [{"name": "tool_c", "nothing": None, "empty": [], "day": "2024-01-02", "nested": {"z": {"y": {"x": None}}}}],
]
ARGUMENTS: list[Any] = [{"x": 1}, {"y": 1.0, "when": "2024-01-02T00:00:00"}, {"z": None, "list": [{"a": 1}, {"b": 2}]}]


def rows(*, as_text: bool) -> list[dict[str, Any]]:
    def call(arguments: Any) -> dict[str, Any]:
        return {"type": "function", "function": {"name": "f", "arguments": arguments}}

    def held(value: Any) -> Any:
        return json.dumps(value, indent=1) if as_text else value

    return [
        {
            "messages": [
                {"role": "user", "content": "Do it."},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"function": {"name": "f", "arguments": held(a)}}],
                },
                {"role": "tool", "content": '{"ok":  true}'},
                {"role": "assistant", "content": "Done."},
            ],
            "tools": held(tools),
        }
        for tools, a in zip(TOOLS, ARGUMENTS, strict=True)
    ]


@pytest.fixture(scope="module")
def tokenizer() -> ChatTemplateTokenizer:
    backend = tiny_tokenizer().backend
    ids = {text: backend.num_tokens + 300 + place for place, text in enumerate(("<|im_start|>", "<|im_end|>"))}
    return ChatTemplateTokenizer(backend, TEMPLATE, special_tokens=ids, eos_token="<|im_end|>")


def build(builder: str, tokenizer: Any, path: Path) -> Any:
    given: dict[str, Any] = {"source": "json", "data_files": str(path)}
    if builder == "messages_dataset":
        return messages_dataset(tokenizer, **given)
    return chat_dataset(tokenizer, **given, conversation_column="messages", conversation_style="openai")


@pytest.mark.parametrize("builder", ["messages_dataset", "chat_dataset"])
@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("suffix", ["jsonl", "json"])
def test_a_row_has_its_own_keys_alone(
    builder: str, as_text: bool, suffix: str, tokenizer: ChatTemplateTokenizer, tmp_path: Path
) -> None:
    written = rows(as_text=as_text)
    path = tmp_path / f"rows.{suffix}"
    lines = [json.dumps(row) for row in written]
    path.write_text("\n".join(lines) if suffix == "jsonl" else f"[{', '.join(lines)}]")
    dataset = build(builder, tokenizer, path)
    for index, row in enumerate(written):
        made = dataset.transform.message_transform(dataset.rows[index])
        assert made["tools"] == row["tools"]
        assert repr(made["tools"]) == repr(row["tools"]), "the order of keys, nulls, and 1.0 that is not 1"
        (call,) = made["messages"][1].tool_calls
        assert repr(call.arguments) == repr(ARGUMENTS[index] if not as_text else json.dumps(ARGUMENTS[index], indent=1))
        text = tokenizer.decode(dataset[index]["tokens"], truncate_at_eos=False)
        names = [name for name in ("tool_a", "tool_b", "tool_c") if name in text]
        assert names == [("tool_a", "tool_b", "tool_c")[index]]


def test_texts_of_tools_in_real_rows_are_to_the_letter(shared_data: Path) -> None:
    path = shared_data / "llamafactory" / "glaive_toolcall_en_demo.json"
    dataset: Any = messages_dataset(tiny_tokenizer(), source="json", data_files=str(path))
    for index, row in enumerate(json.loads(path.read_text())):
        made = dataset.transform.message_transform(dataset.rows[index])
        assert made.get("tools", "[]") == row["tools"] or json.loads(row["tools"]) == []
