"""Pairs, labelled answers and prompts, shown: which tokens are trained, and why, whatever was stored, packed or cut."""

import json
from pathlib import Path
from typing import Any

import pytest

from torchpipe.audit import compare_inference, explain
from torchpipe.audit.explain_json import to_json
from torchpipe.data.pair_transform import SIDES
from torchpipe.datasets import ConcatDataset, kto_dataset, preference_dataset, prompt_dataset, side_of
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(mask_policy="sampled")
TALK = [
    {"role": "user", "content": "Hello there, how are you today?"},
    {"role": "assistant", "content": "I am well."},
    {"role": "user", "content": "What is 2 + 2?"},
]
ROWS = [
    {
        "chosen": [*TALK, {"role": "assistant", "content": f"It is {number}, as everybody knows."}],
        "rejected": [*TALK, {"role": "assistant", "content": f"It may be {number + 1}."}],
    }
    for number in range(4, 8)
]
CUTS: dict[str, dict[str, Any]] = {
    "not cut": {},
    "left": {"overflow": "truncate", "max_prompt_len": 20},
    "turns": {"overflow": "truncate", "max_prompt_len": 34, "prompt_truncation": "turns"},
    "right": {"overflow": "truncate", "max_response_len": 4},
    "both": {"overflow": "truncate", "max_prompt_len": 20, "max_response_len": 4, "stop_token": "keep"},
}


def pairs(tmp_path: Path | None = None, **options: Any) -> Any:
    stored = {} if tmp_path is None else {"cache_dir": str(tmp_path), "num_proc": 1}
    return preference_dataset(options.pop("tokenizer", TOKENIZER), source=ROWS, **stored, **options)


def shown(document: Any) -> tuple[list[int], list[bool]]:
    return [token.id for token in document.tokens], [token.trained for token in document.tokens]


def expected(pair: Any, side: str) -> tuple[list[int], list[bool]]:
    sample = side_of(pair, side)
    return sample["tokens"].tolist(), [False, *(label != -100 for label in sample["labels"][:-1].tolist())]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("form", ["alive", "stored", "packed"])
def test_both_sides_are_shown_with_what_their_labels_train(cut: str, form: str, tmp_path: Path) -> None:
    forms: dict[str, dict[str, Any]] = {
        "alive": {},
        "stored": {"cache": True},
        "packed": {"packed": True, "pack_len": 512},
    }
    alive = pairs(**CUTS[cut])
    dataset = pairs(None if form == "alive" else tmp_path, **forms[form], **CUTS[cut])
    rows = explain(dataset, TOKENIZER, rows=range(len(dataset))).rows
    documents = [document for row in rows for document in row.documents if not document.padding]
    assert [document.side for document in documents] == [*SIDES] * 4
    for place, document in enumerate(documents):
        assert shown(document) == expected(alive[place // 2], document.side)
        assert document.sample == place // 2
        assert document.traced, "where each token is from was found again, cut or not"
        assert not [note for note in document.notes if "other tokens" in note]
        assert document.cut_side == (None if cut == "not cut" else cut)
        assert (document.num_cut > 0) == (cut != "not cut")


def test_the_prompt_stands_once_and_says_that_it_is_never_trained() -> None:
    text = explain(pairs(), rows=[1]).to_text()
    head, chosen = text.split("\nchosen: ")
    chosen, rejected = chosen.split("\nrejected: ")
    assert head.endswith(
        "\npair 1: 105 tokens, 19 trained\nthe prompt of both answers, never trained\n  0 user, masked\n"
        "    │ Hello there, how are you today?\n  1 assistant, masked\n    │ I am well.\n  2 user, masked\n"
        "    │ What is 2 + 2?"
    ), head
    assert "masked   message 1 (assistant), content: the prompt of both answers, never trained" in chosen
    assert "  3 assistant, trained\n    │ It is 5, as everybody knows." in chosen
    assert "trained  message 3 (assistant), content" in chosen
    assert "     0  masked   the prompt, the same " in rejected
    assert "Hello" not in rejected
    assert "  3 assistant, trained\n    │ It may be 6." in rejected
    assert text.splitlines()[0] == "list: 4 pairs"


@pytest.mark.parametrize(
    ("cut", "sentence"),
    [
        ("left", "tokens were cut from the start of the prompt"),
        ("turns", "tokens were cut from the prompt, with its oldest turns"),
        ("right", "tokens were cut from the end of the response"),
        ("both", "tokens were cut from the start of the prompt and the end of the response"),
    ],
)
def test_a_cut_pair_says_where(cut: str, sentence: str) -> None:
    assert f"{sentence}\n" in explain(pairs(**CUTS[cut])).to_text()


def test_packs_name_pairs_and_sides(tmp_path: Path) -> None:
    dataset = pairs(tmp_path, packed=True, pack_len=512)
    text = explain(dataset, TOKENIZER).to_text()
    assert "\npack 0: 512 tokens, 76 trained, 4 pairs, " in text
    assert "\ndocument 0: pair 0, chosen, " in text
    assert "\ndocument 7: pair 3, rejected, " in text
    assert text.count("the prompt of both answers, never trained\n  0 user") == 4


def test_a_pair_that_is_refused_shows_both_conversations() -> None:
    same = [{**ROWS[0], "rejected": ROWS[0]["chosen"]}]
    (row,) = explain(preference_dataset(TOKENIZER, source=same), rows=[0]).rows
    assert row.refused is not None
    assert "are equal, so that nothing is preferred" in row.refused
    assert [document.side for document in row.documents] == [*SIDES]
    text = explain(preference_dataset(TOKENIZER, source=same)).to_text()
    assert "\npair 0: refused\n" in text
    assert "\nchosen\n  3 assistant" in text


def test_joined_pairs_and_other_peoples_pairs_are_pairs() -> None:
    joined = ConcatDataset([pairs(), pairs()])
    assert "\npair 5: " in explain(joined, rows=[5]).to_text()
    own = explain([pairs()[0]], TOKENIZER).to_text()
    assert "\npair 0: " in own
    assert "\nchosen: " in own
    with pytest.raises(ConfigError, match="the data set has 8 pairs"):
        explain(joined, rows=[8])


def test_json_and_html_name_the_sides() -> None:
    found = explain(pairs())
    (row,) = json.loads(to_json(found))["rows"]
    assert (row["item"], [document["side"] for document in row["documents"]]) == ("pair", [*SIDES])
    one, other = row["documents"]
    shared = one["num_shared"]
    assert [token["id"] for token in one["tokens"][:shared]] == [token["id"] for token in other["tokens"][:shared]]
    assert one["num_prompt"] == 3
    assert [document["offset"] for document in row["documents"]] == [0, 0]
    assert "<div>rejected: " in found._repr_html_()


def test_contexts_of_both_sides_are_compared() -> None:
    report = compare_inference(pairs(), rows=[2])
    assert [(row.side, [turn.message for turn in row.turns]) for row in report.rows] == [
        ("chosen", [1, 3]),
        ("rejected", [3]),
    ]
    assert all(turn.same for row in report.rows for turn in row.turns)
    assert "\nrow 2, rejected: 1 assistant turn" in report.to_text()
    with pytest.raises(ConfigError, match="compares the replies of conversations .*, and this is a PromptDataset"):
        compare_inference(prompt_dataset(TOKENIZER, source=[{"prompt": "Hi"}]))


LABELLED = [{"messages": row["chosen"], "label": number % 2 == 0} for number, row in enumerate(ROWS)]


@pytest.mark.parametrize("options", [{}, {"overflow": "truncate", "max_seq_len": 52}])
@pytest.mark.parametrize("stored", [False, True])
def test_a_labelled_answer_says_what_it_is(options: dict[str, Any], stored: bool, tmp_path: Path) -> None:
    alive = kto_dataset(TOKENIZER, source=LABELLED, **options)
    where: dict[str, Any] = {"cache": True, "cache_dir": str(tmp_path), "num_proc": 1} if stored else {}
    found = explain(kto_dataset(TOKENIZER, source=LABELLED, **options, **where), rows=range(4))
    for index, row in enumerate(found.rows):
        (document,) = row.documents
        labels = [label != -100 for label in alive[index]["labels"]]
        assert shown(document) == (alive[index]["input_ids"], labels)
        assert document.traced
        assert row.desirable == (index % 2 == 0)
        assert bool(document.num_cut) == bool(options)
    text = found.to_text()
    assert "trained, a desirable answer\n" in text
    assert "trained, an undesirable answer\n" in text
    assert "message 1 (assistant), content: the prompt of the answer that is judged, never trained" in text


@pytest.mark.parametrize("options", [{}, {"overflow": "truncate", "max_prompt_len": 9}])
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("template", [False, True])
def test_a_prompt_ends_with_what_begins_the_reply(
    template: bool, stored: bool, options: dict[str, Any], tmp_path: Path, template_tokenizer: Any
) -> None:
    tokenizer: Any = template_tokenizer("chatml") if template else TOKENIZER
    where: dict[str, Any] = {"cache": True, "cache_dir": str(tmp_path), "num_proc": 1} if stored else {}
    rows = [{"prompt": "What is 2 + 2?"}]
    alive = prompt_dataset(tokenizer, source=rows, **options)
    found = explain(prompt_dataset(tokenizer, source=rows, **options, **where))
    (document,) = found.rows[0].documents
    assert shown(document) == (alive[0]["tokens"], [False] * len(alive[0]["tokens"]))
    assert document.traced
    text = found.to_text()
    assert text.splitlines()[0] == "list: 1 prompt"
    assert "\nprompt 0: " in text
    assert "  0 user, masked\n" in text
    assert "a prompt, of which nothing is trained" in text
    assert ("tokens were cut on the left to max_prompt_len" in text) == bool(options)


def test_an_item_of_no_known_kind_is_named() -> None:
    with pytest.raises(DataError, match=r"Row 0 of list gave the keys \['input_ids'\].*pairs, labelled answers"):
        explain([{"input_ids": [1, 2]}], TOKENIZER)
    with pytest.raises(DataError, match=r"Row 0 of list gave the keys \['tokens'\]"):
        explain([{"tokens": [1, 2]}], TOKENIZER)
