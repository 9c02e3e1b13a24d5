"""What a chat format does with the further fields of messages: weights, developers, and what it can't write."""

from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import Message, OpenAIToMessages, PromptTemplate, ToolCall
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.llama3 import llama3_tokenizer
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import LLAMA3, ChatFormatTokenizer, open_backend

CHAT = [
    Message("user", "Hi", masked=True),
    Message("assistant", "Hello"),
    Message("user", "Bye", masked=True),
    Message("assistant", "Bye"),
]


def tokenizer(llama3_tokenizer_file: Path, **options: Any) -> ChatFormatTokenizer:
    return ChatFormatTokenizer(open_backend(llama3_tokenizer_file, LLAMA3), LLAMA3, **options)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"tool_calls": [ToolCall("f", {})]}, "tool_calls"),
        ({"reasoning": "r"}, "reasoning"),
        ({"name": "Ann"}, "name"),
    ],
)
def test_a_field_without_a_place_in_the_format_is_refused_with_message_and_field(fields: dict[str, Any], field: str):
    messages = [Message("user", "u"), Message("assistant", "a", **fields)]
    sentence = rf"Message 1 \(assistant\) has .* in '{field}', and the llama3 format has no place for it"
    for call in (tiny_tokenizer().tokenize_messages, lambda held: tiny_tokenizer()({"messages": held})):
        with pytest.raises(DataError, match=sentence):
            call(messages)


def test_tools_are_refused_and_may_be_left_out():
    row = {"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}], "tools": "[{}]"}
    with pytest.raises(DataError, match="The row offers tools, and the llama3 format has no place for them"):
        SFTTransform(OpenAIToMessages(), tiny_tokenizer())(row)
    left_out = OpenAIToMessages(column_map={"messages": "messages", "tools": None})
    assert "tools" not in SFTTransform(left_out, tiny_tokenizer())(row)


def test_a_developer_message_is_written_as_the_systems():
    developer = [Message("developer", "Be kind."), *CHAT]
    system = [Message("system", "Be kind."), *CHAT]
    assert tiny_tokenizer().tokenize_messages(developer) == tiny_tokenizer().tokenize_messages(system)
    *_, trace = tiny_tokenizer().tokenize_messages(developer, trace=True)
    assert len(trace) == len(tiny_tokenizer().tokenize_messages(system)[0])


def weighted(first: float | None, second: float | None) -> dict[str, Any]:
    turns = [("user", "Hi", None), ("assistant", "Hello", first), ("user", "Bye", None), ("assistant", "Bye", second)]
    return {"messages": [{"role": role, "content": text, "weight": weight} for role, text, weight in turns]}


def test_weights_of_messages_become_weights_of_the_labels_that_name_their_tokens():
    tokenizer = tiny_tokenizer(mask_policy="sampled")
    plain = SFTTransform(OpenAIToMessages(), tokenizer)(weighted(None, 1))
    assert "loss_weights" not in plain
    sample = SFTTransform(OpenAIToMessages(), tokenizer)(weighted(0.5, 2))
    assert (sample["tokens"], sample["mask"], sample["labels"]) == (plain["tokens"], plain["mask"], plain["labels"])
    assert "token_weights" not in sample
    *_, trace = tokenizer.tokenize_messages(OpenAIToMessages()(weighted(0.5, 2))["messages"], trace=True)
    owner = [*trace.message[1:], -1]
    expected = [
        {1: 0.5, 3: 2.0}[int(message)] if label != -100 else 0.0
        for message, label in zip(owner, sample["labels"], strict=True)
    ]
    assert sample["loss_weights"] == expected
    assert {0.5, 2.0} < set(expected)


def test_a_weight_of_zero_is_a_mask():
    sample = SFTTransform(OpenAIToMessages(), tiny_tokenizer())(weighted(0, 1))
    assert "loss_weights" not in sample
    masked = SFTTransform(OpenAIToMessages(masking_strategy="train_on_last"), tiny_tokenizer())(weighted(None, None))
    assert sample == masked


@pytest.mark.parametrize("side", ["right", "left"])
def test_weights_are_cut_with_their_tokens(llama3_tokenizer_file: Path, side: Any):
    messages = OpenAIToMessages()(weighted(0.5, 2))["messages"]
    whole = tokenizer(llama3_tokenizer_file)({"messages": messages})["token_weights"]
    limit = len(whole) - 6
    cut = tokenizer(llama3_tokenizer_file, max_seq_len=limit, truncation_type=side)({"messages": messages})
    assert cut["token_weights"] == (whole[:limit] if side == "right" else whole[-limit:])
    sample = SFTTransform(None, lambda row: cut)({})
    assert len(sample["loss_weights"]) == len(sample["labels"]) == limit


def test_a_prompt_template_keeps_weights_and_refuses_what_it_did_before():
    template = PromptTemplate({"user": ("Q: ", "\nA: "), "assistant": ("", "!")})
    message = template([Message("assistant", "a", weight=0.5, reasoning="r")])[0]
    assert (message.weight, message.reasoning, message.text_content) == (0.5, "r", "a!")


@pytest.mark.parametrize(
    ("train_on", "untrained"),
    [
        ({"turn_end": "none"}, ["<|eot_id|>"] * 2),
        ({"turn_end": "last"}, ["<|eot_id|>"]),
        ({"answer": False}, ["Hello", "By", "e"]),
        ({"tool_calls": False}, []),
    ],
)
def test_train_on_takes_parts_of_trained_messages_away(
    llama3_tokenizer_file: Path, train_on: dict[str, Any], untrained: list[str]
):
    whole = tokenizer(llama3_tokenizer_file, mask_policy="sampled")
    some = tokenizer(llama3_tokenizer_file, mask_policy="sampled", train_on=train_on)
    tokens, mask = whole.tokenize_messages(CHAT)
    same, less, trace = some.tokenize_messages(CHAT, trace=True)
    assert same == tokens
    away = [position for position in range(len(tokens)) if less[position] and not mask[position]]
    shown = [whole.decode([tokens[position]], truncate_at_eos=False, skip_special_tokens=False) for position in away]
    assert shown == untrained
    assert all(masked or not without for masked, without in zip(less, mask, strict=True))
    assert [not origin.trained for origin in trace] == less
    assert all(trace[position].reason.endswith("left out by train_on") for position in away)


def test_a_call_in_the_text_counts_as_a_call(llama3_tokenizer_file: Path):
    call = Message("assistant", "f()", ipython=True)
    chat = [Message("user", "u", masked=True), call, Message("tool", "1", masked=True)]
    less = {"tool_calls": False, "turn_end": "none"}
    without = tokenizer(llama3_tokenizer_file, mask_policy="sampled", train_on=less)
    assert all(without.tokenize_messages(chat)[1])
    answers = tokenizer(llama3_tokenizer_file, mask_policy="sampled", train_on={"answer": False})
    plain = llama3_tokenizer(str(llama3_tokenizer_file), mask_policy="sampled")
    assert answers.tokenize_messages(chat) == plain.tokenize_messages(chat)


def test_reasoning_that_the_format_does_not_tell_apart_cannot_be_left_out(llama3_tokenizer_file: Path):
    with pytest.raises(ConfigError, match="the llama3 format writes no reasoning apart from the text"):
        tokenizer(llama3_tokenizer_file, train_on={"reasoning": False})
