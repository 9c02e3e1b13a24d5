import copy
import pickle
from typing import Any

import pytest
import torch

from torchpipe.data import Message, ToolCall, mask_messages, validate_messages
from torchpipe.errors import DataError


def turns(*roles: str) -> list[Message]:
    return [Message(role, f"text of {index}") for index, role in enumerate(roles)]  # pyright: ignore[reportArgumentType]


def call() -> Message:
    return Message("assistant", "get_weather()", ipython=True)


def made(*ids: str | None) -> Message:
    return Message("assistant", None, tool_calls=[ToolCall("f", {}, id_) for id_ in ids])


def result(id_: str | None) -> Message:
    return Message("tool", "1", tool_call_id=id_)


# --- one message ---------------------------------------------------------------------------------------------------


def test_a_string_becomes_one_text_part_and_the_defaults_are_those_of_torchtune():
    message = Message("user", "Hello")
    assert message.content == [{"type": "text", "content": "Hello"}]
    assert (message.role, message.masked, message.ipython, message.eot) == ("user", False, False, True)


def test_all_arguments_can_be_given_by_position():
    message = Message("assistant", "f()", True, True, False)
    assert (message.masked, message.ipython, message.eot) == (True, True, False)


def test_text_parts_are_joined_with_nothing_between_them():
    parts = [
        {"type": "text", "content": "a\n"},
        {"type": "image", "content": "x.png"},
        {"type": "text", "content": " b"},
    ]
    assert Message("user", parts).text_content == "a\n b"


def test_a_message_never_shares_the_callers_list_or_dicts():
    parts = [{"type": "text", "content": "before"}]
    message = Message("user", parts)
    parts[0]["content"] = "after"
    parts.append({"type": "text", "content": "more"})
    assert message.content == [{"type": "text", "content": "before"}]


def test_an_image_payload_is_kept_as_the_same_object():
    image = torch.zeros(3, 2, 2)
    message = Message("user", [{"type": "image", "content": image}, {"type": "text", "content": "What is it?"}])
    assert message.contains_media
    assert message.get_media()[0] is image
    assert not Message("user", "text").contains_media
    assert Message("user", "text").get_media() == []


def test_empty_content_is_allowed():
    assert Message("assistant", "").text_content == ""
    assert Message("assistant", []).text_content == ""


def test_an_unknown_role_is_refused_with_the_six_names_and_the_nearest():
    with pytest.raises(
        DataError,
        match=r"role 'asistant'.*'system', 'developer', 'user', 'assistant', 'ipython', 'tool'.*mean 'assistant'",
    ):
        Message("asistant", "a")  # pyright: ignore[reportArgumentType]


def test_none_content_is_refused_and_never_becomes_the_text_none():
    with pytest.raises(DataError, match="content of a 'assistant' message is None"):
        Message("assistant", None)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(("content", "held"), [(3, "int"), ({"type": "text"}, "dict"), (("a",), "tuple")])
def test_content_that_is_neither_text_nor_a_list_is_refused(content: object, held: str):
    with pytest.raises(DataError, match=f"content of a 'user' message is a {held}; it must be a string or a list"):
        Message("user", content)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        ("Hi", "Part 0 of a 'user' message is a str"),
        ({"content": "Hi"}, "has no 'type', only 'content'"),
        ({"type": "txt", "content": "Hi"}, "has the type 'txt'.*Did you mean 'text'"),
        ({"type": "audio", "content": b""}, "one of 'text', 'image'"),
        ({"type": "text", "content": None}, "its 'content' is a NoneType"),
        ({"type": "text", "text": "Hi"}, "its 'content' is missing, it has 'type', 'text'"),
    ],
)
def test_a_broken_part_is_refused_with_its_index(part: object, sentence: str):
    with pytest.raises(DataError, match=sentence):
        Message("user", [part])  # pyright: ignore[reportArgumentType]


def test_ipython_is_for_the_assistant_and_for_text():
    with pytest.raises(DataError, match="'user' message has ipython=True, but only the assistant makes calls"):
        Message("user", "f()", ipython=True)
    with pytest.raises(ValueError, match="has an image in it"):
        Message("assistant", [{"type": "image", "content": "x.png"}], ipython=True)


def test_a_flag_that_is_not_a_boolean_is_refused():
    assert Message("user", "a", masked=1).masked is True  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="masked='false' of a 'user' message is a str"):
        Message("user", "a", masked="false")  # pyright: ignore[reportArgumentType]


def test_from_dict_takes_the_flags_and_ignores_other_keys_and_nulls():
    row = {"role": "assistant", "content": "f()", "ipython": True, "eot": False, "masked": None, "name": "x"}
    assert Message.from_dict({**row, "text": "t"}) == Message("assistant", "f()", ipython=True, eot=False, name="x")


def test_from_dict_names_the_key_that_is_missing():
    with pytest.raises(DataError, match="Missing: 'content'; the keys are 'role', 'text'"):
        Message.from_dict({"role": "user", "text": "Hi"})


def test_from_dict_refuses_null_content():
    with pytest.raises(DataError, match="content of a 'assistant' message is None"):
        Message.from_dict({"role": "assistant", "content": None})


def test_the_repr_shows_the_text_and_every_flag():
    assert repr(Message("user", "Hi", masked=True)) == (
        "Message(role='user', content='Hi', masked=True, ipython=False, eot=True)"
    )
    pictured = Message("user", [{"type": "image", "content": object()}, {"type": "text", "content": "?"}])
    assert "content=['<image>', '?']" in repr(pictured)


def test_messages_are_equal_when_role_parts_and_flags_are():
    assert Message("user", "a") == Message("user", [{"type": "text", "content": "a"}])
    assert Message("user", "a") != Message("user", "b")
    assert Message("user", "a") != Message("tool", "a")
    assert Message("user", "a") != Message("user", "a", masked=True)
    assert Message("user", "a") != Message("user", "a", eot=False)
    assert Message("user", "a") != "a"


def test_messages_with_tensors_can_be_compared():
    image = torch.zeros(3, 2, 2)
    part = {"type": "image", "content": image}
    assert Message("user", [part]) == Message("user", [part])
    assert Message("user", [part]) != Message("user", [{"type": "image", "content": torch.zeros(3, 2, 2)}])
    assert Message("user", [part]) != Message("user", [{"type": "text", "content": "a"}])


def test_a_message_can_be_pickled_and_copied():
    message = Message("assistant", "f()", masked=True, ipython=True, eot=False)
    assert pickle.loads(pickle.dumps(message)) == message
    twin = copy.deepcopy(message)
    twin.content[0]["content"] = "g()"
    assert message.text_content == "f()"


def test_a_message_has_no_room_for_misspelt_attributes():
    with pytest.raises(AttributeError):
        Message("user", "a").maskd = True  # pyright: ignore[reportAttributeAccessIssue]


# --- calls, reasoning, weights, names --------------------------------------------------------------------------------

FULL: dict[str, Any] = {
    "tool_calls": (ToolCall("f", {"a": 1}, "c1"),),
    "reasoning": "because",
    "train": True,
    "weight": 0.5,
    "name": "Ann",
}


def test_the_further_fields_are_keywords_with_defaults_that_change_nothing():
    plain = Message("assistant", "a")
    assert (plain.tool_calls, plain.reasoning, plain.train, plain.weight) == ((), None, None, None)
    assert (plain.name, plain.tool_call_id) == (None, None)
    with pytest.raises(TypeError):
        Message("assistant", "a", False, False, True, ())  # pyright: ignore[reportCallIssue]


def test_every_further_field_counts_in_equality_repr_copies_and_from_dict():
    message = Message("assistant", "a", **FULL)
    assert Message.from_dict({"role": "assistant", "content": "a", **FULL}) == message
    assert pickle.loads(pickle.dumps(message)) == copy.deepcopy(message) == copy.copy(message) == message
    for key, value in FULL.items():
        one = Message("assistant", "a", **{key: value})
        assert one != Message("assistant", "a")
        assert f"{key}={value!r}" in repr(one)
    assert Message("tool", "1", tool_call_id="c") != Message("tool", "1", tool_call_id="d")


def test_calls_may_be_given_as_dicts_of_openai():
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert Message("assistant", "a", tool_calls=[call]).tool_calls == FULL["tool_calls"]


def test_no_text_beside_calls_or_reasoning_is_none():
    assert Message("assistant", None, tool_calls=FULL["tool_calls"]).content == []
    assert Message("assistant", None, reasoning="r").text_content == ""
    assert Message.from_dict({"role": "assistant", "content": None, "reasoning": "r"}).content == []


@pytest.mark.parametrize(
    ("role", "fields", "sentence"),
    [
        ("user", {"tool_calls": FULL["tool_calls"]}, "A 'user' message has tool_calls, which only the assistant's"),
        ("tool", {"reasoning": "r"}, "A 'tool' message has reasoning"),
        ("user", {"tool_call_id": "c"}, "has tool_call_id='c', but it is no result"),
        ("assistant", {"reasoning": ["r"]}, r"reasoning=\['r'\] of a 'assistant' message is a list, not text"),
        ("user", {"name": 3}, "name=3 of a 'user' message is a int"),
        ("assistant", {"weight": -1}, "weight=-1 of a 'assistant' message must be a number, 0 or above"),
        ("assistant", {"weight": True}, "weight=True"),
        ("assistant", {"train": "no"}, "train='no' of a 'assistant' message is a str"),
        ("assistant", {"weight": float("inf")}, "weight=inf"),
        ("assistant", {"tool_calls": [3]}, "Call 0 of a 'assistant' message is a int"),
        ("assistant", {"tool_calls": "f"}, "The tool_calls of a 'assistant' message are a str"),
    ],
)
def test_a_field_that_does_not_fit_is_refused(role: Any, fields: dict[str, Any], sentence: str):
    with pytest.raises(DataError, match=sentence):
        Message(role, "a", **fields)


def test_a_weight_of_zero_is_masked_and_stays_so():
    message = Message("assistant", "a", weight=0)
    assert message.masked
    mask_messages([Message("user", "u"), message], "train_on_all")
    assert message.masked


@pytest.mark.parametrize("strategy", ["train_on_all", "train_on_assistant", "train_on_last"])
def test_what_the_data_says_about_training_wins_over_every_strategy(strategy: str):
    messages = [
        Message("system", "s", train=True),
        Message("user", "u", train=True),
        Message("assistant", "a", train=True),
        Message("user", "u", train=False),
        Message("assistant", "a", train=False),
    ]
    assert [message.masked for message in messages] == [False, False, False, True, True]
    mask_messages(messages, strategy)
    assert [message.masked for message in messages] == [False, False, False, True, True]


def test_a_message_with_another_content_or_role_keeps_all_else():
    message = Message("assistant", "a", masked=True, eot=False, **FULL)
    changed = message.with_content([{"type": "text", "content": "b"}])
    assert changed == Message("assistant", "b", masked=True, eot=False, **FULL)
    assert message.text_content == "a"
    system = Message("developer", "d", masked=True).with_role("system")
    assert system == Message("system", "d", masked=True)


# --- the order of messages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "messages",
    [
        turns("user", "assistant"),
        turns("system", "user", "assistant", "user", "assistant"),
        turns("system", "user"),
        turns("user", "assistant", "user"),
        [*turns("user"), call(), *turns("tool", "assistant")],
        [*turns("user"), call(), *turns("tool", "tool", "assistant")],
        [*turns("user"), call(), *turns("ipython", "ipython", "user")],
        [*turns("user"), Message("assistant", "f()", eot=False), *turns("tool", "assistant")],
        [*turns("user"), call(), *turns("tool"), call(), *turns("tool", "assistant")],
        [Message("user", ""), Message("assistant", "")],
        turns("developer", "user", "assistant"),
        turns("system", "developer", "user", "assistant"),
        [*turns("user"), made("c1"), result("c1"), *turns("assistant")],
        [*turns("user"), made("c1", "c2"), result("c2"), result("c1"), *turns("assistant")],
        [*turns("user"), made("c1", "c2"), *turns("tool", "assistant")],
        [*turns("user"), made(None, None), result("c1"), result(None), *turns("assistant")],
        [*turns("user"), made("c1"), result("c1"), made("c2"), result("c2"), *turns("assistant")],
        [*turns("user"), made("c1")],
        [*turns("user"), made("c1"), *turns("user", "assistant")],
    ],
)
def test_a_conversation_in_order_passes(messages: list[Message]):
    validate_messages(messages)


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "needs at least 2 messages, this one has 0"),
        (turns("user"), "needs at least 2 messages, this one has 1"),
        (turns("assistant", "user"), r"Message 0 \('assistant'\) stands at the start"),
        (turns("system", "assistant"), r"Message 1 \('assistant'\) stands after a 'system' message"),
        (turns("user", "assistant", "assistant"), r"Message 2 \('assistant'\).*Add the missing turn"),
        (turns("user", "user"), r"Message 1 \('user'\).*may not follow each other\. Join them"),
        (turns("user", "system"), r"Message 1 \('system'\).*may only be the first"),
        (turns("system", "system", "user"), r"Message 1 \('system'\).*may only be the first"),
        (turns("user", "assistant", "tool"), r"Message 2 \('tool'\).*Give that message tool_calls"),
        (turns("user", "tool"), r"Message 1 \('tool'\) stands after a 'user' message"),
        (turns("system", "ipython"), r"Message 1 \('ipython'\) stands after a 'system' message"),
        (turns("tool", "assistant"), r"Message 0 \('tool'\) stands at the start"),
        (turns("user", "developer"), r"Message 1 \('developer'\).*may only be the first, or the second"),
        (turns("developer", "system", "user"), r"Message 1 \('system'\).*may only be the first"),
        ([*turns("user"), made("c1"), result("c9")], r"Message 2 \('tool'\) is the result of the call 'c9'.*are 'c1'"),
        ([*turns("user"), made("c1"), *turns("assistant")], r"Message 2 \('assistant'\) stands after a 'assistant'"),
    ],
)
def test_a_conversation_out_of_order_is_refused_with_the_index_and_the_role(messages: list[Message], sentence: str):
    with pytest.raises(DataError, match=sentence):
        validate_messages(messages)


def test_a_dict_among_the_messages_is_refused():
    with pytest.raises(DataError, match=r"Message 1 is a dict, not a Message.*Message\.from_dict"):
        validate_messages([Message("user", "a"), {"role": "assistant", "content": "b"}])  # pyright: ignore[reportArgumentType]
