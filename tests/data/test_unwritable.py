import pytest

from torchpipe.data import Message, ToolCall
from torchpipe.data.unwritable import refuse_tools, refuse_unwritable, with_known_roles
from torchpipe.errors import DataError


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (Message("assistant", "a", tool_calls=[ToolCall("f", {})]), "tool_calls"),
        (Message("assistant", "a", reasoning="r"), "reasoning"),
        (Message("user", "u", name="Ann"), "name"),
    ],
)
def test_a_field_without_a_place_is_refused_and_with_one_it_passes(message: Message, field: str):
    with pytest.raises(
        DataError, match=rf"Message 3 \({message.role}\) has .* in '{field}', and the llama format has no"
    ):
        refuse_unwritable(message, 3, format_name="llama")
    refuse_unwritable(message, 3, can_write=frozenset([field]))  # pyright: ignore[reportArgumentType]


def test_what_only_points_to_a_call_is_not_missed():
    refuse_unwritable(Message("tool", "1", name="f", tool_call_id="c"), 2)
    refuse_unwritable(Message("assistant", "a", weight=0.5, reasoning=""), 1)


def test_tools_without_a_place_are_refused():
    refuse_tools({"messages": []})
    refuse_tools({"tools": []})
    with pytest.raises(DataError, match="The row offers tools, and the llama format has no place for them"):
        refuse_tools({"tools": "[{}]"}, format_name="llama")


def test_a_developer_is_the_system_where_there_is_no_such_role():
    messages = [Message("developer", "d", masked=True), Message("user", "u")]
    assert with_known_roles(messages, ["developer"], format_name="f") is messages
    assert with_known_roles(messages, ["system"], format_name="f")[0] == Message("system", "d", masked=True)
    assert messages[0].role == "developer"
    with pytest.raises(DataError, match=r"Message 1 \(developer\) stands beside a system message"):
        with_known_roles([Message("system", "s"), *messages], ["system"], format_name="f")
