"""Items of every kind of data set are shown: pairs side by side, labelled answers, prompts."""

import json
from typing import Any

import pytest

from torchpipe.audit import explain
from torchpipe.audit.explain_html import to_html
from torchpipe.audit.explain_json import to_json
from torchpipe.datasets import ConcatDataset, kto_dataset, preference_dataset, prompt_dataset
from torchpipe.errors import DataError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(mask_policy="sampled")
ROWS = [
    {"prompt": f"What is {n} + {n}?", "chosen": f"{2 * n}", "rejected": f"It is {2 * n + 1}.", "label": n % 2 == 0}
    for n in range(3)
]
LABELLED = [{"prompt": row["prompt"], "completion": row["chosen"], "label": row["label"]} for row in ROWS]


def pairs(**options: Any) -> Any:
    columns = {name: name for name in ("prompt", "chosen", "rejected")}
    return preference_dataset(TOKENIZER, source=ROWS, column_map=columns, **options)


def trained_text(document: Any) -> str:
    return "".join(token.piece.text for token in document.tokens if token.trained)


@pytest.mark.parametrize("stored", [False, True])
def test_of_a_pair_both_sides_are_shown_and_what_each_trains(stored: bool) -> None:
    (row,) = explain(pairs(cache=stored), TOKENIZER, rows=[1]).rows
    assert not row.packed
    assert [(document.side, trained_text(document)) for document in row.documents] == [
        ("chosen", "2<|eot_id|>"),
        ("rejected", "It is 3.<|eot_id|>"),
    ]
    assert row.num_trained == sum(document.num_trained for document in row.documents)
    assert row.notes == ()


def test_text_html_and_json_name_the_sides() -> None:
    found = explain(pairs(), TOKENIZER)
    chosen, rejected = found.rows[0].documents
    for side, document in (("chosen", chosen), ("rejected", rejected)):
        line = f"{side}: {len(document.tokens)} tokens, {document.num_trained} trained"
        assert line in found.to_text()
        assert line in to_html(found)
    documents = json.loads(to_json(found))["rows"][0]["documents"]
    assert [document["side"] for document in documents] == ["chosen", "rejected"]
    assert documents[1]["offset"] == len(chosen.tokens)
    assert documents[1]["tokens"][0]["position"] == 0


def test_of_a_labelled_answer_the_label_is_said() -> None:
    columns = {name: name for name in ("prompt", "completion", "label")}
    dataset = kto_dataset(TOKENIZER, source=LABELLED, column_map=columns)
    good, bad = explain(dataset, TOKENIZER, rows=[0, 1]).rows
    assert trained_text(good.documents[0]) == "0<|eot_id|>"
    assert good.notes == ("the answer is labelled as a good one (desirable)",)
    assert bad.notes == ("the answer is labelled as a bad one (desirable)",)


@pytest.mark.parametrize("keep_columns", [(), ("label",)])
def test_a_prompt_is_shown_and_trains_nothing(keep_columns: tuple[str, ...]) -> None:
    (row,) = explain(prompt_dataset(TOKENIZER, source=ROWS, keep_columns=keep_columns), TOKENIZER).rows
    assert row.num_trained == 0
    assert row.num_tokens > 0
    assert row.notes == ("a prompt: it is fed to a model, and nothing is trained",)


def test_a_refused_pair_is_named_once() -> None:
    same = [{**row, "rejected": row["chosen"]} for row in ROWS]
    columns = {name: name for name in ("prompt", "chosen", "rejected")}
    (row,) = explain(preference_dataset(TOKENIZER, source=same, column_map=columns), TOKENIZER).rows
    assert row.refused is not None
    assert row.refused.count("Row 0") == 1


def test_pairs_that_are_joined_are_shown() -> None:
    (row,) = explain(ConcatDataset([pairs(), pairs()]), TOKENIZER, rows=[4]).rows
    assert [trained_text(document) for document in row.documents] == ["2<|eot_id|>", "It is 3.<|eot_id|>"]


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ({"chosen_input_ids": [1], "chosen_labels": [1]}, "Row 0 has no 'rejected_input_ids'"),
        (
            {"chosen_input_ids": [1], "chosen_labels": [], "rejected_input_ids": [1], "rejected_labels": [1]},
            "Row 0 has 1 chosen_input_ids and 0 chosen_labels; they have to be as many",
        ),
        ({"input_ids": [1, 2], "labels": [1], "desirable": True}, "Row 0 has 2 input_ids and 1 labels"),
        ({"tokens": [[1]], "columns": {}}, "Row 0: its tokens are no integers in one axis"),
    ],
)
def test_items_whose_parts_do_not_fit_are_refused(item: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        explain([item], TOKENIZER)
