"""What a row policy may be, and how a row that is left out is written."""

import json
import pickle
from typing import Any

import pytest

from torchpipe.data.ledger import REASONS
from torchpipe.data.row_policy import Refused, RowPolicy
from torchpipe.errors import ColumnError, ConfigError, DataError, MediaError


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"on_error": "skp"},
            r"on_error is 'skp'\. It is one of 'raise', 'skip', 'quarantine'\. Did you mean 'skip'\?",
        ),
        ({"on_untrained": "drop"}, "on_untrained is 'drop'. It is one of 'leave_out', 'keep', 'raise'"),
        ({"on_error": "skip", "max_error_share": 1.5}, "max_error_share is 1.5. Give a share of all rows, from 0 to 1"),
        ({"on_error": "skip", "max_error_share": True}, "max_error_share is True"),
        ({"max_error_share": 0.1}, "max_error_share=0.1 has no effect with on_error='raise'"),
        ({"on_error": "quarantine"}, "quarantine_file is None and on_error 'quarantine'"),
        ({"on_error": "skip", "quarantine_file": "bad.jsonl"}, "quarantine_file is 'bad.jsonl' and on_error 'skip'"),
    ],
)
def test_a_setting_without_sense_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        RowPolicy(**given)


@pytest.mark.parametrize(("share", "num_rows", "allowed"), [(0.29, 100, 29), (0, 10, 0), (1, 7, 7), (0.01, 250, 2)])
def test_a_share_is_of_all_rows_and_rounded_down(share: float, num_rows: int, allowed: int) -> None:
    assert RowPolicy(on_error="skip", max_error_share=share).num_allowed(num_rows) == allowed


def test_an_error_has_the_reason_of_its_class_or_its_own_and_keeps_it_in_another_process() -> None:
    assert (DataError("x").reason, ColumnError("x").reason, MediaError("x").reason) == (
        "error",
        "bad_columns",
        "media_mismatch",
    )
    error = pickle.loads(pickle.dumps(ColumnError("Column 'a' is null.", reason="empty")))
    assert (error.reason, str(error)) == ("empty", "Column 'a' is null.")


def test_the_codes_of_reasons_stay_as_they_are_on_disks() -> None:
    assert (
        *("filtered", "too_long", "nothing_trained", "unproved", "malformed_json", "empty", "bad_columns"),
        *("bad_message", "bad_role_order", "media_mismatch", "bad_media", "unwritable", "chosen_equals_rejected"),
        *("prompts_differ", "error", "duplicate", "other_part", "dropped"),
    ) == REASONS


def test_a_reason_that_there_is_none_of_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"Row 3: no\. A DataError gave the reason 'emty', .*Did you mean 'empty'\?"):
        Refused.by(DataError("Row 3: no.", reason="emty"), {})


@pytest.mark.parametrize(
    ("content", "written"),
    [
        ({"text": "a\r\nb\tשלום\x00"}, {"text": "a\r\nb\tשלום\x00"}),
        ({"text": "half of a pair: \ud83d"}, {"text": "half of a pair: \ud83d"}),
        ('{"text": broken', '{"text": broken'),
        ({"image": object()}, None),
        ({"score": float("nan")}, None),
    ],
)
def test_a_row_is_written_as_one_line_wherever_json_has_a_form_for_it(content: Any, written: Any) -> None:
    refused = Refused(reason="nothing_trained", sentence="Row 4 of chats: no.", content=content)
    line = refused.line(4, "chats")
    assert line.count(b"\n") == 1
    found = json.loads(line)
    assert found.pop("content") == written
    assert ("unwritten" in found) == (written is None)
    found.pop("unwritten", None)
    assert found == {"source": "chats", "row": 4, "reason": "no_trainable_tokens", "error": "Row 4 of chats: no."}
