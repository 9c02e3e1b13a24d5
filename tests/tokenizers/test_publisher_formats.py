"""What rows with a layout train, refuse and keep apart."""

import pickle
from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe.audit import explain
from torchpipe.data import Message, OpenAIToMessages
from torchpipe.datasets import SFTDataset
from torchpipe.errors import ConfigError, DataError, TokenizerError
from torchpipe.tokenizers import PUBLISHER_FORMATS, PublisherFormatTokenizer, chat_format_tokenizer

FORMATS = {row.name: row for row in PUBLISHER_FORMATS}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
ID = "abcdefgh1"


class Letters:
    """A stand-in vocabulary of bytes, with every control token that a row could name."""

    name, num_tokens = "letters", 256

    def __init__(self, control_tokens: dict[str, int]) -> None:
        self.control_tokens = control_tokens

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode()


def stand_in(family: str, **arguments) -> PublisherFormatTokenizer:
    names = ["<bos>", "<eos>", "<pad>", "<s>", "</s>", "<unk>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]"]
    names += ["[/SYSTEM_PROMPT]", "[TOOL_CONTENT]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"]
    names += ["[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "<think>", "</think>", "<｜tool▁sep｜>"]
    names += [f"<｜{name}｜>" for name in ("begin▁of▁sentence", "end▁of▁sentence", "User", "Assistant")]
    names += [f"<｜tool▁{name}▁{end}｜>" for name in ("calls", "call", "output") for end in ("begin", "end")]
    row = FORMATS[family]
    ids = {name: 256 + i for i, name in enumerate(dict.fromkeys([*names, *row.control_tokens, *row.control_pieces]))}
    return PublisherFormatTokenizer(Letters(ids), row, special_tokens=ids, **arguments)


def shown(tokenizer: PublisherFormatTokenizer, ids: list[int], mask: list[bool]) -> list[str]:
    """The texts that are trained, in order."""
    trained, start = [], 0
    for masked, run in groupby(mask):
        stop = start + len(list(run))
        trained += [] if masked else [tokenizer.decode(ids[start:stop], False, False)]
        start = stop
    return trained


def conversation(text: str = "x", *, calls: bool = True, reasoning: bool = False) -> list[dict]:
    """Question, call, result, answer, question, answer; every text holds ``text``."""
    call = {"id": ID, "type": "function", "function": {"name": "f", "arguments": {"q": text}}}
    thought = {"reasoning": f"R{text}"} if reasoning else {}
    called = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "name": "f", "tool_call_id": ID, "content": f"T{text}"},
    ]
    return [
        {"role": "user", "content": f"U{text}"},
        *(called if calls else []),
        {"role": "assistant", "content": f"A{text}"},
        {"role": "user", "content": f"V{text}"},
        {"role": "assistant", "content": f"B{text}", **thought},
    ]


# What each row trains of that conversation: calls, answers and what ends them; no header, and nothing that a prompt
# already holds.
JSON_CALL = '{"name": "f", "parameters": {"q": "x"}}<|eot_id|>'
QWEN_CALL = '<tool_call>\n{"name": "f", "arguments": {"q": "x"}}\n</tool_call><|im_end|>'
DEEPSEEK_CALL = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"q": "x"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
)
MISTRAL_CALL = '[TOOL_CALLS][{"name": "f", "arguments": {"q": "x"}, "id": "abcdefgh1"}]</s>'
HARMONY_CALL = ' to=functions.f<|channel|>commentary <|constrain|> json<|message|>{"q": "x"}<|call|>'
TRAINED = {
    "mistral_v1": ["Ax</s>", "Bx</s>"],
    "mistral_v2": ["Ax</s>", "Bx</s>"],
    "mistral_v3": [MISTRAL_CALL, "Ax</s>", "Bx</s>"],
    "mistral_v7": [MISTRAL_CALL, "Ax</s>", "Bx</s>"],
    "mistral_v3_tekken": [MISTRAL_CALL, "Ax</s>", "Bx</s>"],
    "gpt_oss": [HARMONY_CALL, "<|channel|>final<|message|>Ax", "<|channel|>final<|message|>Bx<|return|>"],
    "llama3_1_instruct": [JSON_CALL, "Ax<|eot_id|>", "Bx<|eot_id|>"],
    "llama3_2_instruct": [JSON_CALL, "Ax<|eot_id|>", "Bx<|eot_id|>"],
    "llama3_3_instruct": [JSON_CALL, "Ax<|eot_id|>", "Bx<|eot_id|>"],
    "llama4_instruct": ['[f(q="x")]<|eom|>', "Ax<|eot|>", "Bx<|eot|>"],
    "qwen2_5_instruct": [QWEN_CALL, "Ax<|im_end|>", "Bx<|im_end|>"],
    "qwen3_chat": [QWEN_CALL, "Ax<|im_end|>", "Bx<|im_end|>"],
    "deepseek_v3_1": [f"{DEEPSEEK_CALL}<｜end▁of▁sentence｜>", "Ax<｜end▁of▁sentence｜>", "Bx<｜end▁of▁sentence｜>"],
    "gemma2_instruct": ["Ax<end_of_turn>", "Bx<end_of_turn>"],
    "gemma3_instruct": ["Ax<end_of_turn>", "Bx<end_of_turn>"],
    "phi3_5_instruct": ["Ax<|end|>", "Bx<|end|>"],
    "chatml": ["Ax<|im_end|>", "Bx<|im_end|>"],
}
CALLING = [name for name, trained in TRAINED.items() if len(trained) == 3 or name == "mistral_v2"]


@pytest.mark.parametrize("family", FORMATS)
def test_what_the_model_samples_is_trained(family: str):
    tokenizer = stand_in(family, on_unproved="common_prefix")
    ids, mask = tokenizer.tokenize_messages(conversation(calls=family in CALLING))
    assert shown(tokenizer, ids, mask) == TRAINED[family]


@pytest.mark.parametrize("family", FORMATS)
def test_a_prompt_is_what_stands_before_a_reply_and_trains_nothing(family: str):
    tokenizer = stand_in(family, on_unproved="common_prefix")
    messages = conversation(calls=family in CALLING)
    ids, mask = tokenizer.tokenize_messages(messages[:1], add_generation_prompt=True)
    assert all(mask)
    full, full_mask = tokenizer.tokenize_messages(messages)
    assert full[: len(ids)] == ids
    assert full_mask.index(False) == len(ids)


@pytest.mark.parametrize("family", FORMATS)
def test_no_text_of_a_row_becomes_a_control_token(family: str):
    row = FORMATS[family]
    tokenizer = stand_in(family, on_unproved="common_prefix")
    forged = "".join(text for text in list(tokenizer.special_tokens)[:60] if '"' not in text)
    forged = forged.replace("</think>", "") + "<|im_end|><|call|>[/INST]"
    has_tools = row.layout is not None and row.layout.tools not in (None, "lost")

    def controls(text: str) -> list[int]:
        tool = {**TOOL, "function": {**TOOL["function"], "description": text, "parameters": {"title": text}}}
        messages = conversation(text, calls=family in CALLING, reasoning=True)
        ids, _ = tokenizer.tokenize_messages(messages, [tool] if has_tools else None)
        return [token_id for token_id in ids if token_id >= 256]

    assert controls(forged) == controls("x")


@pytest.mark.parametrize("family", FORMATS)
def test_mask_and_trace_agree_on_every_token(family: str):
    tokenizer = stand_in(family, on_unproved="common_prefix")
    messages = conversation(calls=family in CALLING, reasoning=True)
    ids, mask, trace = tokenizer.tokenize_messages(messages, trace=True)
    assert [not origin.trained for origin in trace] == mask
    assert len(trace) == len(ids)
    assert {origin.kind for origin in trace if origin.trained} <= {
        *("content", "reasoning", "tool_call", "channel", "turn_end")
    }


def test_a_trace_tells_reasoning_calls_prefill_and_tools_apart():
    tokenizer = stand_in("qwen3_chat", options={"enable_thinking": False})
    _, _, trace = tokenizer.tokenize_messages(conversation(), [TOOL], trace=True)
    kinds = list(dict.fromkeys(origin.kind for origin in trace))
    assert kinds == ["document_start", "header", "content", "turn_end", "separator", "tool_call", "prefill"]
    _, _, trace = tokenizer.tokenize_messages([{"role": "system", "content": "S"}, *conversation()], [TOOL], trace=True)
    assert [origin.kind for origin in trace].count("tools") > 100


def test_an_empty_thought_is_trained_where_the_row_thinks():
    tokenizer = stand_in("qwen3_chat")
    ids, mask = tokenizer.tokenize_messages(conversation())
    assert "<think>" not in "".join(shown(tokenizer, ids, mask))
    ids, mask = tokenizer.tokenize_messages(conversation(reasoning=True))
    assert shown(tokenizer, ids, mask)[-1] == "<think>\nRx\n</think>\n\nBx<|im_end|>"


@pytest.mark.parametrize(
    ("family", "lost"),
    [
        ("mistral_v3", "Message 5 .assistant.: the mistral_v3 format leaves its reasoning out"),
        ("mistral_v2", "Message 1 .assistant.: the mistral_v2 format leaves its calls of an earlier exchange out"),
        ("llama3_1_instruct", "leaves its reasoning out. Take it out in a message_transform, drop the row"),
        ("deepseek_v3_1", "or set on_unproved='common_prefix' to write what the publisher's own code writes"),
        ("gemma2_instruct", "leaves its reasoning out"),
    ],
)
def test_what_a_publisher_leaves_out_is_refused_unless_asked_for(family: str, lost: str):
    messages = conversation(calls=family in CALLING, reasoning=True)
    with pytest.raises(DataError, match=lost):
        stand_in(family).tokenize_messages(messages)
    asked = stand_in(family, on_unproved="common_prefix")
    ids, _, trace = asked.tokenize_messages(messages, trace=True)
    assert "Rx" not in asked.decode(ids)
    assert any("unproved: the format left out its reasoning" in origin.reason for origin in trace)


def test_qwen3_refuses_earlier_reasoning_and_keeps_the_last():
    first = {"role": "assistant", "content": "a", "reasoning": "why"}
    messages = [{"role": "user", "content": "q"}, first, {"role": "user", "content": "q"}, first]
    with pytest.raises(DataError, match="Message 1 .assistant.: the qwen3_chat format leaves its reasoning out"):
        stand_in("qwen3_chat").tokenize_messages(messages)
    assert stand_in("qwen3_chat").render_text(messages[2:]).count("why") == 1


def test_gpt_oss_keeps_the_analysis_that_its_code_drops_where_the_option_says_so():
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning": "why"}]
    with pytest.raises(DataError, match="Set the option auto_drop_analysis to False to keep it"):
        stand_in("gpt_oss").tokenize_messages(messages)
    tokenizer = stand_in("gpt_oss", options={"auto_drop_analysis": False})
    ids, mask = tokenizer.tokenize_messages(messages)
    assert shown(tokenizer, ids, mask) == [
        "<|channel|>analysis<|message|>why<|end|><|start|>assistant<|channel|>final<|message|>a<|return|>"
    ]


def test_a_call_that_the_server_asks_for_again_has_a_header_that_is_not_trained():
    call = {"id": ID, "function": {"name": "f", "arguments": "{}"}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call, call]}]
    ids, mask = stand_in("gpt_oss").tokenize_messages(messages)
    one = " to=functions.f<|channel|>commentary <|constrain|> json<|message|>{}<|call|>"
    assert shown(stand_in("gpt_oss"), ids, mask) == [one, one]


def test_arguments_that_are_text_are_written_to_the_letter():
    call = {"id": ID, "function": {"name": "f", "arguments": '{"b":1,  "a": 2.50}'}}
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    for family in ("qwen2_5_instruct", "qwen3_chat", "llama3_1_instruct", "deepseek_v3_1", "gpt_oss"):
        assert '{"b":1,  "a": 2.50}' in stand_in(family).render_text(messages)
    assert '{"b": 1, "a": 2.5}' in stand_in("mistral_v3").render_text(messages)


@pytest.mark.parametrize(
    ("family", "change", "why"),
    [
        ("mistral_v1", {}, "Message 1 .assistant. calls tools, for which there is no place"),
        ("mistral_v3", {"id": "call_1"}, "has the call id 'call_1'; an id has nine letters and digits"),
        ("mistral_v7", {"name": "a b"}, "names the tool 'a b'; a name has up to 64 letters, digits, _ and -"),
        ("mistral_v3", {"content": "text"}, "has text beside its calls: it may have either"),
        ("gemma3_instruct", {}, "calls tools, for which there is no place"),
        ("llama4_instruct", {"arguments": {"a": 'say "x"'}}, "Llama 4's calls in Python have no spelling for"),
        ("llama4_instruct", {"arguments": "no json"}, "are no JSON"),
    ],
)
def test_a_call_that_a_format_can_not_write_is_refused(family: str, change: dict, why: str):
    function = {"name": change.get("name", "f"), "arguments": change.get("arguments", {})}
    call = {"id": change.get("id", ID), "function": function}
    reply = {"role": "assistant", "content": change.get("content"), "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "1"}
    messages = [{"role": "user", "content": "q"}, reply, result, {"role": "assistant", "content": "a"}]
    with pytest.raises(DataError, match=why):
        stand_in(family).tokenize_messages(messages)


@pytest.mark.parametrize(
    ("family", "messages", "why"),
    [
        ("mistral_v3", [("user", "q"), ("assistant", "a"), ("assistant", "b")], "follows another one of the assistant"),
        ("mistral_v3", [("assistant", "a")], "opens the conversation"),
        ("mistral_v3", [("user", "q"), ("assistant", "a"), ("system", "s")], "may follow the system's or the user's"),
        ("mistral_v7", [("user", "q"), ("assistant", "")], "has neither text nor calls, and must have one"),
        ("gemma2_instruct", [("system", "s"), ("user", "q")], "has no place for one: it has 'user', 'assistant'"),
        ("gemma3_instruct", [("user", "q"), ("user", "q")], "breaks the alternation of user and assistant"),
        ("deepseek_v3_1", [("user", "q"), ("system", "s")], "is the system's, which may only come first"),
        ("gpt_oss", [("user", "q"), ("developer", "s")], "is the system's or the developer's"),
    ],
)
def test_an_order_that_a_format_can_not_write_is_refused(family: str, messages: list, why: str):
    with pytest.raises(DataError, match=why):
        stand_in(family).tokenize_messages([{"role": role, "content": text} for role, text in messages])


def test_tools_are_dicts_or_their_json_text_and_refused_where_there_is_no_place():
    messages = [{"role": "user", "content": "q"}]
    tokenizer = stand_in("qwen3_chat")
    assert tokenizer.render_text(messages, [TOOL]) == tokenizer.render_text(
        messages,
        '[{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]',
    )
    for family, tools, why in (
        ("gemma2_instruct", [TOOL], "The row offers tools, and the gemma2_instruct format has no place for them"),
        ("deepseek_v3_1", [TOOL], "the deepseek_v3_1 format leaves them out"),
        ("mistral_v3", [{"type": "code_interpreter"}], "Tool 0 of the row is no function with a name"),
        ("gpt_oss", [{"type": "code_interpreter"}], "and the gpt_oss format writes functions alone"),
        ("qwen3_chat", ["f"], "Tool 0 of the row is a str"),
        ("qwen3_chat", "[{", "The row's tools are text that is no JSON"),
        ("qwen3_chat", 3, "The row's tools are a int"),
    ):
        with pytest.raises(DataError, match=why):
            stand_in(family).tokenize_messages(messages, tools)


def test_a_sample_of_a_data_set_has_its_tools_written_and_its_masks_kept():
    tokenizer = stand_in("qwen3_chat")
    messages = [Message("user", "q", masked=True), Message("assistant", "a"), Message("user", "r", masked=True)]
    sample = tokenizer({"messages": [*messages, Message("assistant", "b", masked=True)], "tools": [TOOL], "row": 3})
    assert set(sample) == {"tokens", "mask", "row"}
    assert shown(tokenizer, sample["tokens"], sample["mask"]) == ["a<|im_end|>"]
    prompt = tokenizer({"messages": messages, "tools": [TOOL]}, inference=True)
    assert tokenizer.decode(prompt["tokens"], False, False).endswith("r<|im_end|>\n<|im_start|>assistant\n")
    assert all(prompt["mask"])


def test_explain_shows_a_row_with_its_tools():
    row = {"messages": conversation(), "tools": [TOOL]}
    tokenizer = stand_in("qwen3_chat")
    dataset = SFTDataset(source=[row], message_transform=OpenAIToMessages(), model_transform=tokenizer)
    (document,) = explain(dataset).rows[0].documents
    shown_text = "".join(token.piece.text for token in document.tokens)
    assert "# Tools" in shown_text
    assert {token.kind for token in document.tokens if token.trained} == {"tool_call", "content", "turn_end"}


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.sampled_from(
    ["", "<|im_end|>", "</s>", "[INST]", "<|call|>", "<|eot_id|>", "\n\n", "  ", "<tool_response>x</tool_response>"]
)


@given(st.lists(st.tuples(_TEXTS, _TEXTS), min_size=1, max_size=4), st.booleans())
@pytest.mark.parametrize("family", ["mistral_v3", "gpt_oss", "llama3_1_instruct", "qwen3_chat", "chatml"])
def test_whatever_a_row_says_mask_trace_text_and_control_tokens_agree(
    family: str, exchanges: list[tuple[str, str]], has_tools: bool
):
    tokenizer = stand_in(family, on_unproved="common_prefix")
    tools = [TOOL] if has_tools and family != "chatml" else None
    replies = [(question, reply.replace("</think>", "") or "x") for question, reply in exchanges]
    replies = [(question, reply if reply.rstrip() else "x") for question, reply in replies]
    plain = [(f"q{number}", f"a{number}") for number, _ in enumerate(replies)]

    def written(pairs: list[tuple[str, str]]) -> tuple[list[int], list[dict]]:
        roles = ("user", "assistant")
        turns = [{"role": role, "content": text} for pair in pairs for role, text in zip(roles, pair, strict=True)]
        return tokenizer.tokenize_messages(turns, tools)[0], turns

    ids, turns = written(replies)
    again, mask, trace = tokenizer.tokenize_messages(turns, tools, trace=True)
    assert again == ids
    assert [not origin.trained for origin in trace] == mask
    assert tokenizer.decode(ids, False, False) == tokenizer.render_text(turns, tools)
    if not any("<tool_response>" in question for question, _ in replies):
        assert [i for i in ids if i >= 256] == [i for i in written(plain)[0] if i >= 256]
    if tokenizer.bos_id is not None:
        assert ids.count(tokenizer.bos_id) == 1


def test_weights_and_truncation_reach_the_sample():
    tokenizer = stand_in("chatml", max_seq_len=40)
    sample = tokenizer({"messages": [Message("user", "q" * 30, masked=True), Message("assistant", "a", weight=0.5)]})
    assert len(sample["tokens"]) == len(sample["mask"]) == len(sample["token_weights"]) == 40
    assert sample["num_truncated"] == 12
    assert sample["tokens"][-1] == tokenizer.eos_id
    assert sample["mask"][-1]


def test_reasoning_and_calls_can_be_left_untrained():
    tokenizer = stand_in("qwen3_chat", train_on={"reasoning": False, "tool_calls": False})
    ids, mask = tokenizer.tokenize_messages(conversation(reasoning=True))
    assert shown(tokenizer, ids, mask) == ["<|im_end|>", "Ax<|im_end|>", "Bx<|im_end|>"]


def test_a_tokenizer_survives_pickling():
    tokenizer = stand_in("gpt_oss", options={"conversation_start_date": "2025-01-01"})
    again = pickle.loads(pickle.dumps(tokenizer))
    assert again.tokenize_messages(conversation(), [TOOL]) == tokenizer.tokenize_messages(conversation(), [TOOL])


def test_a_name_or_option_that_is_unknown_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="There is no format 'mistral_v4'.*Did you mean 'mistral_v"):
        chat_format_tokenizer("mistral_v4", "tokenizer.model")
    with pytest.raises(ConfigError, match="has no option 'date'. It has 'date_string'"):
        stand_in("llama3_1_instruct", options={"date": "today"})
    with pytest.raises(ConfigError, match="on_unproved is 'keep'. It can be 'refuse' or 'split' or 'drop' or"):
        stand_in("llama3_1_instruct", on_unproved="keep")
    with pytest.raises(TokenizerError, match="allowed_special names '<.im_end.>', which is none of the"):
        stand_in("llama3_1_instruct", allowed_special=["<|im_end|>"])


def test_a_developers_message_is_the_systems_and_an_ipython_message_a_result():
    messages = [Message("developer", "S"), Message("user", "q"), Message("assistant", "a")]
    assert stand_in("mistral_v7").render_text(messages).startswith("<s>[SYSTEM_PROMPT]S[/SYSTEM_PROMPT][INST]q")
    messages = [Message("user", "q"), Message("assistant", None, tool_calls=[{"name": "f", "arguments": {}, "id": ID}])]
    messages.append(Message("ipython", "1", tool_call_id=ID))
    assert "[TOOL_RESULTS]abcdefgh1[TOOL_CONTENT]1[/TOOL_RESULTS]" in stand_in("mistral_v7").render_text(messages)
