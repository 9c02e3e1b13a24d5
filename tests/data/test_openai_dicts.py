import json
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message, ToolCall, as_openai, from_openai
from torchpipe.errors import DataError


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "a", **fields}


@pytest.mark.parametrize(
    "turn",
    [
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "s"},
        {"role": "user", "content": "u", "name": "Ann"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image", "image": "x.png"}]},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]},
        {"role": "user", "content": ""},
        assistant(reasoning_content="because"),
        assistant(reasoning_content=""),
        assistant(tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":  1}'}}]),
        assistant(
            content="", tool_calls=[{"type": "function", "function": {"name": "f", "arguments": {"b": 1, "a": 2}}}]
        ),
        assistant(content=None, tool_calls=[{"type": "function", "function": {"name": "f", "arguments": {}}}]),
        assistant(content=None, reasoning_content="because"),
        {"role": "tool", "content": "{}", "name": "f", "tool_call_id": "c"},
        {"role": "ipython", "content": "1"},
    ],
)
def test_a_turn_becomes_a_message_and_the_same_turn_again(turn: dict[str, Any]):
    given = json.dumps(turn)
    assert json.dumps(as_openai(from_openai(turn)), sort_keys=True) == json.dumps(turn, sort_keys=True)
    assert json.dumps(turn) == given


def test_a_message_becomes_a_turn_and_an_equal_message_again():
    image = object()
    for message in (
        Message("user", [{"type": "image", "content": image, "detail": "low"}, {"type": "text", "content": "?"}]),
        Message("assistant", "a", reasoning="r", tool_calls=(ToolCall("f", "{}", "c"), ToolCall("g", {"x": 1}))),
        Message("tool", "1", name="f", tool_call_id="c"),
    ):
        again = from_openai(as_openai(message))
        assert again == message or message.contains_media
        assert again.get_media() == message.get_media()


def test_every_message_of_the_golden_records_survives(shared_data: Path):
    seen = 0
    for file in sorted((shared_data / "golden").glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            for turn in json.loads(line)["messages"]:
                key = "thinking" if "thinking" in turn else "reasoning_content"
                back = as_openai(from_openai(turn), reasoning_key=key)
                for call in [*turn.get("tool_calls", []), *back.get("tool_calls", [])]:
                    call["function"] = list(call["function"].items())  # the order of arguments counts
                assert back == turn
                seen += 1
    assert seen == 1042


def test_the_key_of_reasoning_can_be_chosen():
    assert as_openai(Message("assistant", "a", reasoning="r"), reasoning_key="thinking")["thinking"] == "r"


def test_a_turn_shares_nothing_with_its_message():
    message = Message("assistant", "a", tool_calls=[ToolCall("f", {"a": [1]})])
    as_openai(message)["tool_calls"][0]["function"]["arguments"]["a"].append(2)
    assert message.tool_calls[0].arguments == {"a": [1]}


def test_a_message_without_parts_has_an_empty_content():
    assert as_openai(Message("assistant", []))["content"] == ""


@pytest.mark.parametrize(
    ("role", "ours"),
    [("function", "tool"), ("observation", "tool"), ("prompter", "user"), ("developer", "developer")],
)
def test_other_words_for_roles_are_understood(role: str, ours: str):
    assert from_openai({"role": role, "content": "x"}).role == ours


def test_a_function_call_turn_is_a_call_of_the_assistant():
    said = {"role": "function_call", "content": '{"name": "f", "arguments": {"a": 1}}'}
    assert from_openai(said) == Message("assistant", None, tool_calls=[ToolCall("f", {"a": 1})])
    said["content"] = '<think>\nfirst\n</think>\n\n[{"name": "f", "arguments": {}}, {"name": "g", "arguments": {}}]'
    kept = from_openai(said)
    assert kept.text_content == "<think>\nfirst\n</think>\n\n"
    assert [call.name for call in kept.tool_calls] == ["f", "g"]
    split = from_openai(said, split_reasoning=True)
    assert (split.reasoning, split.text_content) == ("first", "")
    with pytest.raises(DataError, match=r"Turn 3 \('function_call'\) is text that is no JSON"):
        from_openai({**said, "content": "f(1)"}, index=3)


def test_the_old_function_call_is_a_call():
    message = from_openai(assistant(content=None, function_call={"name": "f", "arguments": "{}"}))
    assert message.tool_calls == (ToolCall("f", "{}"),)
    both = assistant(function_call={"name": "f", "arguments": "{}"}, tool_calls=[{"name": "g", "arguments": "{}"}])
    with pytest.raises(DataError, match="has both 'tool_calls' and 'function_call'"):
        from_openai(both)


def test_null_content_beside_a_call_is_no_text_and_alone_is_refused():
    message = from_openai(assistant(content=None, tool_calls=[{"name": "f", "arguments": "{}"}]))
    assert (message.content, message.text_content) == ([], "")
    missing = {"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{}"}]}
    assert from_openai(missing) == message
    for turn in (
        assistant(content=None),
        assistant(content=None, tool_calls=[]),
        assistant(content=None, reasoning=""),
    ):
        with pytest.raises(DataError, match=r"The content of turn 1 \('assistant'\) is null"):
            from_openai(turn, index=1)
    with pytest.raises(DataError, match=r"The content of turn 1 \('tool'\) is null"):
        from_openai({"role": "tool", "content": None}, index=1)


def test_typed_parts_become_reasoning_text_and_calls():
    parts = [
        {"type": "reasoning", "value": "r"},
        {"type": "text", "value": "t", "text": None},
        {"type": "tool_call", "value": '{"name": "f", "arguments": {"a": 1}}'},
        {"type": "tool_call", "tool_call": {"name": "g", "arguments": "{}"}},
    ]
    message = from_openai(assistant(content=parts))
    assert (message.reasoning, message.text_content) == ("r", "t")
    assert message.tool_calls == (ToolCall("f", {"a": 1}), ToolCall("g", "{}"))
    thinking = from_openai(assistant(content=[{"type": "thinking", "thinking": "r"}, {"type": "text", "text": "t"}]))
    assert thinking == Message("assistant", "t", reasoning="r")
    assert from_openai(assistant(content=parts[2:])).content == []


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (["text", "reasoning"], "Part 1 of turn 2 .*is reasoning after other parts"),
        (["reasoning", "reasoning"], "Part 1 of turn 2 .*is reasoning after other parts"),
        (["tool_call", "text"], "Part 1 of turn 2 .*comes after a call"),
        (["tool_result"], "Part 0 of turn 2 .*has the type 'tool_result'"),
    ],
)
def test_parts_in_an_order_that_a_message_would_lose_are_refused(parts: list[str], sentence: str):
    values = {"tool_call": {"name": "f", "arguments": {}}}
    content = [{"type": part, "value": values.get(part, "x")} for part in parts]
    with pytest.raises(DataError, match=sentence):
        from_openai(assistant(content=content), index=2)


def test_reasoning_that_is_said_twice_has_to_be_the_same():
    assert from_openai(assistant(reasoning_content="r", reasoning="r")).reasoning == "r"
    assert from_openai(assistant(reasoning_content="", thinking="r")).reasoning == "r"
    with pytest.raises(DataError, match="different reasoning in 'reasoning_content', 'reasoning'"):
        from_openai(assistant(reasoning_content="r", reasoning="s"))
    with pytest.raises(DataError, match=r"different reasoning in 'thinking', 'a part'"):
        from_openai(assistant(content=[{"type": "reasoning", "text": "r"}], thinking="s"))
    with pytest.raises(DataError, match="'thinking' of the turn .*is a list"):
        from_openai(assistant(thinking=["r"]))


@pytest.mark.parametrize(
    ("text", "reasoning", "rest"),
    [
        ("<think>\nr\n</think>\n\na", "r", "a"),
        ("\n<think>\n\n</think>\n\na", "", "a"),
        ("<think>r</think>", "r", ""),
        ("<think>a</think>b</think>", "a", "b</think>"),
        ("<think>\n  r \n\n</think>\n a", "  r ", " a"),
        ("<think>\nnever closed", None, "<think>\nnever closed"),
        ("so </think> what", None, "so </think> what"),
        ("first <think>r</think>", None, "first <think>r</think>"),
    ],
)
def test_inline_thinking_is_split_off_only_when_asked_for_and_only_at_the_start(
    text: str, reasoning: str | None, rest: str
):
    assert from_openai(assistant(content=text)) == Message("assistant", text)
    assert from_openai(assistant(content=text), split_reasoning=True) == Message("assistant", rest, reasoning=reasoning)
    user = {"role": "user", "content": text}
    assert from_openai(user, split_reasoning=True) == Message("user", text)
    kept = from_openai(assistant(content=text, reasoning="own"), split_reasoning=True)
    assert (kept.reasoning, kept.text_content) == ("own", text)


@pytest.mark.parametrize(
    "key", ["refusal", "audio", "train_detail", "training_detail", "tool_calls_raw", "function_calls"]
)
def test_what_a_message_has_no_place_for_is_refused_and_null_is_not(key: str):
    assert from_openai(assistant(**{key: None})) == from_openai(assistant(**{key: []})) == Message("assistant", "a")
    with pytest.raises(DataError, match=rf"Turn 1 \('assistant'\) .* in '{key}', which a message has no place for"):
        from_openai(assistant(**{key: ["x"]}), index=1)


def test_calls_and_reasoning_of_another_role_are_refused_with_the_turn():
    for fields in ({"tool_calls": [{"name": "f", "arguments": "{}"}]}, {"reasoning": "r"}):
        with pytest.raises(
            DataError, match=r"Turn 0 \('user'\): A 'user' message has (tool_calls|reasoning), which only"
        ):
            from_openai({"role": "user", "content": "u", **fields}, index=0)
    with pytest.raises(DataError, match=r"A 'user' message has tool_call_id='c', but it is no result"):
        from_openai({"role": "user", "content": "u", "tool_call_id": "c"})


def test_what_is_no_turn_is_refused():
    with pytest.raises(DataError, match="this one has 'from', 'value'"):
        from_openai({"from": "gpt", "value": "a"})
    with pytest.raises(DataError, match="this one is a str"):
        from_openai("a")  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match=r"The turn has the role 'asistant'.*mean 'assistant'"):
        from_openai({"role": "asistant", "content": "a"})


def test_a_turns_own_flags_reach_the_message():
    assert from_openai(assistant(train=False)).masked
    assert from_openai(assistant(weight=0.25)).weight == 0.25
    assert not from_openai(assistant(loss=True)).masked
