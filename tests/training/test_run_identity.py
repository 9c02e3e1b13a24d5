"""What a resumed run is compared by."""

from typing import Any

from torchpipe.data.ledger import SampleCounts
from torchpipe.training import what_decides_the_run
from torchpipe.training.run_identity import BASE_WEIGHTS, NUMBERS, SECTIONS

SETTINGS: dict[str, Any] = {
    **dict.fromkeys((*SECTIONS, *NUMBERS)),
    "tokenizer": {"_component_": "t", "path": "a/tokenizer.model", "max_seq_len": 8},
    "dataset": [{"_component_": "d", "data_files": "a.json"}, {"_component_": "d", "data_dir": "b"}],
    "output_dir": "runs/mine",
    "device": "cpu",
}


def counts() -> SampleCounts:
    return SampleCounts(rows=1, tokens=2, trained_tokens=1, longest=2, largest_token_id=2, digest="abc")


def test_where_files_lie_matters_only_if_rows_were_not_counted() -> None:
    assert what_decides_the_run(SETTINGS, None)["tokenizer"]["path"] == "a/tokenizer.model"
    counted = what_decides_the_run(SETTINGS, counts())
    assert counted["tokenizer"] == {"_component_": "t", "max_seq_len": 8}
    assert counted["dataset"] == [{"_component_": "d"}, {"_component_": "d"}]
    assert counted["tokens and labels"] == counts().digest


def test_places_and_devices_decide_nothing() -> None:
    assert not {"output_dir", "device"} & what_decides_the_run(SETTINGS, None).keys()


def test_the_weights_that_training_begins_with_decide() -> None:
    assert BASE_WEIGHTS not in what_decides_the_run(SETTINGS, None)
    assert what_decides_the_run(SETTINGS, None, weights="abc")[BASE_WEIGHTS] == "abc"
