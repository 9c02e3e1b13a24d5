"""Parts of a conversation that a chat template writes: text, calls, tools, reasoning; weights."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.data import Message
from torchpipe.data.tool_calls import ToolCall
from torchpipe.datasets import SFTDataset
from torchpipe.errors import DataError, TokenizerError

CALLING = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% for call in m.tool_calls or [] %}"
    "<think>{{ call.function.name }}({{ call.function.arguments | tojson }})</think>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
REASONING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}"
    "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@given(st.lists(st.text(alphabet="ab\n <|im_start>end</think>é😀"), min_size=2, max_size=6))
def test_content_never_becomes_a_control_token(chatml: Any, texts: list[str]) -> None:
    made = chatml.tokenizer()
    dicts = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]
    tokens, mask, trace = made.tokenize_messages(dicts, trace=True)
    assert sum(token >= 300 for token in tokens) == 2 * len(texts)
    assert made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False) == made.chat_template.render(dicts)
    assert trace.trained.tolist() == [not masked for masked in mask]
    assert [origin.trained for origin in trace] == [not masked for masked in mask]
    kept = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
    replies = "".join(f"{text}<|im_end|>" for text in texts[1::2])
    assert made.decode(kept, truncate_at_eos=False, skip_special_tokens=False) == replies


def test_listed_tokens_may_be_spelled(chatml: Any) -> None:
    made = chatml.tokenizer(allowed_special=["<think>", "</think>"])
    tokens, _ = made.tokenize_messages([chatml.chat[0], Message("assistant", "<think>a</think>b<|im_end|>")])
    assert chatml.special["<think>"] in tokens
    assert tokens.count(chatml.special["<|im_end|>"]) == 2
    with pytest.raises(TokenizerError, match="allowed_special names '<nothing>'"):
        chatml.tokenizer(allowed_special=["<nothing>"])


def test_calls_are_trained_and_traced(chatml: Any) -> None:
    made = chatml.tokenizer(CALLING)
    chat = [
        Message("user", "Weather?", masked=True),
        Message("assistant", None, tool_calls=[ToolCall("look", {"city": "Rome <|im_end|>"})]),
        Message("tool", "Sun", masked=True),
        Message("assistant", "Sunny."),
    ]
    tools = [{"type": "function", "function": {"name": "look <|im_end|>"}}]
    tokens, mask, trace = made.tokenize_messages(chat, tools, trace=True)
    assert chatml.trained_text(made, tokens, mask) == (
        '<think>look({"city": "Rome <|im_end|>"})</think><|im_end|>Sunny.<|im_end|>'
    )
    assert tokens.count(chatml.special["<|im_end|>"]) == 5
    parts = {origin.part for origin in trace if origin.kind == "tool_call"}
    assert {"tool_calls[0].function.name", "tool_calls[0].function.arguments.city"} <= parts
    assert {origin.message for origin in trace if origin.part == "tools"} == {-1}
    assert made({"messages": chat, "tools": tools}) == {"tokens": tokens, "mask": mask}


def test_tools_may_be_json_text(chatml: Any) -> None:
    made = chatml.tokenizer(CALLING)
    tools = [{"type": "function", "function": {"name": "look"}}]
    assert made.tokenize_messages(chatml.chat, json.dumps(tools)) == made.tokenize_messages(chatml.chat, tools)
    assert made.tokenize_messages(chatml.chat, "[]") == made.tokenize_messages(chatml.chat)
    with pytest.raises(DataError, match="tools are text that is no JSON"):
        made.tokenize_messages(chatml.chat, "[{")


def test_arguments_are_not_escaped_twice(chatml: Any) -> None:
    calls = [{"type": "function", "function": {"name": "look", "arguments": '{"city": "Rome"}'}}]
    dicts = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": calls}]
    with pytest.raises(DataError, match=r"arguments is JSON text .* set tool_arguments to 'parsed'"):
        chatml.tokenizer(CALLING).tokenize_messages(dicts)
    made = chatml.tokenizer(CALLING, tool_arguments="parsed")
    tokens, mask = made.tokenize_messages(dicts)
    assert chatml.trained_text(made, tokens, mask) == '<think>look({"city": "Rome"})</think><|im_end|>'
    calls[0]["function"]["arguments"] = "{bad"
    with pytest.raises(DataError, match="The arguments of call 0 of message 1 are no JSON"):
        made.tokenize_messages(dicts)


def test_null_content_is_the_empty_text(chatml: Any) -> None:
    template = chatml.template.replace("{{ m.content }}", "{{ m.content + '!' }}")
    calls = [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
    made = chatml.tokenizer(template, on_unproved="common_prefix")
    for turn in ({"content": None}, {}, {"content": ""}):
        dicts = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": calls, **turn}]
        tokens, _ = made.tokenize_messages(dicts)
        assert made.decode(tokens, truncate_at_eos=False).endswith("assistant\n!\n")


@pytest.mark.parametrize(
    ("train_on", "trained"),
    [
        ({"reasoning": False}, "2<|im_end|>four<|im_end|>"),
        ({"answer": False}, "<think>one</think><|im_end|><|im_end|>"),
        ({"turn_end": "none"}, "<think>one</think>2four"),
        ({"turn_end": "last"}, "<think>one</think>2four<|im_end|>"),
    ],
)
def test_parts_of_a_turn_can_be_left_out(chatml: Any, train_on: dict[str, Any], trained: str) -> None:
    chat = [
        Message("user", "1+1", masked=True),
        Message("assistant", "2", reasoning="one"),
        Message("user", "2+2", masked=True),
        Message("assistant", "four"),
    ]
    made = chatml.tokenizer(REASONING, train_on=train_on)
    tokens, mask = made.tokenize_messages(chat)
    assert tokens == chatml.tokenizer(REASONING).tokenize_messages(chat)[0]
    assert chatml.trained_text(made, tokens, mask) == trained


def test_calls_can_be_left_out(chatml: Any) -> None:
    call = Message("assistant", "Look: ", tool_calls=[ToolCall("look", {"city": "Rome"})])
    made = chatml.tokenizer(CALLING, train_on={"tool_calls": False})
    tokens, mask = made.tokenize_messages([chatml.chat[0], call])
    assert chatml.trained_text(made, tokens, mask) == "Look: <|im_end|>"


def test_weights_of_messages_are_weights_of_tokens(chatml: Any) -> None:
    rows: Any = [{"messages": [*chatml.chat[:3], Message("assistant", "See you.", weight=0.5)]}]
    sample = SFTDataset(source=rows, message_transform=dict, model_transform=chatml.tokenizer())[0]
    weights = {weight for weight, label in zip(sample["loss_weights"], sample["labels"], strict=True) if label != -100}
    assert weights == {0.5, 1.0}
    assert sample["loss_weights"].count(0.5) == len("See you.") + 1
    assert "token_weights" not in chatml.tokenizer()({"messages": chatml.chat})


def test_a_trace_tells_each_token(chatml: Any) -> None:
    made = chatml.tokenizer()
    tokens, _, trace = made.tokenize_messages(chatml.chat[:2], trace=True)
    text = made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False)
    told = [(text[origin.start : origin.stop], origin.kind, origin.part, origin.proof) for origin in trace]
    assert told[0] == ("<|im_start|>", "header", "", "")
    assert ("H", "content", "content", "") in told
    assert told[-8:] == [
        *((letter, "content", "content", "causal") for letter in "Hello."),
        ("<|im_end|>", "footer", "", "causal"),
        ("\n", "footer", "", ""),
    ]
