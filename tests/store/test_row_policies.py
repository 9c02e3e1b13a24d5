"""Rows that can't be used: left out, counted and written alike by any number of processes, up to a share."""

import json
import multiprocessing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data.row_policy import RowPolicy
from torchpipe.datasets import GrowingPackedDataset
from torchpipe.errors import ColumnError, ConfigError, DataError, StoreError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.store import SFTRecipe, TokenStore
from torchpipe.store.accounts import checked_ledger, ledger_summary
from torchpipe.store.build import build_store
from torchpipe.store.by_shard import GrowingStore
from torchpipe.store.verify import problems_of

FAULTS = {7: "empty", 19: "bad_columns", 20: "error", 21: "no_trainable_tokens", 55: "malformed_json", 91: "unwritable"}


class Dirty:
    """Questions and answers, of which some rows have one of :data:`FAULTS`."""

    def __init__(self, num_rows: int = 100, faults: Mapping[int, str] = FAULTS) -> None:
        self.num_rows = num_rows
        self.faults = dict(faults)

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, index: int, /) -> Mapping[str, Any]:
        if self.faults.get(index) == "malformed_json":
            raise DataError(f"qa.jsonl, line {index + 1} is not valid JSON.", reason="malformed_json")
        return {"number": index, "fault": self.faults.get(index)}

    def fingerprint(self) -> str:
        return f"dirty {self.num_rows} {sorted(self.faults.items())}"


class ToMessages:
    """The messages of a row, or its error."""

    def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
        from torchpipe.data import Message

        fault, number = sample["fault"], sample["number"]
        if fault == "bug":
            raise KeyError("answer")
        if fault == "empty":
            raise ColumnError("Column 'answer' is null.", reason="empty")
        if fault == "bad_columns":
            raise ColumnError("The row has no column 'answer'.")
        if fault == "error":
            raise DataError("The answer is in no language.")
        answer = "\ud83d" if fault == "unwritable" else f"answer {number}"
        is_untrained = fault == "no_trainable_tokens"
        return {
            "messages": [Message("user", f"q {number}", masked=True), Message("assistant", answer, masked=is_untrained)]
        }


def recipe(rows: Any = None, **policy: Any) -> SFTRecipe:
    return SFTRecipe(
        source=rows or Dirty(),
        message_transform=ToMessages(),
        model_transform=tiny_tokenizer(),
        row_policy=RowPolicy(**policy),
    )


def built(tmp_path: Path, rows: Any = None, *, num_proc: int = 1, shard_rows: int = 16, **policy: Any) -> TokenStore:
    return build_store(recipe(rows, **policy), cache_dir=tmp_path, num_proc=num_proc, shard_rows=shard_rows)


def test_rows_are_left_out_and_counted_by_reason(tmp_path: Path) -> None:
    store = built(tmp_path, on_error="skip")
    summary = ledger_summary(store)
    assert summary.as_dict() == {
        "read": 100,
        "used": 94,
        "no_trainable_tokens": 1,
        "malformed_json": 1,
        "empty": 1,
        "bad_columns": 1,
        "unwritable": 1,
        "error": 1,
    }
    assert summary.examples == {reason: (row,) for row, reason in FAULTS.items()}
    assert sorted({*range(100)} - set(store.rows.tolist())) == sorted(FAULTS)
    assert checked_ledger(store)["read"] == 100
    assert list(problems_of(store.path)) == []


@pytest.mark.parametrize("shard_rows", [7, 16, 300])
@pytest.mark.parametrize("num_proc", [1, 3])
def test_the_file_of_rows_is_the_same_for_any_number_of_processes_and_shards(
    tmp_path: Path, num_proc: int, shard_rows: int
) -> None:
    file = tmp_path / "out" / "bad.jsonl"
    built(tmp_path, num_proc=num_proc, shard_rows=shard_rows, on_error="quarantine", quarantine_file=str(file))
    found = [json.loads(line) for line in file.read_text().splitlines()]
    refused = {row: reason for row, reason in FAULTS.items() if reason != "no_trainable_tokens"}
    assert [(line["row"], line["reason"]) for line in found] == list(refused.items())
    assert found[0] == {
        "source": "Dirty",
        "row": 7,
        "reason": "empty",
        "error": "Row 7 of Dirty: Column 'answer' is null.",
        "content": {"number": 7, "fault": "empty"},
    }
    assert found[3]["content"] is None  # it can't be read
    assert [path.name for path in file.parent.iterdir()] == ["bad.jsonl"]


def test_a_second_start_writes_the_file_again_without_tokenising(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    first = built(tmp_path, on_error="quarantine", quarantine_file=str(file))
    content = file.read_bytes()
    file.unlink()
    assert built(tmp_path, on_error="quarantine", quarantine_file=str(file)).path == first.path
    assert file.read_bytes() == content
    built(tmp_path, on_error="quarantine", quarantine_file=str(file))
    assert file.read_bytes() == content
    assert built(tmp_path, on_error="skip").path == first.path  # what is done with the rows decides no sample


def test_two_data_sets_do_not_share_a_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text('{"source": "other.jsonl", "row": 1}\n')
    with pytest.raises(
        ConfigError, match=r"bad.jsonl holds something else than rows of Dirty: its first line is '\{\"source\""
    ):
        built(tmp_path, on_error="quarantine", quarantine_file=str(file))
    assert file.read_text().startswith('{"source": "other.jsonl"')


def test_a_file_that_can_not_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(StoreError, match=r"bad\.jsonl can't be written: "):
        built(tmp_path, on_error="quarantine", quarantine_file=str(tmp_path / "a file" / "bad.jsonl"))


def test_without_a_policy_the_first_bad_row_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ColumnError, match=r"^Row 7 of Dirty: Column 'answer' is null\.$"):
        built(tmp_path)


@pytest.mark.parametrize("num_proc", [1, 2])
def test_an_error_that_is_no_data_error_is_raised_in_any_case_and_says_why(tmp_path: Path, num_proc: int) -> None:
    with pytest.raises(KeyError, match="answer") as found:
        built(tmp_path, Dirty(faults={40: "bug"}), num_proc=num_proc, on_error="skip")
    notes = " ".join(found.value.__notes__)
    assert "Row 40 of Dirty" in notes
    assert "a transform raises a DataError for a row that is to be left out" in notes


MANY = {row: "empty" if row % 2 else "error" for row in range(30, 90)}
SAYS = (
    "Dirty: up to row 35, 6 rows of 100 can't be used, and max_error_share=0.05 allows 5: error 3 (rows 30, 32, 34); "
    "empty 3 (rows 31, 33, 35). The first: Row 30 of Dirty: The answer is in no language. Mend them, leave them out "
    "with a filter_fn, or raise max_error_share."
)


@pytest.mark.parametrize("shard_rows", [3, 16, 300])
@pytest.mark.parametrize("num_proc", [1, 3])
def test_too_many_bad_rows_fail_early_with_the_same_words_for_any_number_of_processes(
    tmp_path: Path, num_proc: int, shard_rows: int
) -> None:
    for _ in range(2):  # the second time, some shards are there
        with pytest.raises(DataError) as found:
            built(
                tmp_path,
                Dirty(faults=MANY),
                num_proc=num_proc,
                shard_rows=shard_rows,
                on_error="skip",
                max_error_share=0.05,
            )
        assert str(found.value) == SAYS


def test_rows_after_the_one_too_many_are_not_tokenised(tmp_path: Path) -> None:
    class Watched(ToMessages):
        last = -1

        def __call__(self, sample: Mapping[str, Any]) -> dict[str, Any]:
            Watched.last = max(Watched.last, sample["number"])
            return super().__call__(sample)

        def fingerprint(self) -> str:
            return "watched"

    some = recipe(Dirty(5000, faults=MANY), on_error="skip", max_error_share=0.002)
    watched = SFTRecipe(
        source=some.source,
        message_transform=Watched(),
        model_transform=some.model_transform,
        row_policy=some.row_policy,
    )
    with pytest.raises(DataError, match="up to row 40, 11 rows of 5,000 can't be used"):
        build_store(watched, cache_dir=tmp_path, num_proc=1)
    assert Watched.last < 300


def test_a_store_that_is_there_is_held_to_a_smaller_share(tmp_path: Path) -> None:
    store = built(tmp_path, Dirty(faults=MANY), on_error="skip")
    assert store.num_samples == 40
    with pytest.raises(DataError) as found:
        built(tmp_path, Dirty(faults=MANY), on_error="skip", max_error_share=0.05)
    assert str(found.value) == SAYS


def test_a_growing_store_raises_when_too_many_rows_are_bad_and_writes_the_file_when_it_is_done(tmp_path: Path) -> None:
    with GrowingStore(recipe(Dirty(faults=MANY), on_error="skip", max_error_share=0.05), cache_dir=tmp_path) as growing:
        with pytest.raises(DataError) as found:
            growing.whole()
        assert str(found.value) == SAYS
    file = tmp_path / "bad.jsonl"
    quarantine = recipe(on_error="quarantine", quarantine_file=str(file))
    with GrowingStore(quarantine, cache_dir=tmp_path, shard_rows=16, num_proc=2) as growing:
        growing.whole()
    assert len(file.read_text().splitlines()) == 5


@pytest.mark.parametrize(("on_untrained", "num_samples"), [("leave_out", 99), ("keep", 100)])
def test_a_row_without_a_trained_token_is_left_out_or_kept(tmp_path: Path, on_untrained: Any, num_samples: int) -> None:
    store = built(tmp_path, Dirty(faults={21: "no_trainable_tokens"}), on_untrained=on_untrained)
    assert store.num_samples == num_samples
    assert (store.trained_counts == 0).sum() == num_samples - 99


def test_a_row_without_a_trained_token_may_be_an_error(tmp_path: Path) -> None:
    rows = Dirty(faults={21: "no_trainable_tokens"})
    with pytest.raises(DataError, match=r"Row 21 of Dirty: The row has no token that is trained"):
        built(tmp_path, rows, on_untrained="raise")
    store = built(tmp_path, rows, on_untrained="raise", on_error="skip")
    assert ledger_summary(store).as_dict() == {"read": 100, "used": 99, "no_trainable_tokens": 1}


def test_packs_by_shard_of_a_store_that_is_there_are_held_to_a_smaller_share(tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_seq_len": 64, "cache_dir": tmp_path, "shard_rows": 16, "num_proc": 1}
    lenient = GrowingPackedDataset(recipe(Dirty(faults=MANY), on_error="skip"), **options)
    assert len(lenient) > 0
    strict = GrowingPackedDataset(recipe(Dirty(faults=MANY), on_error="skip", max_error_share=0.05), **options)
    with pytest.raises(DataError) as found:
        len(strict)
    assert str(found.value) == SAYS


def test_processes_that_start_together_leave_one_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "bad.jsonl"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_build_with_file, args=(tmp_path, file)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    assert [json.loads(line)["row"] for line in file.read_text().splitlines()] == [7, 19, 20, 55, 91]
    assert not list(tmp_path.glob(".*"))


def _build_with_file(cache_dir: Path, file: Path) -> None:
    built(cache_dir, on_error="quarantine", quarantine_file=str(file))
