"""Rows that a publisher's format leaves something of: one sample a turn, or none."""

import json
import runpy
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import Message, OpenAIToMessages, ShareGPTToMessages
from torchpipe.datasets import SFTDataset
from torchpipe.errors import ConfigError, DataError, TorchpipeError
from torchpipe.tokenizers import ChatTemplateTokenizer, PublisherFormatTokenizer, TokenizedConversation
from torchpipe.tokenizers.publisher_formats import PUBLISHER_FORMATS

STAND_IN = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "chat_format_table.py"))["stand_in"]
FORMATS = {row.name: row for row in PUBLISHER_FORMATS}
ID = "abcdefgh1"
THOUGHT = {"reasoning": "R"}
CALL = {"id": ID, "type": "function", "function": {"name": "f", "arguments": {}}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "name": "f", "tool_call_id": ID, "content": "T"}


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


TWO_THOUGHTS = [
    said("user", "U"),
    said("assistant", "A", **THOUGHT),
    said("user", "V"),
    said("assistant", "B", **THOUGHT),
]
CHAIN = [said("user", "U"), {**CALLED, **THOUGHT}, RESULT, said("assistant", "A", **THOUGHT)]


def rows_of(family: str, **arguments: Any) -> PublisherFormatTokenizer:
    """The row's tokenizer over a stand-in vocabulary of letters."""
    return STAND_IN(FORMATS[family], **arguments)


def trained(tokenizer: Any, sample: TokenizedConversation) -> list[str]:
    """The texts that a sample trains, in order."""
    texts, start = [], 0
    for masked, run in groupby(sample.mask):
        stop = start + len(list(run))
        texts += [] if masked else [tokenizer.decode(sample.tokens[start:stop], False, False)]
        start = stop
    return texts


def split(family: str, messages: list[Any], tools: Any = None, **arguments: Any) -> list[list[str]]:
    """What each sample trains."""
    tokenizer = rows_of(family, on_unproved="split", **arguments)
    return [trained(tokenizer, sample) for sample in tokenizer.tokenize_conversation(messages, tools)]


def test_an_earlier_turn_whose_reasoning_goes_is_trained_in_a_sample_that_ends_with_it():
    thought = "<think>\nR\n</think>\n\n"
    assert split("qwen3_chat", TWO_THOUGHTS) == [[f"{thought}B<|im_end|>"], [f"{thought}A<|im_end|>"]]
    tokenizer = rows_of("qwen3_chat", on_unproved="split")
    whole, alone = tokenizer.tokenize_conversation(TWO_THOUGHTS, trace=True)
    assert tokenizer.decode(whole.tokens, False, False).count("R") == 1
    assert alone.tokens == rows_of("qwen3_chat").tokenize_messages(TWO_THOUGHTS[:2])[0]
    assert alone.trace is not None
    assert {origin.message for origin in alone.trace if origin.trained} == {1}
    assert not any("unproved" in origin.reason for sample in (whole, alone) for origin in sample.trace or ())


def test_gpt_oss_writes_the_reasoning_that_was_sampled_and_drops_what_a_server_drops():
    answer = "<|channel|>analysis<|message|>R<|end|><|start|>assistant<|channel|>final<|message|>A<|return|>"
    call = (
        "<|channel|>analysis<|message|>R<|end|><|start|>assistant to=functions.f"
        "<|channel|>commentary <|constrain|> json<|message|>{}<|call|>"
    )
    assert split("gpt_oss", CHAIN) == [[call], [answer]]
    last = answer.replace(">A<", ">B<")
    assert split("gpt_oss", TWO_THOUGHTS) == [[last], [answer]]
    tokenizer = rows_of("gpt_oss", on_unproved="split")
    third = [*TWO_THOUGHTS, said("user", "W"), said("assistant", "C")]
    texts = [tokenizer.decode(sample.tokens, False, False) for sample in tokenizer.tokenize_conversation(third)]
    assert [text.count("<|message|>R<") for text in texts] == [1, 1, 1]  # of B, A and B: what a server had then


def test_answers_that_end_otherwise_once_the_conversation_goes_on_have_samples_of_their_own():
    final = "<|channel|>final<|message|>"
    plain = [said("user", "U"), said("assistant", "A"), said("user", "V"), said("assistant", "B")]
    assert split("gpt_oss", plain) == [[f"{final}B<|return|>"], [f"{final}A<|return|>"]]


def test_calls_that_an_earlier_exchange_loses_are_trained_once():
    messages = [said("user", "U"), CALLED, RESULT, said("assistant", "A"), said("user", "V"), said("assistant", "B")]
    call = '[TOOL_CALLS][{"name": "f", "arguments": {}}]</s>'
    assert split("mistral_v2", messages) == [["B</s>"], [call], ["A</s>"]]


def test_turns_that_stand_in_the_whole_row_stay_in_it():
    messages = [said("user", "U"), CALLED, RESULT, said("assistant", "A"), said("user", "V"), said("assistant", "B")]
    for family in ("llama3_1_instruct", "qwen2_5_instruct", "mistral_v3", "deepseek_v3_1"):
        (whole,) = split(family, messages)
        assert len(whole) == 3, family
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    assert [len(texts) for texts in split("mistral_v3", messages, tools)] == [
        1,
        1,
        1,
    ]  # the tools move to the last user


@pytest.mark.parametrize(
    ("family", "messages", "tools", "refused"),
    [
        (
            "deepseek_v3_1",
            TWO_THOUGHTS,
            None,
            "Message 1 .assistant.: the deepseek_v3_1 format leaves its reasoning out",
        ),
        (
            "llama3_1_instruct",
            [said("user", "U"), {**CALLED, "content": "A"}],
            None,
            "Message 1 .* text beside calls out",
        ),
        (
            "qwen3_chat",
            [said("user", "U", name="Ada"), said("assistant", "A")],
            None,
            "Message 0 .user.: .* its name out",
        ),
        ("qwen3_chat", [said("user", "U"), said("assistant", "A", name="Ada")], None, "Message 1 .* its name out"),
        (
            "deepseek_v3_1",
            TWO_THOUGHTS[:1],
            [{"name": "f"}],
            "The row offers tools, and the deepseek_v3_1 format leaves",
        ),
    ],
)
def test_what_no_sample_would_hold_is_refused(family: str, messages: list[Any], tools: Any, refused: str):
    with pytest.raises(DataError, match=refused):
        rows_of(family, on_unproved="split").tokenize_conversation(
            [*messages, said("user", "V"), said("assistant", "B")], tools
        )


def test_a_turn_that_is_not_trained_may_lose_what_a_server_leaves_out_as_well():
    messages = [Message("user", "U", masked=True), Message("assistant", "A", reasoning="R", masked=True)]
    messages += [Message("user", "V", masked=True), Message("assistant", "B")]
    assert split("deepseek_v3_1", messages) == [["B<｜end▁of▁sentence｜>"]]


def test_a_refusal_names_split_where_that_helps():
    with pytest.raises(
        DataError, match="or set on_unproved='split' to train it in a sample that ends with it, or 'comm"
    ):
        rows_of("qwen3_chat").tokenize_conversation(TWO_THOUGHTS)
    with pytest.raises(DataError, match="on_unproved='drop', or set on_unproved='common_prefix' to write"):
        rows_of("deepseek_v3_1").tokenize_conversation(TWO_THOUGHTS)


def test_drop_leaves_out_the_rows_of_which_something_is_lost():
    for family, messages, tools in (
        ("qwen3_chat", TWO_THOUGHTS, None),
        ("qwen3_chat", [said("user", "U", name="Ada"), said("assistant", "A")], None),
        ("deepseek_v3_1", TWO_THOUGHTS, None),
        ("deepseek_v3_1", [said("user", "U"), said("assistant", "A")], [{"name": "f"}]),
    ):
        assert rows_of(family, on_unproved="drop").tokenize_conversation(messages, tools) == []
    dropping = rows_of("qwen3_chat", on_unproved="drop")
    (kept,) = dropping.tokenize_conversation(TWO_THOUGHTS[2:])
    assert (kept.tokens, kept.mask) == rows_of("qwen3_chat").tokenize_messages(TWO_THOUGHTS[2:])


def test_common_prefix_counts_the_trained_turns_that_are_not_whole():
    tokenizer = rows_of("qwen3_chat", on_unproved="common_prefix")
    (sample,) = tokenizer.tokenize_conversation(TWO_THOUGHTS)
    assert sample.num_unproved == 1
    read = OpenAIToMessages()({"messages": TWO_THOUGHTS})["messages"]
    assert tokenizer({"messages": read})["num_unproved_turns"] == 1


def test_a_prompt_is_one_sample_whatever_is_lost():
    for on_unproved in ("split", "drop"):
        (prompt,) = rows_of("qwen3_chat", on_unproved=on_unproved).tokenize_conversation(TWO_THOUGHTS[:3], None, True)
        assert all(prompt.mask)
    with pytest.raises(DataError, match="becomes 2 samples by on_unproved='split'"):
        rows_of("qwen3_chat", on_unproved="split").tokenize_messages(TWO_THOUGHTS)


def test_a_packed_data_set_takes_split_and_drop_and_one_of_rows_does_not():
    rows = [{"messages": TWO_THOUGHTS}, {"messages": TWO_THOUGHTS[2:]}]
    for on_unproved, num_samples in (("split", 3), ("drop", 1)):
        tokenizer = rows_of("qwen3_chat", on_unproved=on_unproved)
        recipe: dict[str, Any] = {"source": rows, "message_transform": OpenAIToMessages(), "model_transform": tokenizer}
        with pytest.raises(ConfigError, match=f"on_unproved='{on_unproved}'"):
            SFTDataset(**recipe)
        dataset = SFTDataset(**recipe, one_sample_a_row=False)
        fitted = [dataset.fitted(row) for row in range(len(rows))]
        assert sum(len(one.samples) for one in fitted) == num_samples
        assert [one.left_out for one in fitted] == [None if on_unproved == "split" else "unproved", None]


def test_each_sample_is_cut_and_weighted_by_itself():
    messages = [Message(turn["role"], turn["content"], turn["role"] == "user") for turn in TWO_THOUGHTS]
    messages[1].weight = 0.5
    messages[1].reasoning = "R"
    tokenizer = rows_of("qwen3_chat", on_unproved="split", max_seq_len=28)
    whole, alone = tokenizer.samples_of({"messages": messages, "id": 7})
    assert (whole["id"], alone["id"]) == (7, 7)
    assert "token_weights" not in whole
    assert len(alone["tokens"]) == len(alone["mask"]) == len(alone["token_weights"]) == 28
    assert {weight for weight, masked in zip(alone["token_weights"], alone["mask"], strict=True) if not masked} == {0.5}


def more_of(message: Message) -> dict[str, Any]:
    return {key: getattr(message, key) for key in ("tool_calls", "reasoning", "name", "tool_call_id")}


_TURN = st.tuples(st.booleans(), st.booleans(), st.booleans())  # thinks, calls, is trained


@settings(max_examples=25)
@given(st.lists(_TURN, min_size=1, max_size=5))
@pytest.mark.parametrize("family", ["qwen3_chat", "gpt_oss", "mistral_v2", "mistral_v3", "llama3_1_instruct"])
def test_every_trained_turn_is_trained_exactly_once_and_as_in_the_conversation_that_ends_with_it(
    family: str, turns: list[tuple[bool, bool, bool]]
):
    thinks_in = family in ("qwen3_chat", "gpt_oss")
    messages: list[Message] = []
    for thinks, calls, is_trained in turns:
        thought = "why" if thinks and thinks_in else None
        messages.append(Message("user", "U", masked=True))
        if calls:
            messages.append(Message("assistant", None, not is_trained, tool_calls=[CALL], reasoning=thought))
            messages.append(Message("tool", "T", masked=True, name="f", tool_call_id=ID))
        messages.append(Message("assistant", "A", not is_trained, reasoning=thought))
    tokenizer = rows_of(family, on_unproved="split")
    untrained = [Message(m.role, m.content, True, **more_of(m)) for m in messages]
    asked_for = [i for i, m in enumerate(messages) if m.role == "assistant" and not m.masked]
    found: Counter[int] = Counter()
    for sample in tokenizer.tokenize_conversation(messages, trace=True):
        assert sample.trace is not None
        here = {origin.message for origin in sample.trace if origin.trained}
        found.update(here)
        for index in here:
            (own,) = tokenizer.tokenize_conversation([*untrained[:index], messages[index]])
            stop = max(place for place, origin in enumerate(sample.trace) if origin.trained and origin.message == index)
            assert sample.tokens[: stop + 1] == own.tokens[: stop + 1]
    assert sorted(found) == asked_for
    assert set(found.values()) <= {1}


TEMPLATES = {
    "qwen3_chat": ("qwen3", "Qwen-Qwen3-0.6B", None, "<|im_end|>", ()),
    "deepseek_v3_1": (
        "deepseek-v3.1",
        "deepseek-ai-DeepSeek-V3.1",
        "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        (),
    ),
    "gpt_oss": ("gpt-oss", "openai-gpt-oss-120b", None, "<|return|>", ("<|call|>",)),
}
# Conversations that both split alike, those that both refuse, and those whose calls the template of gpt-oss spells
# otherwise than the publisher's code, or refuses.
COMPARED = {"qwen3_chat": (447, 0, 0), "deepseek_v3_1": (231, 216, 0), "gpt_oss": (245, 0, 202)}


def real_rows(shared_data: Path) -> Iterator[dict[str, Any]]:
    folder = shared_data / "llamafactory"
    for name in ("glaive_toolcall_en_demo.json", "glaive_toolcall_zh_demo.json"):
        for row in json.loads((folder / name).read_text(encoding="utf-8")):
            yield dict(ShareGPTToMessages()(row))
    paths = ("reason_tool_use_demo.jsonl", "reason_think_inline.jsonl", "../messages/tinker_conversations.jsonl")
    for path in paths:
        for line in (folder / path).read_text(encoding="utf-8").splitlines():
            turns = json.loads(line)
            if "tool_calls_raw" not in line:
                yield dict(OpenAIToMessages()(turns))


def with_names(messages: list[Message]) -> list[Message]:
    """Results with the names of the tools, which gpt-oss writes and these rows lack."""
    calls: list[str] = []
    for message in messages:
        if message.tool_calls:
            calls = [call.name for call in message.tool_calls]
        if message.role == "tool":
            message.name = message.name or (calls.pop(0) if len(calls) > 1 else calls[0])
    return messages


@pytest.mark.parametrize("family", TEMPLATES)
def test_the_publishers_template_trains_the_same_texts_of_real_rows(
    family: str, shared_data: Path, golden_tokenizer: Callable[[str], Any]
):
    golden, name, bos_token, eos_token, stop_tokens = TEMPLATES[family]
    backend, control_tokens = golden_tokenizer(golden)
    row = PublisherFormatTokenizer(backend, FORMATS[family], special_tokens=control_tokens, on_unproved="split")
    template = ChatTemplateTokenizer(
        backend,
        (shared_data / "templates" / "llama_cpp" / f"{name}.jinja").read_text(encoding="utf-8"),
        special_tokens=control_tokens,
        bos_token=bos_token,
        eos_token=eos_token,
        stop_tokens=stop_tokens,
        on_unproved="split",
        template_kwargs={"strftime_now": lambda _: "26 Jul 2024"},
    )

    def texts(tokenizer: Any, given: dict[str, Any]) -> list[str] | None:
        try:
            samples = tokenizer.tokenize_conversation(with_names(given["messages"]), given.get("tools"))
        except TorchpipeError:
            return None
        return sorted(text for sample in samples for text in trained(row, sample))

    same = refused = others = 0
    for given_row in real_rows(shared_data):
        ours, theirs = texts(row, given_row), texts(template, given_row)
        if ours == theirs:
            same, refused = same + (ours is not None), refused + (ours is None)
            continue
        assert family == "gpt_oss"
        assert ours is not None
        assert any(" to=functions." in text for text in ours) or theirs is None
        others += 1
    assert (same, refused, others) == COMPARED[family]
