import copy
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import ChosenRejectedToMessages, Message, OpenAIToMessages
from torchpipe.errors import ColumnError, ConfigError, DataError


def turns(*said: tuple[str, Any]) -> list[dict[str, Any]]:
    return [{"role": role, "content": content} for role, content in said]


def row(**more: Any) -> dict[str, Any]:
    return {
        "chosen": turns(("system", "s"), ("user", "u"), ("assistant", "good")),
        "rejected": turns(("system", "s"), ("user", "u"), ("assistant", "bad")),
    } | more


def test_both_sides_become_messages_and_the_row_stays_as_it_is():
    given = row(score=1)
    before = copy.deepcopy(given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = ChosenRejectedToMessages()(given)
    assert given == before
    assert out == {
        "chosen": [
            Message("system", "s", masked=True),
            Message("user", "u", masked=True),
            Message("assistant", "good"),
        ],
        "rejected": [
            Message("system", "s", masked=True),
            Message("user", "u", masked=True),
            Message("assistant", "bad"),
        ],
    }


def test_masking_follows_the_strategy_on_both_sides():
    out = ChosenRejectedToMessages(masking_strategy="train_on_all")(row())
    for messages in out.values():
        assert [message.masked for message in messages] == [True, False, False]
    with pytest.warns(DeprecationWarning, match="masking_strategy='train_on_all' for train_on_input=True"):
        assert ChosenRejectedToMessages(train_on_input=True)(row()) == out


def test_a_new_system_prompt_replaces_the_rows_own():
    out = ChosenRejectedToMessages(new_system_prompt="new")(row())
    for messages in out.values():
        assert [m.text_content for m in messages if m.role == "system"] == ["new"]
        assert messages[0].masked


def test_columns_can_have_other_names_and_the_map_needs_both():
    transform = ChosenRejectedToMessages(column_map={"chosen": "good", "rejected": "bad"})
    assert len(transform({"good": row()["chosen"], "bad": row()["rejected"]})["rejected"]) == 3
    for given in ({"chosen": "good"}, {"rejected": "bad"}):
        with pytest.raises(ValueError, match="column_map must name a column for 'chosen', 'rejected'; it has none for"):
            ChosenRejectedToMessages(column_map=given)
    with pytest.raises(ConfigError, match="new_system_prompt=3"):
        ChosenRejectedToMessages(new_system_prompt=3)  # pyright: ignore[reportArgumentType]


def test_a_conversation_is_read_as_openai_to_messages_reads_it():
    said = turns(("user", "u"), ("assistant", "f()"), ("tool", "1"), ("tool", "2"), ("assistant", "a"))
    said[4]["weight"] = 0
    out = ChosenRejectedToMessages()({"chosen": said, "rejected": said})
    assert out["chosen"] == out["rejected"] == OpenAIToMessages()({"messages": said})["messages"]
    assert [message.eot for message in out["chosen"]] == [True, False, False, False, True]


def test_a_turns_own_flags_and_parts_are_taken():
    said = turns(("user", [{"type": "text", "content": "a"}, {"type": "text", "text": "b"}]), ("assistant", "f()"))
    said[1] |= {"ipython": True, "eot": True, "masked": True}
    said += [{"role": "ipython", "content": "1", "eot": None}]
    user, call, result = ChosenRejectedToMessages()({"chosen": said, "rejected": said})["chosen"]
    assert user.content == [{"type": "text", "content": "a"}, {"type": "text", "content": "b"}]
    assert (call.ipython, call.eot, call.masked) == (True, True, True)
    assert result.eot is False


@pytest.mark.parametrize(
    ("held", "error", "sentence"),
    [
        ("\n\nHuman: hi", ColumnError, "Column 'rejected' holds a text, not a conversation.*TranscriptPairToMessages"),
        (
            {"from": "gpt", "value": "a"},
            ColumnError,
            "Column 'rejected' holds one turn, .* name all three in column_map",
        ),
        ([], DataError, "holds no turns"),
        (turns(("asistant", "a")), DataError, "In 'rejected': Turn 0 has the role 'asistant'.*mean 'assistant'"),
        (turns(("user", None)), DataError, r"The content of turn 0 \('user'\) is null"),
        ([{"from": "human", "value": "u"}], ColumnError, "this looks like the other layout"),
        (turns(("user", [{"type": "image_url", "image_url": {"url": "a.png"}}])), DataError, "conversations of 'text'"),
        ([{"role": "assistant", "content": "", "tool_calls": [1]}], DataError, "Call 0 of turn 0 .*is a int"),
    ],
)
def test_what_is_no_conversation_is_refused_with_its_column(held: Any, error: type[Exception], sentence: str):
    with pytest.raises(error, match=sentence):
        ChosenRejectedToMessages()(row(rejected=held))


def test_a_system_column_begins_both_conversations():
    asked = {side: turns(("user", "u"), ("assistant", side)) for side in ("chosen", "rejected")}
    out = ChosenRejectedToMessages()(asked | {"system": "Be kind."})
    assert [[m.role for m in out[side]] for side in ("chosen", "rejected")] == [["system", "user", "assistant"]] * 2
    assert out["chosen"][0] == Message("system", "Be kind.", masked=True)


@pytest.mark.parametrize("held", ["good", turns(("assistant", "good")), {"role": "assistant", "content": "good"}])
def test_answers_beside_a_prompt_are_refused_with_the_columns_to_name(held: Any):
    with pytest.raises(ColumnError, match=r"'chosen' holds an answer to the row's 'prompt'.*{prompt: prompt, chosen"):
        ChosenRejectedToMessages()({"prompt": "u", "chosen": held, "rejected": held})


def test_a_prompt_beside_conversations_is_left_alone():
    assert len(ChosenRejectedToMessages()({**row(), "prompt": "q"})["chosen"]) == len(row()["chosen"])


def test_a_missing_column_is_named():
    with pytest.raises(ColumnError, match=r"has no column 'rejected'; it has 'chosen', 'reject'.*mean 'reject'"):
        ChosenRejectedToMessages()({"chosen": row()["chosen"], "reject": row()["rejected"]})


def test_published_rows(shared_data: Path):
    (published,) = json.loads((shared_data / "torchtune" / "hh_rlhf_tiny.json").read_text())
    out = ChosenRejectedToMessages()(published)
    assert [message.text_content for message in out["chosen"]][1] == "Fix the hole."
    assert [message.text_content for message in out["rejected"]][1] == "Take them off."
    texts = (shared_data / "preference" / "hh_harmless_8.jsonl").read_text().splitlines()
    for line in texts:
        with pytest.raises(DataError, match="holds a text, not a conversation"):
            ChosenRejectedToMessages()(json.loads(line))
