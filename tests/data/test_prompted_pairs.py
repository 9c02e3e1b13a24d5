"""Rows with a prompt and two answers, transcripts, and rows with one answer and a label: what messages they become."""

from typing import Any

import pytest

from torchpipe.data import (
    LabelledToMessages,
    Message,
    PromptedPairToMessages,
    PromptToMessages,
    StackExchangePairedToMessages,
    TranscriptPairToMessages,
)
from torchpipe.errors import ColumnError, ConfigError, DataError

ASK = {"from": "human", "value": "1 + 1?"}


def said(messages: list[Message]) -> list[tuple[str, str, bool]]:
    return [(message.role, message.text_content, message.masked) for message in messages]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "1 + 1?", "chosen": "2", "rejected": "3"},
        {"prompt": [ASK], "chosen": {"from": "gpt", "value": "2"}, "rejected": {"from": "gpt", "value": "3"}},
        {
            "prompt": [{"role": "user", "content": "1 + 1?"}],
            "chosen": [{"role": "assistant", "content": "2"}],
            "rejected": [{"role": "assistant", "content": "3"}],
        },
        {"prompt": ASK, "chosen": [ASK, {"from": "gpt", "value": "2"}], "rejected": "3"},
    ],
)
def test_a_prompt_and_two_answers_in_any_form_are_two_conversations(row: dict[str, Any]) -> None:
    made = PromptedPairToMessages()(row)
    assert said(made["chosen"]) == [("user", "1 + 1?", True), ("assistant", "2", False)]
    assert said(made["rejected"]) == [("user", "1 + 1?", True), ("assistant", "3", False)]


def test_system_tools_and_a_new_system_prompt_are_taken() -> None:
    row = {"prompt": "1 + 1?", "chosen": "2", "rejected": "3", "system": "Be brief.", "tools": '[{"name": "f"}]'}
    made = PromptedPairToMessages()(row)
    assert said(made["rejected"])[0] == ("system", "Be brief.", True)
    assert made["tools"] == row["tools"]
    other = PromptedPairToMessages(new_system_prompt="Be long.")(row)
    assert [m.text_content for m in other["chosen"]] == ["Be long.", "1 + 1?", "2"]


def test_a_column_that_is_not_there_or_holds_something_else_is_named() -> None:
    with pytest.raises(ColumnError, match=r"no column 'rejected'; it has 'prompt', 'chosen', 'rejectd'.*'rejectd'"):
        PromptedPairToMessages()({"prompt": "1 + 1?", "chosen": "2", "rejectd": "3"})
    with pytest.raises(
        ColumnError, match="Column 'chosen' holds null; it must hold a text, a turn, or a list"
    ) as caught:
        PromptedPairToMessages()({"prompt": "1 + 1?", "chosen": None, "rejected": "3"})
    assert caught.value.reason == "empty"
    with pytest.raises(DataError, match="In 'chosen': Turn 0 has the role 'judge'"):
        PromptedPairToMessages()({"prompt": "1 + 1?", "chosen": {"role": "judge", "content": "2"}, "rejected": "3"})


def test_stack_exchange_rows_are_a_question_and_two_texts() -> None:
    columns = {"prompt": "question", "chosen": "response_j", "rejected": "response_k"}
    row = {"question": "Why?", "response_j": "So.", "response_k": "Because."}
    made = StackExchangePairedToMessages(column_map=columns)(row)
    assert said(made["chosen"]) == [("user", "Why?", True), ("assistant", "So.", False)]
    assert said(made["rejected"]) == [("user", "Why?", True), ("assistant", "Because.", False)]


def test_transcripts_are_cut_into_turns_at_their_speakers() -> None:
    said_by_both = [
        "Human: Hi",
        "Assistant: Yes: Human: is a word",
        "in two lines",
        "Human: Bye ",
        "Assistant: So long.",
    ]
    row = {
        "chosen": "".join(f"\n\n{part}" for part in said_by_both),
        "rejected": "\n\nHuman: Hi\n\nAssistant:",
    }
    made = TranscriptPairToMessages()(row)
    assert [text for _, text, _ in said(made["chosen"])] == [
        "Hi",
        "Yes: Human: is a word\n\nin two lines",
        "Bye",
        "So long.",
    ]
    assert said(made["rejected"])[-1] == ("assistant", "", False)
    with pytest.raises(DataError, match="Column 'chosen' is no transcript: it has to begin with 'Human:'"):
        TranscriptPairToMessages()({**row, "chosen": "Hello"})


def test_a_labelled_conversation_keeps_its_label() -> None:
    turns = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "3"}]
    made = LabelledToMessages()({"messages": turns, "label": False})
    assert said(made["messages"]) == [("user", "1 + 1?", True), ("assistant", "3", False)]
    assert made["desirable"] is False
    columns = {"prompt": "question", "completion": "answer", "label": "good"}
    other = LabelledToMessages(columns)({"question": "1 + 1?", "answer": "3", "good": 0})
    assert other == made


@pytest.mark.parametrize("label", [None, "yes", 2, 0.5])
def test_a_label_that_is_neither_true_nor_false_is_refused(label: Any) -> None:
    row = {"prompt": "1 + 1?", "completion": "3", "label": label}
    with pytest.raises(ColumnError, match="a label is true .a good answer. or false"):
        LabelledToMessages({name: name for name in row})(row)


def test_a_column_map_needs_all_columns_of_its_form() -> None:
    with pytest.raises(ConfigError, match="it has none for 'label'"):
        LabelledToMessages({"messages": "turns"})
    with pytest.raises(ConfigError, match="it has none for 'completion'"):
        LabelledToMessages({"prompt": "question", "label": "good"})


def test_a_prompt_ends_with_what_is_asked_last() -> None:
    turns = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}]
    assert [m.text_content for m in PromptToMessages()({"prompt": turns})["messages"]] == ["1 + 1?"]
    again = [*turns, {"role": "user", "content": "2 + 2?"}]
    assert [m.text_content for m in PromptToMessages()({"prompt": again})["messages"]] == ["1 + 1?", "2", "2 + 2?"]
    with pytest.raises(DataError, match="Column 'prompt' has no message of the user"):
        PromptToMessages()({"prompt": turns[1:]})


def test_of_questions_that_follow_each_other_the_first_is_asked() -> None:
    made = PromptToMessages({"prompt": "turns"}, new_system_prompt="Be brief.")({"turns": ["Who?", "And when?"]})
    assert [m.text_content for m in made["messages"]] == ["Be brief.", "Who?"]
