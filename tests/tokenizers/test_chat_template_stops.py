"""Where a turn of a chat template ends: its stop token, and what is trained of it."""

from typing import Any

import pytest

from torchpipe.data import Message
from torchpipe.errors import ConfigError, DataError

NO_END = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
NO_END_TOKENS = {"<|user|>": 300, "<|assistant|>": 301}
BY_MACRO = (
    "{% macro turn(m) %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endmacro %}"
    "{% for i in range(messages | length) %}{{ turn(messages[i]) }}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_document_end_after_the_stop_is_trained_by_no_policy(chatml: Any) -> None:
    template = chatml.template.replace(
        "{% if add", "{% if not add_generation_prompt %}<|endoftext|>{% endif %}{% if add"
    )
    for policy in ("sampled", "message"):
        made = chatml.tokenizer(template, mask_policy=policy, bos_token="<|endoftext|>")
        tokens, mask = made.tokenize_messages(chatml.chat)
        assert tokens[-1] == chatml.special["<|endoftext|>"]
        assert mask[-1]


def test_the_stop_token_has_the_weight_of_its_turn(chatml: Any) -> None:
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "weight": 0.5}]
    by_header = chatml.tokenizer(NO_END, special_tokens=NO_END_TOKENS, eos_token=None)
    for made in (chatml.tokenizer(), chatml.tokenizer(BY_MACRO), by_header):
        out = made({"messages": [*messages, {"role": "user", "content": "r"}]})
        trained = [weight for weight, masked in zip(out["token_weights"], out["mask"], strict=True) if not masked]
        assert trained == [0.5, 0.5]


@pytest.mark.parametrize(("turn_end", "kept"), [("none", "ab"), ("last", "ab<|user|>"), ("all", "a<|user|>b<|user|>")])
def test_the_next_header_is_a_turn_end_where_it_is_the_stop(chatml: Any, turn_end: str, kept: str) -> None:
    made = chatml.tokenizer(NO_END, special_tokens=NO_END_TOKENS, eos_token=None, train_on={"turn_end": turn_end})
    roles = ("user", "assistant", "user", "assistant", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, "qarbs", strict=True)]
    assert chatml.trained_text(made, *made.tokenize_messages(messages)) == kept


def test_the_control_token_that_opens_the_next_message_is_traced_as_the_stop(chatml: Any) -> None:
    opened = chatml.template.replace("<|im_end|>\n", "").replace("assistant\n", "assistant")
    made = chatml.tokenizer(opened.replace("\n{{ m.content }}", "{{ m.content }}"))
    tokens, mask, trace = made.tokenize_messages(chatml.chat[:3], trace=True)
    assert chatml.trained_text(made, tokens, mask) == "Hello.<|im_start|>"
    (stop,) = [
        trace[place]
        for place, token in enumerate(tokens)
        if token == chatml.special["<|im_start|>"] and not mask[place]
    ]
    assert (stop.kind, stop.message, stop.proof) == ("footer", 1, "causal")


OPEN_END = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
    "{% for call in m.tool_calls or [] %}{{ call.function.name }}({{ call.function.arguments | tojson }}){% endfor %}"
    "{% if m.role != 'assistant' or not loop.last %}{{ '.<|endoftext|>' if m.tool_calls else '<|im_end|>' }}\n"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""A template that leaves a last reply open, and ends calls otherwise than replies."""
CALLS = [{"type": "function", "function": {"name": "look", "arguments": {"city": "Rome"}}}]


def test_a_last_turn_without_an_end_is_refused_and_told_of_append_stop(chatml: Any) -> None:
    made = chatml.tokenizer(NO_END, special_tokens=NO_END_TOKENS, eos_token=None)
    with pytest.raises(DataError, match="no stop token after it.*or set append_stop: true, which ends the row"):
        made.tokenize_messages(chatml.chat)


@pytest.mark.parametrize(
    ("template", "stop"), [(NO_END, "<|user|>"), (OPEN_END, "<|im_end|>")], ids=["next header", "open end"]
)
def test_a_last_turn_without_an_end_may_get_what_would_follow(chatml: Any, template: str, stop: str) -> None:
    special = NO_END_TOKENS if template == NO_END else chatml.special
    made = chatml.tokenizer(template, special_tokens=special, eos_token=None, append_stop=True)
    tokens, mask, trace = made.tokenize_messages(chatml.chat[:2], trace=True)
    masked = Message("assistant", "Hello.", masked=True)
    assert made.tokenize_messages([chatml.chat[0], masked]) == (tokens, [True] * len(tokens))
    text = made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False)
    dicts = [{"role": message.role, "content": message.text_content} for message in chatml.chat[:2]]
    assert text == made.chat_template.render(dicts) + stop
    assert chatml.trained_text(made, tokens, mask) == f"Hello.{stop}"
    last = trace[len(tokens) - 1]
    assert (last.kind, last.message, last.reason) == ("footer", 1, "sampled by the model")


def test_what_is_appended_is_a_turn_end_like_others(chatml: Any) -> None:
    arguments: dict[str, Any] = {"special_tokens": NO_END_TOKENS, "eos_token": None, "append_stop": True}
    silent = chatml.tokenizer(NO_END, train_on={"turn_end": "none"}, **arguments)
    assert chatml.trained_text(silent, *silent.tokenize_messages(chatml.chat)) == "Hello.See you."
    whole = chatml.tokenizer(NO_END, mask_policy="message", **arguments)
    assert chatml.trained_text(whole, *whole.tokenize_messages(chatml.chat)).endswith("<|assistant|>See you.<|user|>")
    half = [*chatml.chat[:3], Message("assistant", "a", weight=0.5)]
    assert chatml.tokenizer(NO_END, **arguments)({"messages": half})["token_weights"][-2:] == [0.5, 0.5]


def test_a_call_gets_the_stop_of_calls(chatml: Any) -> None:
    made = chatml.tokenizer(OPEN_END, eos_token=None, append_stop=True)
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": CALLS}]
    assert chatml.trained_text(made, *made.tokenize_messages(chat)) == 'look({"city": "Rome"}).<|endoftext|>'


def test_nothing_is_appended_where_the_last_turn_goes_on_otherwise(chatml: Any) -> None:
    excited = OPEN_END.replace("{% endfor %}{% if add", "{{ '!' if m.role == 'assistant' }}{% endfor %}{% if add")
    made = chatml.tokenizer(excited, append_stop=True)
    with pytest.raises(DataError, match="no stop token after it"):
        made.tokenize_messages(chatml.chat[:2])


def test_nothing_is_appended_where_there_is_an_end_or_no_reply(chatml: Any) -> None:
    assert chatml.tokenizer(append_stop=True).tokenize_messages(chatml.chat) == (
        chatml.tokenizer().tokenize_messages(chatml.chat)
    )
    made = chatml.tokenizer(NO_END, special_tokens=NO_END_TOKENS, eos_token=None, append_stop=True)
    for messages, prompt in ((chatml.chat[:3], False), (chatml.chat[:3], True)):
        tokens, _ = made.tokenize_messages(messages, add_generation_prompt=prompt)
        text = made.decode(tokens, truncate_at_eos=False, skip_special_tokens=False)
        assert text.endswith("<|user|>Bye<|assistant|>" if prompt else "<|user|>Bye")


def test_a_template_that_never_writes_a_stop_has_none_to_append(chatml: Any) -> None:
    bare = "{% for m in messages %}{{ m.role }}: {{ m.content }} {% endfor %}"
    with pytest.raises(ConfigError, match="append_stop is true, and the chat template writes no control token after"):
        chatml.tokenizer(bare, append_stop=True)
