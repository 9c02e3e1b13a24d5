"""Real pairs through torchpipe and through torchtune 0.6.1: every token and label of every pair."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

import torchpipe.datasets
from torchpipe.data import PromptedPairToMessages
from torchpipe.models.llama3 import llama3_tokenizer

HERE = Path(__file__).parent
MAKER = runpy.run_path(str(HERE / "make_preference_goldens.py"))
GOLDENS: dict[str, Any] = json.loads((HERE / "preference_goldens.json").read_text(encoding="utf-8"))
DPO_COLUMNS = {"prompt": "conversations", "chosen": "chosen", "rejected": "rejected"}


def built(case: dict[str, Any], shared_data: Path, tokenizer_file: Path) -> Any:
    """The data set of a case, by torchpipe."""
    tokenizer = llama3_tokenizer(str(tokenizer_file), max_seq_len=case["max_seq_len"])
    source: dict[str, Any] = {"source": "json", "data_files": str(shared_data / case["data_file"])}
    if case["builder"] != "PreferenceDataset":
        return getattr(torchpipe.datasets, case["builder"])(tokenizer, **source, **case["arguments"])
    transform = PromptedPairToMessages(column_map=DPO_COLUMNS)
    return torchpipe.datasets.PreferenceDataset(
        message_transform=transform, tokenizer=tokenizer, split="train", **source
    )


def test_the_goldens_are_those_of_the_cases_in_the_script() -> None:
    stored = {
        name: {key: value for key, value in case.items() if key != "digests"} for name, case in GOLDENS["cases"].items()
    }
    assert stored == MAKER["CASES"]


# Of prompts longer than the cut both sides have nothing to train, which is said once.
@pytest.mark.filterwarnings("ignore:Row .* has a side without a token that is trained")
@pytest.mark.parametrize("name", [name for name in GOLDENS["cases"] if "all answers" not in name])
def test_pairs_equal_those_of_torchtune(name: str, shared_data: Path, llama3_tokenizer_file: Path) -> None:
    case = GOLDENS["cases"][name]
    assert MAKER["digests"](built(case, shared_data, llama3_tokenizer_file)) == case["digests"]


def test_only_labels_of_shared_answers_differ_from_those_that_torchtune_trains(
    shared_data: Path, llama3_tokenizer_file: Path
) -> None:
    case = GOLDENS["cases"]["dpo, all answers trained"]
    pairs = built(case, shared_data, llama3_tokenizer_file)
    found = MAKER["digests"](pairs)
    has_shared_answer = [any(turn["from"] == "gpt" for turn in row["conversations"]) for row in pairs.rows]
    assert sum(has_shared_answer) == 67
    for column, theirs in case["digests"].items():
        differs = [own != other for own, other in zip(found[column], theirs, strict=True)]
        assert differs == (has_shared_answer if column.endswith("labels") else [False] * len(pairs))
