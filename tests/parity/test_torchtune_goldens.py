"""Real rows through torchpipe and through torchtune 0.6.1: every token, mask value and label of every row."""

import json
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import torchpipe.datasets
from torchpipe.data import Message
from torchpipe.errors import DataError
from torchpipe.models.llama3 import llama3_tokenizer

HERE = Path(__file__).parent
MAKER = runpy.run_path(str(HERE / "make_torchtune_goldens.py"))
GOLDENS: dict[str, Any] = json.loads((HERE / "torchtune_goldens.json").read_text(encoding="utf-8"))

# Columns that differ on purpose. Each has its row in docs/differences_from_torchtune.md.
EXPLAINED: dict[str, set[str]] = {
    # System messages are never trained on, as on torchtune's main branch.
    "tinker, trained on all": {"mask", "labels"},
}


def rebuilt(case: dict[str, Any], shared_data: Path, tokenizer_file: Path) -> Any:
    """The data set of a case, built by torchpipe from the same arguments."""
    tokenizer = llama3_tokenizer(str(tokenizer_file), max_seq_len=case["max_seq_len"])
    build = getattr(torchpipe.datasets, case["builder"])
    dataset = build(tokenizer, source="json", data_files=str(shared_data / case["data_file"]), **case["arguments"])
    return torchpipe.datasets.PackedDataset(dataset, **case["packing"]) if case["packing"] else dataset


def different_rows(ours: dict[str, list[str]], theirs: dict[str, list[str]]) -> dict[str, str]:
    """Of every column that differs, the first range of rows in which it does."""
    size = GOLDENS["rows_per_digest"]
    found = {}
    for column, digests in theirs.items():
        pairs = zip(ours[column], digests, strict=True)
        first = next((number for number, (own, other) in enumerate(pairs) if own != other), None)
        if first is not None:
            found[column] = f"first in rows {first * size} to {first * size + size - 1}"
    return found


def test_the_goldens_are_those_of_the_cases_in_the_script():
    arguments = ("builder", "data_file", "arguments", "max_seq_len", "packing")
    stored = {name: {key: case[key] for key in arguments} for name, case in GOLDENS["cases"].items()}
    assert stored == MAKER["CASES"]
    assert GOLDENS["rows_per_digest"] == MAKER["ROWS_PER_DIGEST"]


@pytest.mark.filterwarnings("ignore:Row .* has no token that is trained")
# train_on_input is deprecated here, and the only name for the strategy there.
@pytest.mark.filterwarnings("ignore:train_on_input is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", GOLDENS["cases"])
def test_rows_equal_those_of_torchtune(name: str, shared_data: Path, llama3_tokenizer_file: Path):
    case = GOLDENS["cases"][name]
    rows, refused = MAKER["rows_and_refusals"](rebuilt(case, shared_data, llama3_tokenizer_file), DataError)
    assert refused == case["refused"]
    assert len(rows) == case["num_rows"]
    assert sum(len(row["tokens"]) for row in rows) == case["num_tokens"]
    found = different_rows(MAKER["digests"](rows), case["digests"])
    assert found.keys() == EXPLAINED.get(name, set()), f"{name}: {found}"


def test_both_refuse_a_chat_whose_assistant_speaks_before_a_user(shared_data: Path, llama3_tokenizer_file: Path):
    case = GOLDENS["cases"]["toy chats"]
    assert case["refused"] == [3]
    arguments = {key: value for key, value in case["arguments"].items() if key != "train_on_input"}
    dataset = rebuilt({**case, "arguments": arguments}, shared_data, llama3_tokenizer_file)
    with pytest.raises(DataError, match=r"Row 3 of .*toy_chat_fine_tuning\.jsonl"):
        dataset[3]


def test_training_on_all_differs_from_torchtune_by_system_messages_alone(
    shared_data: Path, llama3_tokenizer_file: Path
):
    case = GOLDENS["cases"]["tinker, trained on all"]

    def all_trained(sample: Mapping[str, Any]) -> dict[str, Any]:
        return {"messages": [Message(role=turn["role"], content=turn["content"]) for turn in sample["messages"]]}

    dataset = torchpipe.datasets.sft_dataset(
        llama3_tokenizer(str(llama3_tokenizer_file)),
        source="json",
        data_files=str(shared_data / case["data_file"]),
        message_transform=all_trained,
    )
    rows, _ = MAKER["rows_and_refusals"](dataset, DataError)
    assert different_rows(MAKER["digests"](rows), case["digests"]) == {}
