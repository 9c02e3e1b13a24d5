"""What a chat template's tokenizer trains, and what becomes of a turn that isn't proved."""

from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.datasets import PackedDataset, SFTDataset
from torchpipe.errors import ConfigError, DataError


def test_the_reply_and_its_stop_token_are_trained(chatml: Any) -> None:
    made = chatml.tokenizer()
    tokens, mask = made.tokenize_messages(chatml.chat)
    text = made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False)
    assert text == made.chat_template.render([{"role": m.role, "content": m.text_content} for m in chatml.chat])
    assert chatml.trained_text(made, tokens, mask) == "Hello.<|im_end|>See you.<|im_end|>"


def test_messages_and_dicts_give_the_same(chatml: Any) -> None:
    made = chatml.tokenizer()
    dicts = [{"role": m.role, "content": m.text_content} for m in chatml.chat]
    assert made.tokenize_messages(chatml.chat) == made.tokenize_messages(dicts)


@pytest.mark.parametrize("flag", [{"masked": True}, {"train": False}, {"weight": 0}])
def test_a_turn_may_ask_not_to_be_trained(chatml: Any, flag: dict[str, Any]) -> None:
    made = chatml.tokenizer()
    dicts = [{"role": m.role, "content": m.text_content} for m in chatml.chat]
    dicts[1] = {**dicts[1], **flag}
    tokens, mask = made.tokenize_messages(dicts)
    assert tokens == made.tokenize_messages(chatml.chat)[0]
    assert chatml.trained_text(made, tokens, mask) == "See you.<|im_end|>"


def test_the_message_policy_trains_headers_too(chatml: Any) -> None:
    made = chatml.tokenizer(mask_policy="message")
    tokens, mask = made.tokenize_messages(chatml.chat)
    assert tokens == chatml.tokenizer().tokenize_messages(chatml.chat)[0]
    assert chatml.trained_text(made, tokens, mask) == (
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>assistant\nSee you.<|im_end|>\n"
    )


def test_with_a_generation_prompt_all_is_masked(chatml: Any) -> None:
    made = chatml.tokenizer()
    tokens, mask = made.tokenize_messages(chatml.chat[:3], add_generation_prompt=True)
    assert all(mask)
    assert made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False).endswith("<|im_start|>assistant\n")
    assert made({"messages": chatml.chat[:3]}, inference=True) == {"tokens": tokens, "mask": mask}


def test_a_conversation_without_assistant_is_masked(chatml: Any) -> None:
    _, mask = chatml.tokenizer().tokenize_messages(chatml.chat[:1])
    assert all(mask)


PREFILLED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
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


def test_an_unproved_turn_is_refused_by_name(chatml: Any) -> None:
    with pytest.raises(DataError, match=r"Message 1 \(assistant\) is not proved .*'<think>\\n'.*on_unproved"):
        chatml.tokenizer(PREFILLED).tokenize_messages(chatml.chat)
    with pytest.raises(DataError, match=r"Message 1 .*reasoning_content is not in the template's text.*'split' trains"):
        chatml.tokenizer(REWRITTEN).tokenize_messages(THINKING)


def test_a_turn_that_is_not_trained_needs_no_proof(chatml: Any) -> None:
    chat = [THINKING[0], Message("assistant", "2", reasoning="one and one", masked=True), *THINKING[2:]]
    made = chatml.tokenizer(REWRITTEN)
    tokens, mask = made.tokenize_messages(chat)
    assert chatml.trained_text(made, tokens, mask) == "<think>two and two</think>4<|im_end|>"


def test_split_makes_a_sample_of_each_rewritten_turn(chatml: Any) -> None:
    made = chatml.tokenizer(REWRITTEN, on_unproved="split")
    whole, alone = made.tokenize_conversation(THINKING, trace=True)
    texts = [chatml.trained_text(made, sample.tokens, sample.mask) for sample in (whole, alone)]
    assert texts == ["<think>two and two</think>4<|im_end|>", "<think>one and one</think>2<|im_end|>"]
    assert alone.trace is not None
    assert {origin.proof for origin in alone.trace if origin.trained} == {"split"}
    with pytest.raises(DataError, match="becomes 2 samples"):
        made.tokenize_messages(THINKING)
    with pytest.raises(DataError, match="not proved"):
        chatml.tokenizer(PREFILLED, on_unproved="split").tokenize_conversation(chatml.chat)


OPTIONAL = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content and enable_thinking %}"
    "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A template that writes reasoning only where the caller says so."""


def test_split_writes_a_turn_with_the_thinking_option_that_proves_it(chatml: Any) -> None:
    made = chatml.tokenizer(OPTIONAL, on_unproved="split")
    samples = made.tokenize_conversation([*THINKING[:3], Message("assistant", "4")])
    texts = [chatml.trained_text(made, sample.tokens, sample.mask) for sample in samples]
    assert texts == ["4<|im_end|>", "<think>one and one</think>2<|im_end|>"]
    whole = chatml.tokenizer(OPTIONAL, template_kwargs={"enable_thinking": True})
    assert samples[1][:2] == whole.tokenize_messages(THINKING[:2])
    asked_not_to = chatml.tokenizer(OPTIONAL, on_unproved="split", template_kwargs={"enable_thinking": False})
    with pytest.raises(DataError, match="reasoning_content is not in the template's text"):
        asked_not_to.tokenize_conversation(THINKING)


def test_a_refusal_names_the_option_that_proves_the_turn(chatml: Any) -> None:
    hint = r"or set template_kwargs: \{enable_thinking: true\}, with which it is proved"
    with pytest.raises(DataError, match=hint):
        chatml.tokenizer(OPTIONAL).tokenize_messages(THINKING)
    prefilled = (
        "{% if enable_thinking %}<think>{% endif %}"
        + chatml.template.replace("assistant\n{% endif %}", "assistant\n")
        + "{% if not enable_thinking %}<think></think>{% endif %}{% endif %}"
    )
    with pytest.raises(DataError, match=hint):
        chatml.tokenizer(prefilled).tokenize_messages(chatml.chat)
    given = chatml.tokenizer(prefilled, template_kwargs={"enable_thinking": True})
    assert chatml.trained_text(given, *given.tokenize_messages(chatml.chat)) == "Hello.<|im_end|>See you.<|im_end|>"
    with pytest.raises(DataError, match=r"train_on_last\)\.$") as refused:
        chatml.tokenizer(PREFILLED).tokenize_messages(chatml.chat)
    assert "template_kwargs" not in str(refused.value)


def test_drop_leaves_the_row_out(chatml: Any) -> None:
    made = chatml.tokenizer(PREFILLED, on_unproved="drop")
    assert made.tokenize_conversation(chatml.chat) == []
    with pytest.raises(DataError, match="is left out"):
        made.tokenize_messages(chatml.chat)


def test_common_prefix_trains_and_says_that_it_is_unproved(chatml: Any) -> None:
    made = chatml.tokenizer(PREFILLED, on_unproved="common_prefix")
    (sample,) = made.tokenize_conversation(chatml.chat, trace=True)
    assert sample.num_unproved == 2
    assert chatml.trained_text(made, sample.tokens, sample.mask) == "Hello.<|im_end|>See you.<|im_end|>"
    assert sample.trace is not None
    assert {(origin.proof, origin.reason[:9]) for origin in sample.trace if origin.trained} == {("none", "unproved:")}
    assert made({"messages": chatml.chat})["num_unproved_turns"] == 2


def test_common_prefix_trains_no_other_messages_text_where_history_is_rewritten(chatml: Any) -> None:
    shouted_when_last = chatml.template.replace(
        "{{ m.content }}", "{{ m.content | upper if loop.last else m.content }}"
    )
    made = chatml.tokenizer(shouted_when_last, on_unproved="common_prefix")
    tokens, mask, trace = made.tokenize_messages(chatml.chat, trace=True)
    assert chatml.trained_text(made, tokens, mask) == "Hello.<|im_end|>SEE YOU.<|im_end|>"
    assert {trace[place].message for place, masked in enumerate(mask) if not masked} == {1, 3}


def test_tools_that_a_template_leaves_out_are_not_lost_silently(chatml: Any) -> None:
    tools = [{"type": "function", "function": {"name": "look"}}]
    with pytest.raises(DataError, match="the row offers tools, and the template writes none of them"):
        chatml.tokenizer().tokenize_messages(chatml.chat, tools)
    (sample,) = chatml.tokenizer(on_unproved="common_prefix").tokenize_conversation(chatml.chat, tools)
    assert sample.num_unproved == 2


@pytest.mark.parametrize("on_unproved", ["split", "drop"])
def test_a_data_set_of_one_sample_a_row_refuses_to_split_or_drop(chatml: Any, on_unproved: Any) -> None:
    rows: Any = [{"messages": chatml.chat}]
    with pytest.raises(ConfigError, match=f"on_unproved='{on_unproved}'"):
        SFTDataset(source=rows, message_transform=dict, model_transform=chatml.tokenizer(on_unproved=on_unproved))


def test_a_packed_data_set_takes_split_and_drop(chatml: Any) -> None:
    rows: Any = [{"messages": THINKING}, {"messages": chatml.chat}]
    for on_unproved, num_samples, template in (("split", 3, REWRITTEN), ("drop", 1, REWRITTEN)):
        ds = SFTDataset(
            source=rows,
            message_transform=dict,
            model_transform=chatml.tokenizer(template, on_unproved=on_unproved),
            one_sample_a_row=False,
        )
        packed = PackedDataset(ds, max_seq_len=256)
        assert packed.counts.rows == num_samples
        assert packed.counts.split_rows == (on_unproved == "split")
        assert packed.counts.unproved_rows == (on_unproved == "drop")
    assert "1 more row left out, since it isn't proved what the model samples" in packed.counts.describe()
    with pytest.raises(ConfigError, match="overflow='truncate' cuts a row, and on_unproved='split'"):
        SFTDataset(
            source=rows,
            message_transform=dict,
            model_transform=chatml.tokenizer(on_unproved="split"),
            one_sample_a_row=False,
            overflow="truncate",
            max_seq_len=20,
        )
