"""Writes llama4_goldens.json with llama-models 0.3.0; pytest doesn't collect this.

    pip install llama-models==0.3.0 pydantic
    python tests/parity/make_llama4_goldens.py

Its ChatFormat writes the start of a reply after each conversation, which is part of the goldens. Its pictures, of which
there are none here, would need torchvision, so an empty module stands in for it.
"""

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

_CALL = {"id": "1", "function": {"name": "get_weather", "arguments": {"city": "Oslo", "days": 3, "l": [1, "a", None]}}}
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  spaces \n"}],
    [
        {"role": "user", "content": "\n\nlines"},
        {"role": "assistant", "content": "\nYo"},
        {"role": "user", "content": "<|eot|>?"},
    ],
    [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [_CALL]},
        {"role": "tool", "name": "get_weather", "content": '{"t": 3}'},
    ],
    [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "I look.", "tool_calls": [_CALL]},
        {"role": "tool", "name": "get_weather", "content": "3"},
        {"role": "tool", "name": "get_weather", "content": "4"},
        {"role": "assistant", "content": "3 and 4"},
        {"role": "user", "content": "你好 👋🏽 é"},
    ],
]


def main() -> None:
    """Writes the file."""
    for name in ("torchvision", "torchvision.transforms", "torchvision.transforms.functional"):
        sys.modules.setdefault(name, ModuleType(name))
    from llama_models.datatypes import RawMessage, StopReason, ToolCall, ToolPromptFormat
    from llama_models.llama4.chat_format import ChatFormat
    from llama_models.llama4.tokenizer import Tokenizer

    def message(turn: dict[str, Any]) -> RawMessage:
        calls = [
            ToolCall(call_id=call["id"], tool_name=call["function"]["name"], arguments=call["function"]["arguments"])
            for call in turn.get("tool_calls", [])
        ]
        end = StopReason.end_of_turn
        return RawMessage(role=turn["role"], content=turn["content"], tool_calls=calls, stop_reason=end)

    chat_format = ChatFormat(Tokenizer.get_instance())
    goldens = []
    for turns in CONVERSATIONS:
        messages = [message(turn) for turn in turns]
        ids = chat_format.encode_dialog_prompt(messages, ToolPromptFormat.python_list).tokens
        goldens.append({"messages": turns, "token_ids": ids})
    path = Path(__file__).with_name("llama4_goldens.json")
    lines = ",\n".join(json.dumps(golden, ensure_ascii=False) for golden in goldens)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
