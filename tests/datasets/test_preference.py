"""Data sets of pairs, as they are called: from a builder, from YAML, stored or not."""

import json
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf
from torch.utils.data import DataLoader

from torchpipe.data import (
    ChosenRejectedToMessages,
    PromptedPairToMessages,
    TranscriptPairToMessages,
    padded_collate_dpo,
)
from torchpipe.datasets import (
    ConcatDataset,
    PackedDataset,
    PreferenceDataset,
    StoredPreferenceDataset,
    count_samples,
    hh_rlhf_helpful_dataset,
    instantiate_dataset,
    preference_dataset,
    stack_exchange_paired_dataset,
)
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
PROMPTED = {"prompt": "prompt", "chosen": "chosen", "rejected": "rejected"}
ROWS = [{"prompt": f"What is {n} + {n}?", "chosen": str(2 * n), "rejected": str(2 * n + 1)} for n in range(6)]
FAULTY = [
    *ROWS[:2],
    {**ROWS[2], "rejected": ROWS[2]["chosen"]},
    {**ROWS[3], "rejected": None},
    ROWS[4],
    {**ROWS[5], "rejected": [{"role": "user", "content": "Another?"}, {"role": "assistant", "content": "No."}]},
]


def conversation(prompt: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]


def trained(item: Any, side: str) -> str:
    labels = [int(label) for label in item[f"{side}_labels"] if label != -100]
    return TOKENIZER.decode(labels, truncate_at_eos=False)


def test_the_constructor_is_torchtunes() -> None:
    rows = [{side: conversation(row["prompt"], row[side]) for side in ("chosen", "rejected")} for row in ROWS]
    dataset = PreferenceDataset(
        source=rows,
        message_transform=ChosenRejectedToMessages(),
        tokenizer=TOKENIZER,
        filter_fn=lambda row: row["chosen"][1]["content"] != "0",
        packed=False,
    )
    assert len(dataset) == 5
    assert trained(dataset[0], "chosen").endswith("\n\n2")
    assert trained(dataset[-1], "rejected").endswith("\n\n11")
    prompted = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED)
    assert dataset[0] == prompted[1]


def test_packed_is_refused_by_the_class_and_says_where_it_is() -> None:
    with pytest.raises(ConfigError, match="Call preference_dataset with packed=True, or wrap"):
        PreferenceDataset(source=ROWS, message_transform=PromptedPairToMessages(), tokenizer=TOKENIZER, packed=True)


def test_a_loader_makes_batches_of_chosen_and_then_rejected_rows() -> None:
    dataset = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED)
    tokens, labels = next(iter(DataLoader(dataset, batch_size=3, collate_fn=padded_collate_dpo)))
    assert tokens.shape == labels.shape
    assert len(tokens) == 6
    assert tokens[1].tolist()[: len(dataset[1]["chosen_input_ids"])] == dataset[1]["chosen_input_ids"]
    assert labels[4].tolist()[: len(dataset[1]["rejected_labels"])] == dataset[1]["rejected_labels"]


def test_yaml_builds_pairs_by_builder_and_by_class(tmp_path: Path) -> None:
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    by_builder = OmegaConf.create(
        f"{{_component_: torchpipe.datasets.preference_dataset, source: json, data_files: {file}, "
        "column_map: {prompt: prompt, chosen: chosen, rejected: rejected}}"
    )
    by_class = OmegaConf.create(
        f"{{_component_: torchpipe.datasets.PreferenceDataset, source: json, data_files: {file}, split: train, "
        "message_transform: {_component_: torchpipe.data.PromptedPairToMessages}}"
    )
    one, two = (instantiate_dataset(cfg, TOKENIZER) for cfg in (by_builder, by_class))
    assert [one[row] for row in range(6)] == [two[row] for row in range(6)]


def test_stored_pairs_are_those_that_are_made_on_the_fly() -> None:
    alive = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED)
    stored = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED, cache=True, num_proc=1)
    assert isinstance(stored, StoredPreferenceDataset)
    assert len(stored) == 6
    for pair in range(6):
        assert {key: values.tolist() for key, values in stored[pair].items()} == alive[pair]
        assert stored.row_of(pair) == (pair, 0)
    lengths = [len(item["chosen_input_ids"]) + len(item["rejected_input_ids"]) for item in stored]
    assert stored.lengths.tolist() == lengths
    assert stored.ledger.as_dict() == {"read": 6, "used": 6}
    with pytest.raises(IndexError, match="Pair 6 was asked for, and list has 6 pairs"):
        stored[6]


def test_pairs_that_can_t_be_used_are_counted_by_their_reasons(tmp_path: Path) -> None:
    file = tmp_path / "left_out.jsonl"
    stored: Any = preference_dataset(
        TOKENIZER,
        source=FAULTY,
        column_map=PROMPTED,
        cache=True,
        num_proc=1,
        on_error="quarantine",
        quarantine_file=str(file),
        on_untrained="leave_out",
    )
    assert stored.ledger.as_dict() == {
        "read": 6,
        "used": 3,
        "chosen_equals_rejected": 1,
        "empty": 1,
        "prompts_differ": 1,
    }
    assert [stored.row_of(pair)[0] for pair in range(3)] == [0, 1, 4]
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["row"] for line in lines] == [2, 3, 5]


def test_the_first_pair_that_can_t_be_used_is_named() -> None:
    dataset = preference_dataset(TOKENIZER, source=FAULTY, column_map=PROMPTED)
    with pytest.raises(DataError, match="Row 2 of list: The chosen and the rejected conversations are equal"):
        dataset[2]
    with pytest.raises(DataError, match="Row 5 of list: The two prompts differ: message 1 is not the same in both"):
        dataset[5]
    kept = preference_dataset(TOKENIZER, source=FAULTY, column_map=PROMPTED, on_equal="keep")
    assert trained(kept[2], "chosen") == trained(kept[2], "rejected")


def test_a_pair_with_a_side_that_trains_nothing_is_left_out_or_warned_of() -> None:
    turns = [{"role": "assistant", "content": "0", "train": False}]
    rows = [ROWS[0], {**ROWS[1], "rejected": turns}]
    stored: Any = preference_dataset(TOKENIZER, source=rows, column_map=PROMPTED, cache=True, num_proc=1)
    assert stored.ledger.as_dict() == {"read": 2, "used": 1, "no_trainable_tokens": 1}
    alive = preference_dataset(TOKENIZER, source=rows, column_map=PROMPTED)
    with pytest.warns(UserWarning, match="Row 1 of list has a side without a token that is trained"):
        alive[1]


def test_long_pairs_are_dropped_where_they_are_stored_and_refused_where_not() -> None:
    rows = [*ROWS, {"prompt": "Count.", "chosen": "one two three " * 30, "rejected": "No."}]
    limits: dict[str, Any] = {"source": rows, "column_map": PROMPTED, "overflow": "drop", "max_seq_len": 60}
    stored: Any = preference_dataset(TOKENIZER, cache=True, num_proc=1, **limits)
    assert stored.ledger.as_dict() == {"read": 7, "used": 6, "too_long": 1}
    with pytest.raises(ConfigError, match="overflow='drop' gives a row no pair"):
        preference_dataset(TOKENIZER, **limits)


def test_a_transform_of_ones_own_takes_the_place_of_the_options() -> None:
    text = "\n\nHuman: 1 + 1?\n\nAssistant: "
    rows = [{"chosen": f"{text}2", "rejected": f"{text}3"}]
    dataset = preference_dataset(TOKENIZER, source=rows, message_transform=TranscriptPairToMessages())
    assert trained(dataset[0], "chosen").endswith("\n\n2")
    with pytest.raises(ConfigError, match="'column_map' has no effect with a message_transform of your own"):
        preference_dataset(TOKENIZER, source=rows, message_transform=TranscriptPairToMessages(), column_map=PROMPTED)


def test_hh_rows_are_two_conversations(shared_data: Path) -> None:
    file = str(shared_data / "torchtune" / "hh_rlhf_tiny.json")
    dataset = hh_rlhf_helpful_dataset(TOKENIZER, source="json", data_files=file)
    assert trained(dataset[0], "chosen").endswith("Fix the hole.")
    with pytest.warns(DeprecationWarning, match="train_on_input is deprecated"):
        on_all = hh_rlhf_helpful_dataset(TOKENIZER, source="json", data_files=file, train_on_input=True)
    assert on_all[0] == dataset[0]


def test_stack_exchange_rows_are_read_by_their_columns(tmp_path: Path) -> None:
    rows = [{"question": "Why?", "response_j": "So.", "response_k": "Because."}]
    dataset = stack_exchange_paired_dataset(TOKENIZER, source=rows)
    assert trained(dataset[0], "rejected").endswith("Because.")
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({"prompt": "Why?", "chosen": "So.", "rejected": "Because."}) + "\n", encoding="utf-8")
    named = stack_exchange_paired_dataset(TOKENIZER, source="json", data_files=str(file), column_map=PROMPTED)
    assert named[0] == dataset[0]


def test_a_misspelt_option_is_named() -> None:
    with pytest.raises(ConfigError, match="'max_promt_len'.*Did you mean 'max_prompt_len'"):
        preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED, max_promt_len=8)


def test_pairs_are_split_and_freed_of_duplicates_like_other_rows() -> None:
    shares = {"share": 0.5, "part": "train"}
    parts = [
        preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED, holdout={**shares, "part": part})
        for part in ("train", "validation")
    ]
    assert sum(map(len, parts)) == 6
    twice = preference_dataset(TOKENIZER, source=[*ROWS, *ROWS], column_map=PROMPTED, drop_duplicates=True)
    assert len(twice) == 6


def test_a_packed_data_set_of_pairs_is_that_of_the_builder() -> None:
    pairs = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED)
    wrapped = PackedDataset(pairs, max_seq_len=128, padding_idx=TOKENIZER.pad_id, num_proc=1)
    built: Any = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED, packed=True, pack_len=128, num_proc=1)
    assert wrapped.fingerprint == built.fingerprint


def test_joined_data_sets_give_the_pairs_of_each() -> None:
    one = preference_dataset(TOKENIZER, source=ROWS[:2], column_map=PROMPTED)
    two = preference_dataset(TOKENIZER, source=ROWS[2:], column_map=PROMPTED)
    both = ConcatDataset([one, two])
    whole: Any = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED)
    assert list(both) == list(whole)
    with pytest.raises(DataError, match="It needs `tokens`"):
        PackedDataset(both, max_seq_len=128, num_proc=1)


def test_counts_of_pairs_are_those_of_both_sides() -> None:
    alive = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED)
    stored = preference_dataset(TOKENIZER, source=ROWS, column_map=PROMPTED, cache=True, num_proc=1)
    one, two = count_samples(alive), count_samples(stored)
    assert (one.rows, one.tokens, one.trained_tokens) == (two.rows, two.tokens, two.trained_tokens)
    assert one.rows == 12
    assert one.largest_token_id == two.largest_token_id
