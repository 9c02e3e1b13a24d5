"""Writes harmony_goldens.json with openai-harmony 0.0.8, in an environment of its own; pytest doesn't collect this.

    pip install openai-harmony==0.0.8
    TIKTOKEN_ENCODINGS_BASE=<folder of o200k_base.tiktoken> python tests/parity/make_harmony_goldens.py

Of each schema the file holds what a tool with it is told as, of each conversation the text that it is rendered as.
"""

import json
from pathlib import Path
from typing import Any

_OBJECT = {"type": "object"}


def _of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


SCHEMAS: list[dict[str, Any] | None] = [
    None,
    {},
    _OBJECT,
    {"type": "string"},
    {"type": ["object", "null"], "properties": {"a": {"type": "string"}}},
    {"oneOf": [{"type": "string", "description": "S"}, _of(a={"type": "string"})]},
    {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "b"]},
    {"type": "object", "title": "T", "description": "D", "properties": {"a": {"type": "string"}}},
    _of(
        a={"type": "string", "default": "x"},
        b={"type": "integer", "default": 3, "description": "two\nlines"},
        c={"type": "array", "items": {"type": "string"}, "default": ["p", "q"]},
        d={"type": "array"},
        e={"type": ["string", "null"]},
        f={"oneOf": [{"type": "string"}, {"type": "number", "description": "N"}], "description": "F", "default": 4},
        g={"type": ["integer", "string"], "default": None},
        h={"type": "object", "default": {"a": 1, "b": [1, "é"]}},
    ),
    _of(
        a={
            "type": "object",
            "description": "A",
            "properties": {"x": {"type": "string", "description": "X"}, "y": {"type": "number"}},
            "required": ["x"],
        },
        b={"type": "array", "items": _of(z={"type": "boolean"})},
        c={"anyOf": [{"type": "string"}, {"type": "null"}]},
        d={"enum": [1, 2, "x"]},
        e={"type": "string", "enum": ["a", "b"], "default": "a"},
        f={},
        g={"type": "boolean", "default": True},
        h={"type": "number", "default": 1.5},
        i={"type": "array", "items": {"type": "string", "enum": ["p", "q"]}},
    ),
    _of(
        a={"type": "string", "title": "A", "examples": ["x", "y"]},
        b={"type": "string", "description": "B", "examples": ["x", 1]},
        c={"type": "null"},
        d={"type": "object", "additionalProperties": {"type": "string"}},
        e={"allOf": [{"type": "string"}]},
        f={"$ref": "#/x"},
        g={"type": "string", "description": "", "default": ""},
        h={"type": "string", "enum": [1, "a"]},
        i={"type": "string", "enum": []},
        j={"type": "integer", "enum": [1, 2]},
        k={"type": []},
        m={"type": "array", "items": {"type": ["string", "null"]}},
    ),
    _of(
        a={"type": "integer", "nullable": True},
        b={"type": "array", "items": {"type": "string"}, "nullable": True},
        c={"type": "object", "nullable": True, "properties": {}},
        d={"type": "string", "enum": ["a"], "nullable": True, "default": "a"},
        e={"nullable": True},
    ),
    _of(
        a={
            "oneOf": [
                {"type": "string", "default": "q"},
                {"type": "string", "enum": ["w"], "default": "w", "description": "W"},
                {"type": "array", "items": {"type": "integer"}, "description": "L", "default": [1, 2]},
                {"type": "object", "description": "O", "properties": {"k": {"type": "string", "description": "K"}}},
                {"type": "string", "nullable": True},
                {"oneOf": [{"type": "string"}]},
            ],
            "examples": ["e"],
            "title": "T",
            "description": "D",
            "enum": ["q"],
            "default": "q",
        },
        b={"oneOf": []},
        c={"oneOf": [{"type": "string", "description": ""}], "description": ""},
        d={"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "integer"}]}},
    ),
    _of(
        a={
            "type": "object",
            "title": "A",
            "properties": {
                "b": {
                    "type": "object",
                    "description": "B",
                    "properties": {
                        "c": {"oneOf": [{"type": "string", "description": "S"}, {"type": "integer"}]},
                        "d": {"type": "array", "items": {"type": "array", "items": _of(x={"type": "string"})}},
                    },
                }
            },
        }
    ),
]

_CALL = {"tool_calls": [{"type": "function", "id": "1", "function": {"name": "f", "arguments": "{}"}}]}
_RESULT = {"role": "tool", "name": "f", "content": "1"}
CONVERSATIONS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "u"}, {"role": "assistant", "content": None, "reasoning": "r", **_CALL}],
    [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": None, "reasoning": "r", **_CALL},
        _RESULT,
        {"role": "assistant", "content": "a", "reasoning": "r2"},
    ],
    [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "reasoning": "r"},
        {"role": "user", "content": "v"},
        {"role": "assistant", "content": "b", "reasoning": "r2"},
    ],
    [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a", "reasoning": "r"},
        {"role": "user", "content": "v"},
        {"role": "assistant", "content": None, "reasoning": "r2", **_CALL},
    ],
    [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "beside", **_CALL},
        _RESULT,
        {"role": "assistant", "content": "a"},
    ],
    [{"role": "developer", "content": ""}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}],
]


def _harmony() -> Any:
    import openai_harmony  # pyright: ignore[reportMissingImports]

    return openai_harmony


def _schema_text(schema: dict[str, Any] | None) -> str:
    tool = _harmony().ToolDescription.new("f", "one\ntwo", parameters=schema)
    developer = _harmony().DeveloperContent.new().with_function_tools([tool])
    return _rendered([_harmony().Message.from_role_and_content(_harmony().Role.DEVELOPER, developer)], drops=True)


def _messages(turns: list[dict[str, Any]]) -> list[Any]:
    messages = [_harmony().Message.from_role_and_content(_harmony().Role.SYSTEM, _harmony().SystemContent.new())]
    for turn in turns:
        messages += _of_turn(turn)
    return messages


def _of_turn(turn: dict[str, Any]) -> list[Any]:
    if turn["role"] == "developer":
        content = _harmony().DeveloperContent.new().with_instructions(turn["content"])
        return [_harmony().Message.from_role_and_content(_harmony().Role.DEVELOPER, content)]
    if turn["role"] == "user":
        return [_harmony().Message.from_role_and_content(_harmony().Role.USER, turn["content"])]
    if turn["role"] == "tool":
        author = _harmony().Author.new(_harmony().Role.TOOL, f"functions.{turn['name']}")
        message = _harmony().Message.from_author_and_content(author, turn["content"])
        return [message.with_channel("commentary").with_recipient("assistant")]
    said: list[Any] = []
    calls = turn.get("tool_calls") or []
    for text, channel in ((turn.get("reasoning"), "analysis"), (turn["content"], "commentary" if calls else "final")):
        if text is not None:
            said.append(_harmony().Message.from_role_and_content(_harmony().Role.ASSISTANT, text).with_channel(channel))
    for call in calls:
        function = call["function"]
        message = _harmony().Message.from_role_and_content(_harmony().Role.ASSISTANT, function["arguments"])
        message = message.with_channel("commentary").with_recipient(f"functions.{function['name']}")
        said.append(message.with_content_type("<|constrain|> json"))
    return said


def _rendered(messages: list[Any], *, drops: bool) -> str:
    encoding = _harmony().load_harmony_encoding(_harmony().HarmonyEncodingName.HARMONY_GPT_OSS)
    config = _harmony().RenderConversationConfig(auto_drop_analysis=drops)
    conversation = _harmony().Conversation.from_messages(messages)
    return encoding.decode_utf8(encoding.render_conversation_for_training(conversation, config=config))


def main() -> None:
    """Writes the file."""
    goldens = {
        "schemas": [{"schema": schema, "text": _schema_text(schema)} for schema in SCHEMAS],
        "conversations": [
            {"messages": turns, "drops": drops, "text": _rendered(_messages(turns), drops=drops)}
            for turns in CONVERSATIONS
            for drops in (True, False)
        ],
    }
    path = Path(__file__).with_name("harmony_goldens.json")
    path.write_text(json.dumps(goldens, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
