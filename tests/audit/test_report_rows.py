"""What a run says of rows that were left out, before it trains."""

from typing import Any

import pytest

from torchpipe.audit import report_rows
from torchpipe.datasets import messages_dataset
from torchpipe.models.tiny import tiny_tokenizer

USER, ASSISTANT = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}
ROWS: list[dict[str, Any]] = [
    {"messages": [USER, ASSISTANT]},
    {"messages": []},
    {"messages": [ASSISTANT, USER]},
    {"messages": [USER, ASSISTANT], "id": 3},
]


@pytest.mark.parametrize("stored", ["packed", "cache"])
def test_reasons_are_named_with_their_first_rows(stored: str, capsys: pytest.CaptureFixture[str]) -> None:
    options: dict[str, Any] = {stored: True, "on_error": "skip", "drop_duplicates": ["messages"]}
    report_rows(
        "training rows", messages_dataset(tiny_tokenizer(max_seq_len=64), source=ROWS, **options), check_rows=True
    )
    lines = capsys.readouterr().out.splitlines()
    (told,) = [line for line in lines if line.startswith("training rows, left out: ")]
    reasons = told.removeprefix("training rows, left out: ").split("; ")
    assert sorted(reasons) == ["bad_role_order 1 (row 2)", "duplicate 1 (row 3)", "empty 1 (row 1)"]


@pytest.mark.parametrize("options", [{}, {"cache": True}, {"cache": True, "holdout": {"share": 0.5}}])
def test_nothing_is_said_where_nothing_is_left_out_but_the_other_part(
    options: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    rows: Any = [{"messages": [USER, {"role": "assistant", "content": f"{n}"}]} for n in range(12)]
    report_rows(
        "training rows", messages_dataset(tiny_tokenizer(max_seq_len=64), source=rows, **options), check_rows=True
    )
    assert "left out: " not in capsys.readouterr().out
