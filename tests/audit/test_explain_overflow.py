"""Which part of a row was kept, and what became of the rest."""

from collections.abc import Callable
from typing import Any

from torchpipe.audit import explain
from torchpipe.datasets import chat_dataset
from torchpipe.models.tiny import tiny_tokenizer

Chats = Callable[..., Any]
LONG = "one two three four five six seven eight"


def test_a_row_that_was_cut_is_traced_and_says_what_was_cut(chats: Chats) -> None:
    found = explain(chats([LONG], overflow="truncate", max_seq_len=20))
    (document,) = found.rows[0].documents
    assert document.traced
    assert (document.num_cut, document.cut_side, len(document.tokens)) == (
        len(chats([LONG])[0]["tokens"]) - 20,
        "right",
        20,
    )
    assert document.notes == (
        "the turn that was cut has lost its stop token, so the model is not taught to stop there",
    )
    assert (found.decided_by["overflow"], found.decided_by["truncation_type"]) == ("truncate", "right")
    assert found.decided_by["max_seq_len"] == 20
    assert f"{document.num_cut} tokens were cut on the right to max_seq_len" in found.to_text()


def test_a_stop_token_that_was_kept_is_shown_as_the_turns_own(chats: Chats) -> None:
    found = explain(chats([LONG], overflow="truncate", max_seq_len=20, stop_token="keep"))
    (document,) = found.rows[0].documents
    assert (document.tokens[-1].kind, document.tokens[-1].message, document.tokens[-1].trained) == ("turn_end", 1, True)
    assert document.notes == ("the turn that was cut keeps its stop token, in the last token's place",)


def test_a_row_that_was_cut_on_the_left_starts_within_itself(chats: Chats) -> None:
    data = chats([LONG], overflow="truncate", max_seq_len=8, truncation_type="left")
    (document,) = explain(data).rows[0].documents
    assert document.start == document.num_cut > 0
    assert document.tokens[0].reason == "what predicts it was cut away"
    assert document.notes == ()


def test_the_samples_of_a_row_that_was_split_are_parts_of_it(chats: Chats) -> None:
    data = chats([LONG], overflow="split", max_seq_len=20, packed=True)
    whole = chats([LONG])[0]["tokens"]
    found = explain(data, rows=[0, 1])
    first, second = (row.documents[0] for row in found.rows)
    assert [token.id for document in (first, second) for token in document.tokens] == whole
    assert (first.sample, first.start, second.sample, second.start) == (0, 0, 0, 20)
    assert second.tokens[0].reason == "predicted at the end of the sample before"
    assert first.notes == ("tokens 0-19 of a row that was split",)
    assert all(document.traced for document in (first, second))


def test_rows_that_were_left_out_leave_the_numbers_of_the_others(chats: Chats) -> None:
    data = chats(["Yes", LONG, "No"], overflow="drop", max_seq_len=20, packed=True)
    found = explain(data, rows=range(len(data)))
    assert [row.documents[0].sample for row in found.rows] == [0, 2]
    assert [row.documents[0].messages[1].text for row in found.rows if row.documents[0].messages] == ["Yes", "No"]


def test_turns_shows_the_messages_that_are_left() -> None:
    roles = ("user", "assistant", "user", "assistant")
    row = {"messages": [{"role": role, "content": f"text {index}"} for index, role in enumerate(roles)]}
    data = chat_dataset(
        tiny_tokenizer(30),
        source=[row],
        conversation_column="messages",
        conversation_style="openai",
        overflow="truncate",
        truncation_type="turns",
    )
    found = explain(data)
    (document,) = found.rows[0].documents
    assert document.messages is not None
    assert [message.text for message in document.messages] == ["text 2", "text 3"]
    assert "tokens were cut with the oldest turns to max_seq_len" in found.to_text()
    assert document.traced
