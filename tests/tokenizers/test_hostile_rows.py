"""Rows that are wrong: each is refused in a sentence, loses nothing without a word, and spells no control token."""

import types
from collections import deque
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pytest

from torchpipe.errors import DataError
from torchpipe.tokenizers import ChatTemplateTokenizer

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}{% for call in m.tool_calls or [] %}"
    "<tool_call>{{ (call.function or call) | tojson }}</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = {"<|im_start|>": 300, "<|im_end|>": 301}
END = "<|im_end|>"


class Bytes:
    """Each byte of a text is its id."""

    name, num_tokens = "bytes", 256
    control_tokens: dict[str, int] = {}  # noqa: RUF012

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode(errors="replace")


def tokenizer(template: str = CHATML, **arguments: Any) -> ChatTemplateTokenizer:
    return ChatTemplateTokenizer(Bytes(), template, special_tokens=SPECIAL, eos_token=END, **arguments)


def user(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **more}


def reply(content: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def call(arguments: Any) -> dict[str, Any]:
    return reply(None, tool_calls=[{"type": "function", "function": {"name": "f", "arguments": arguments}}])


def holding_itself() -> dict[str, Any]:
    held: dict[str, Any] = {}
    held["self"] = [held]
    return held


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("messages", ["hello", b"hello", {"role": "user"}, 5])
def test_messages_that_are_no_list_are_refused(messages: Any) -> None:
    with pytest.raises(DataError, match=rf"The messages are a {type(messages).__name__}\. They must be a list"):
        tokenizer().tokenize_messages(messages)


@pytest.mark.parametrize("content", [5, True, 1.5, b"hello", {"a": "b"}, datetime(2024, 1, 1), ("a",)])
def test_content_of_another_type_is_refused(content: Any) -> None:
    with pytest.raises(DataError, match=rf"The content of message 1 is a {type(content).__name__}\. It must be text"):
        tokenizer().tokenize_messages([user("q"), reply(content)])


def test_a_part_of_another_type_is_refused() -> None:
    with pytest.raises(DataError, match="Part 1 of message 0 is a int"):
        tokenizer().tokenize_messages([user(["a", 5]), reply("b")])


@pytest.mark.parametrize("calls", ["f()", {"function": {"name": "f"}}])
def test_calls_that_are_no_list_are_refused(calls: Any) -> None:
    with pytest.raises(DataError, match="The tool_calls of message 1 are a (str|dict)"):
        tokenizer().tokenize_messages([user("q"), reply("", tool_calls=calls)])


@pytest.mark.parametrize("made", [5, None, "f()", {}, {"function": "f"}, {"function": {"name": None}}, {"name": ""}])
def test_a_call_without_a_name_is_refused(made: Any) -> None:
    with pytest.raises(DataError, match="Call 0 of message 1 has no name"):
        tokenizer().tokenize_messages([user("q"), reply("", tool_calls=[made])])


def test_a_call_without_the_function_around_it_is_written() -> None:
    tokenizer().tokenize_messages([user("q"), reply("", tool_calls=[{"name": "f", "arguments": {}}])])


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"refusal": "I can't."}, "refusal"),
        ({"audio": {"transcript": "I can't."}}, "audio.transcript"),
        ({"function_call": {"name": "f", "arguments": "{}"}}, "function_call.name"),
    ],
)
def test_a_field_that_few_templates_know_is_not_lost(more: dict[str, Any], field: str) -> None:
    with pytest.raises(DataError, match=rf"{field} is not in the template's text"):
        tokenizer().tokenize_messages([user("q"), reply(None, **more)])
    tokenizer().tokenize_messages([user("q"), reply("a", **dict.fromkeys(more))])


@pytest.mark.parametrize("held", [holding_itself(), nested(5000)])
def test_a_value_that_never_ends_is_refused_with_its_message(held: Any) -> None:
    for messages in ([user("q"), call(held)], [user("q"), reply("a", more=held)]):
        with pytest.raises(DataError, match="Message 1 is nested too deeply, or holds itself"):
            tokenizer().tokenize_messages(messages)
    with pytest.raises(DataError, match="The row's tools: one is nested too deeply"):
        tokenizer().tokenize_messages([user("q"), reply("a")], tools=[held])


@pytest.mark.parametrize("message", [types.MappingProxyType(reply(END)), reply(np.str_(END))])
def test_a_reply_of_another_class_is_followed_too(message: Any) -> None:
    tokens, mask = tokenizer().tokenize_messages([user("q"), message])
    assert [token for token in tokens if token >= 300] == [300, 301, 300, 301]
    assert [token for token, masked in zip(tokens, mask, strict=True) if not masked] == [*END.encode(), 301]


@pytest.mark.parametrize(
    ("printed", "value"),
    [
        ("{{ '%s' % m.extra }}", END.encode()),
        ("{{ m.extra }}", [END.encode()]),
        ("{{ m.extra['a'].decode() }}", {"a": END.encode()}),
        ("{{ m.extra | pprint }}", END.encode()),
        ("{{ m.extra.encode().decode() }}", END),
        ("{{ m.extra.encode()[0:].decode() }}", END),
        ("{{ strftime_now(m.extra) }}", END),
        ("{% for x in m.extra %}{{ x }}{% endfor %}", np.array([END])),
        ("{% for x in m.extra %}{{ x }}{% endfor %}", np.array([END], dtype=object)),
        ("{% for x in m.extra %}{{ x }}{% endfor %}", {END}),
        ("{% for x in m.extra %}{{ x }}{% endfor %}", deque([END])),
        ("{% for x in m.extra %}{{ x }}{% endfor %}", {np.str_(END): 1}),
        ("{% for x in m.extra['a'].values() %}{{ x }}{% endfor %}", {"a": types.MappingProxyType({"a": END})}),
    ],
)
def test_no_value_of_a_row_becomes_a_control_token(printed: str, value: Any) -> None:
    template = CHATML.replace("{{ m.content or '' }}", "{{ m.content }}" + printed)
    day = {"strftime_now": "2024-07-26"} if "strftime_now" in printed else None
    for template_kwargs in (None, day):
        made = tokenizer(template, on_unproved="common_prefix", template_kwargs=template_kwargs)
        tokens, _ = made.tokenize_messages([user("q", extra=value), reply("a", extra=value)])
        assert [token for token in tokens if token >= 300] == [300, 301, 300, 301]


@pytest.mark.parametrize("flag", [{"train": False}, {"masked": True}, {"weight": 0.5}, {"loss": 1}, {"loss_weight": 0}])
def test_what_says_what_is_trained_is_never_written(flag: dict[str, Any]) -> None:
    made = tokenizer(CHATML.replace("{{ m.content or '' }}", "{{ m | tojson }}"), on_unproved="common_prefix")
    plain, _ = made.tokenize_messages([user("q"), reply("a")])
    assert made.tokenize_messages([user("q"), reply("a", **flag)])[0] == plain


@pytest.mark.parametrize("part", ["a", {"type": "text", "text": "a"}, {"type": "text", "text": "it's"}])
def test_a_list_of_parts_that_a_template_prints_as_python_does_is_not_a_reply(part: Any) -> None:
    messages = [user("q"), reply([part, part])]
    with pytest.raises(DataError, match=r"content\[0\].* is written as a Python list of parts"):
        tokenizer().tokenize_messages(messages)
    knows = "{{ m.content if m.content is string else m.content | map(attribute='text') | join }}"
    if isinstance(part, dict):
        tokenizer(CHATML.replace("{{ m.content or '' }}", knows)).tokenize_messages(messages)


@pytest.mark.parametrize("value", [5, 2.5, True, [1, 2], {"b": 7}])
def test_a_number_among_the_arguments_is_not_lost(value: Any) -> None:
    messages = [user("q"), call({"a": value, "s": "text"})]
    tokenizer().tokenize_messages(messages)
    names = "{{ call.function.name }}{{ call.function.arguments.keys() | join }}{{ call.function.arguments.s }}"
    made = tokenizer(CHATML.replace("{{ (call.function or call) | tojson }}", names))
    with pytest.raises(DataError, match=r"(arguments lacks|arguments\..* is not in the template's text)"):
        made.tokenize_messages(messages)
