"""Published rows with calls, reasoning, flags and weights: how many become messages, and what refuses the others."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import (
    ChosenRejectedToMessages,
    Message,
    OpenAIToMessages,
    ShareGPTToMessages,
    ToolCall,
    from_openai,
    validate_messages,
)
from torchpipe.errors import DataError

Rows = list[dict[str, Any]]


def rows_of(path: Path) -> Rows:
    text = path.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
    return rows if isinstance(rows, list) else [rows]


def conversations(transform: Any, rows: Rows) -> list[list[Message]]:
    done = [transform(row)["messages"] for row in rows]
    for messages in done:
        validate_messages(messages)
    return done


def num_calls(conversations: Sequence[Sequence[Message]]) -> int:
    return sum(len(message.tool_calls) for messages in conversations for message in messages)


@pytest.mark.parametrize(("language", "num_rows", "calls", "with_tools"), [("en", 200, 135, 119), ("zh", 80, 65, 58)])
def test_every_row_of_glaive_becomes_messages_with_its_calls_and_tools(
    shared_data: Path, language: str, num_rows: int, calls: int, with_tools: int
):
    rows = rows_of(shared_data / "llamafactory" / f"glaive_toolcall_{language}_demo.json")
    done = conversations(ShareGPTToMessages(), rows)
    assert (len(done), num_calls(done)) == (num_rows, calls)
    for row, messages in zip(rows, done, strict=True):
        for turn, message in zip(row["conversations"], messages, strict=True):
            if turn["from"] != "function_call":
                assert message.text_content == turn["value"]
                assert message.masked == (turn["from"] != "gpt")
                continue
            (call,) = message.tool_calls
            assert (message.content, message.eot, message.masked) == ([], False, False)
            # The arguments' text stands in the row as it is: nothing was sorted, escaped or rounded.
            assert json.dumps(call.arguments, ensure_ascii=False) in turn["value"]
    tools = [ShareGPTToMessages()(row).get("tools") for row in rows]
    assert sum(held is not None for held in tools) == with_tools
    assert all(held == row["tools"] for held, row in zip(tools, rows, strict=True) if held is not None)
    assert {row["tools"] for held, row in zip(tools, rows, strict=True) if held is None} == {"[]"}


def test_every_row_of_typed_parts_becomes_messages(shared_data: Path):
    rows = rows_of(shared_data / "llamafactory" / "reason_tool_use_demo.jsonl")
    done = conversations(OpenAIToMessages(), rows)
    assert (len(done), num_calls(done)) == (32, 53)
    flat = [
        (turn, message)
        for row, ms in zip(rows, done, strict=True)
        for turn, message in zip(row["messages"], ms, strict=True)
    ]
    assert sum(message.reasoning is not None for _, message in flat) == 84
    assert Counter(len(message.tool_calls) for _, message in flat if message.tool_calls) == {1: 35, 2: 6, 3: 2}
    for turn, message in flat:
        parts = [
            *([message.reasoning] if message.reasoning is not None else []),
            *([message.text_content] * bool(message.content)),
        ]
        assert parts == [part["value"] for part in turn["content"] if part["type"] != "tool_call"]


def test_inline_thinking_stays_text_or_is_split_off_and_unknown_calls_are_refused(shared_data: Path):
    rows = rows_of(shared_data / "llamafactory" / "reason_think_inline.jsonl")
    typed = conversations(OpenAIToMessages(), rows_of(shared_data / "llamafactory" / "reason_tool_use_demo.jsonl"))
    passed = 0
    for row in rows:
        if any(turn.get("tool_calls_raw") for turn in row["messages"]):
            with pytest.raises(DataError, match=r"has a call in 'tool_calls_raw', which a message has no place for"):
                OpenAIToMessages()(row)
        else:
            passed += 1
    assert passed == 7
    renamed = [
        {
            "messages": [
                {**turn, "tool_calls": turn.get("tool_calls_raw"), "tool_calls_raw": None} for turn in row["messages"]
            ]
        }
        for row in rows
    ]
    for row, messages in zip(rows, conversations(OpenAIToMessages(), renamed), strict=True):
        assert [message.text_content for message in messages] == [turn["content"] for turn in row["messages"]]
        assert all(message.reasoning is None for message in messages)
    split = conversations(OpenAIToMessages(split_reasoning=True), renamed)
    for messages, others in zip(split, typed, strict=True):
        assert [message.tool_calls for message in messages] == [other.tool_calls for other in others]
        assert [(m.reasoning or "").strip("\n") for m in messages] == [(m.reasoning or "").strip("\n") for m in others]


def test_the_row_of_functionary_keeps_arguments_that_are_no_json_and_masks_what_it_says(shared_data: Path):
    rows = rows_of(shared_data / "functionary" / "test_case_v2.json")
    (messages,) = conversations(OpenAIToMessages(), rows)
    assert num_calls([messages]) == 5
    assert messages[3].tool_calls == (
        ToolCall("get_car_price", '{"car_name": "Song"}'),
        ToolCall("get_car_price", '{"car_name": "Tang"}'),
    )
    assert [message.name for message in messages if message.role == "tool"] == [
        *["get_car_price"] * 2,
        "get_weather",
        *["python"] * 2,
    ]
    masked = [message for message in messages if message.role == "assistant" and message.masked]
    assert [message.text_content for message in masked] == ["I will use code interpreter to handle this"]
    assert masked[0].tool_calls[0].arguments == "l=[0,1,2,3,4,5]\nl.remove(3.6)"
    with pytest.raises(DataError, match="The arguments of the call of 'python' are no JSON"):
        masked[0].tool_calls[0].parsed()
    assert OpenAIToMessages()(rows[0])["tools"] == rows[0]["tools"]


def test_every_agent_trace_with_null_content_becomes_messages(shared_data: Path):
    rows = rows_of(shared_data / "tau_bench" / "gpt4o_airline_traj_a.jsonl")
    done = conversations(OpenAIToMessages(), rows)
    assert (len(done), num_calls(done)) == (16, 123)
    for row, messages in zip(rows, done, strict=True):
        for turn, message in zip(row["messages"], messages, strict=True):
            assert message.text_content == (turn["content"] or "")
            assert [(c.name, c.arguments, c.id) for c in message.tool_calls] == [
                (call["function"]["name"], call["function"]["arguments"], call["id"])
                for call in turn.get("tool_calls") or []
            ]
            assert (message.name, message.tool_call_id) == (turn.get("name"), turn.get("tool_call_id"))
    for row in rows:
        stripped = {"messages": [{**turn, "tool_calls": None} for turn in row["messages"]]}
        with pytest.raises(DataError, match=r"The content of turn \d+ \('assistant'\) is null, so there is no text"):
            OpenAIToMessages()(stripped)


def test_loss_weights_of_preference_rows_are_read(shared_data: Path):
    transform = ChosenRejectedToMessages(column_map={"chosen": "chosen_messages", "rejected": "rejected_messages"})
    rows = rows_of(shared_data / "llamafactory" / "v1_dpo_demo.jsonl")
    assert len(rows) == 10
    for row in rows:
        for side, messages in transform(row).items():
            validate_messages(messages)
            said = row[f"{side}_messages"]
            assert [message.weight for message in messages] == [turn["loss_weight"] for turn in said]
            assert [message.masked for message in messages] == [turn["loss_weight"] == 0 for turn in said]


def test_loss_flags_and_reasoning_of_xtuner_are_read(shared_data: Path):
    rows = rows_of(shared_data / "xtuner" / "qwen35_tokenize_data.jsonl")
    done = conversations(OpenAIToMessages(), rows)
    assert len(done) == 8
    for row, messages in zip(rows, done, strict=True):
        for turn, message in zip(row["messages"], messages, strict=True):
            assert message.reasoning == turn.get("reasoning_content")
            if message.role == "assistant":
                assert message.masked == (turn.get("loss") is False)
    assert sum(message.reasoning is not None for messages in done for message in messages) == 6
    assert done[6][2].tool_calls == (ToolCall("get_weather", {"location": "Boston"}, "call_123"),)
    tools = [OpenAIToMessages()(row).get("tools") for row in rows]
    assert [held is not None for held in tools] == [False] * 6 + [True] * 2


def test_the_roles_of_oasst_are_understood(shared_data: Path):
    rows = rows_of(shared_data / "trees" / "oasst_realistic_seed.json")
    roles = Counter(from_openai({"role": row["role"], "content": row["text"]}).role for row in rows)
    assert roles == {"assistant": 265, "user": 179}


def test_a_role_that_nobody_knows_is_refused(shared_data: Path):
    for row in rows_of(shared_data / "xtuner" / "pretrain_example_data.jsonl"):
        with pytest.raises(DataError, match="Turn 0 has the role 'pretrain'"):
            OpenAIToMessages()(row)
