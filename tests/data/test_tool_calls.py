import pickle

import pytest

from torchpipe.data import ToolCall
from torchpipe.data.tool_calls import calls_in_text, tool_call, tool_calls_of
from torchpipe.errors import DataError


def test_arguments_stay_what_they_were_dict_or_text():
    text = '{"b": 1.50,  "a": [1]}'
    assert ToolCall("f", text).arguments == text
    assert list(ToolCall("f", {"b": 1, "a": 2}).arguments) == ["b", "a"]
    assert ToolCall("f", text).parsed() == {"b": 1.5, "a": [1]}


def test_nobody_changes_a_call_through_the_dict_it_was_made_of_or_gave():
    arguments = {"a": {"b": [1]}}
    call = ToolCall("f", arguments)
    arguments["a"]["b"].append(2)
    call.parsed()["a"]["b"].append(3)
    assert call.arguments == {"a": {"b": [1]}}
    with pytest.raises(AttributeError):
        call.name = "g"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("l=[0]\nl.remove(3)", "'python' are no JSON"), ("[1]", "JSON, but no object: '\\[1\\]'"), ("", "are no JSON")],
)
def test_text_that_is_no_json_is_kept_and_refused_only_when_it_is_read(text: str, sentence: str):
    call = ToolCall("python", text)
    assert call.arguments == text
    with pytest.raises(DataError, match=sentence):
        call.parsed()


def test_a_call_without_what_it_needs_is_refused():
    for name in ("", None, 3):
        with pytest.raises(DataError, match="The name of a tool call is"):
            ToolCall(name, {})  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="The arguments of the call of 'f' are None.*has {}"):
        ToolCall("f", None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="The arguments of the call of 'f' are a list"):
        ToolCall("f", [1])  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="The id of the call of 'f' is 3"):
        ToolCall("f", {}, id=3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(DataError, match="The type of the call of 'f' is None"):
        ToolCall("f", {}, type=None)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "given",
    [
        ToolCall("f", {"a": 1}, id="c1"),
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"id": "c1", "type": None, "function": {"name": "f", "arguments": {"a": 1}}, "index": 0},
        {"id": "c1", "name": "f", "arguments": {"a": 1}, "function": None},
        '{"id": "c1", "name": "f", "arguments": {"a": 1}}',
    ],
)
def test_a_call_is_read_in_every_layout(given: object):
    assert tool_call(given, "Call 0") == ToolCall("f", {"a": 1}, id="c1")


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (3, "Call 0 is a int"),
        ("f(", "Call 0 is text that is no JSON"),
        ({"function": "f"}, "Call 0 has a str under 'function'"),
        ({"name": "f", "arguments": None, "id": "c"}, "Call 0 lacks 'arguments'; it has 'name', 'id'"),
        ({"name": "f", "arguments": 3}, "Call 0: The arguments of the call of 'f' are a int"),
    ],
)
def test_what_describes_no_call_is_refused(given: object, sentence: str):
    with pytest.raises(DataError, match=sentence):
        tool_call(given, "Call 0")


def test_calls_in_a_text_are_one_or_a_list():
    assert [call.name for call in calls_in_text('[{"name": "f", "arguments": {}}, {"name": "g", "arguments": ""}]', "")]
    assert calls_in_text('{"name": "f", "arguments": "{}"}', "Turn 1") == (ToolCall("f", "{}"),)
    assert tool_calls_of(None, "turn 1") == ()
    with pytest.raises(DataError, match="Call 1 of turn 1 is a int"):
        calls_in_text('[{"name": "f", "arguments": {}}, 2]', "turn 1")
    with pytest.raises(DataError, match="The tool_calls of turn 1 are a dict"):
        tool_calls_of({"name": "f"}, "turn 1")


def test_calls_can_be_pickled():
    call = ToolCall("f", {"a": 1}, id="c1")
    assert pickle.loads(pickle.dumps(call)) == call
