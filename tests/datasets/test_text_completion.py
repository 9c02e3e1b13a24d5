"""Documents of plain text: each token kept and trained, long ones by policy."""

import json
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.config import instantiate, validate
from torchpipe.datasets import (
    GrowingPackedDataset,
    PackedDataset,
    StoredDataset,
    TextCompletionDataset,
    cnn_dailymail_articles_dataset,
    count_samples,
    instantiate_dataset,
    text_completion_dataset,
    wikitext_dataset,
)
from torchpipe.errors import ColumnError, ConfigError, DataError, SourceError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
BOS, EOS = TOKENIZER.bos_id, TOKENIZER.eos_id
LONG = "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich."
ROWS = [{"text": "Hello."}, {"text": LONG}, {"text": "Bye."}]


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text, add_bos=False, add_eos=False)


def tokens_of(dataset: Any) -> list[list[int]]:
    return [list(map(int, sample["tokens"])) for sample in dataset]


@pytest.mark.parametrize("add_bos", [True, False])
@pytest.mark.parametrize("add_eos", [True, False])
def test_bos_and_eos_stand_where_they_are_asked_for_and_nowhere_else(add_bos: bool, add_eos: bool) -> None:
    sample = TextCompletionDataset(TOKENIZER, ROWS, add_bos=add_bos, add_eos=add_eos)[0]
    assert sample["tokens"] == [BOS] * add_bos + ids("Hello.") + [EOS] * add_eos
    assert sample["labels"] == [*sample["tokens"][1:], -100]
    assert sample["mask"] == [True] + [False] * (len(sample["tokens"]) - 1)


def test_arguments_stand_where_torchtune_has_them() -> None:
    given = TextCompletionDataset(TOKENIZER, [{"body": "Hi"}, {"body": "no"}], "body", False, lambda row: len(row) == 1)
    assert tokens_of(given) == [[BOS, *ids("Hi")], [BOS, *ids("no")]]
    built = text_completion_dataset(TOKENIZER, [{"body": "Hi"}], "body", False, False, True, "train", None)
    assert tokens_of(built) == [[BOS, *ids("Hi")]]


def test_a_text_that_spells_a_control_token_is_text() -> None:
    tokens = TextCompletionDataset(TOKENIZER, [{"text": "<|eot_id|>"}])[0]["tokens"]
    assert tokens.count(EOS) == 1
    assert not set(tokens[1:-1]) & set(TOKENIZER.special_tokens.values())


def test_a_document_is_cut_to_max_seq_len_without_an_end_that_it_does_not_have() -> None:
    sample = text_completion_dataset(TOKENIZER, ROWS, max_seq_len=5)[1]
    whole = [BOS, *ids(LONG), EOS]
    assert sample["tokens"] == whole[:5]
    assert sample["labels"] == [*whole[1:5], -100]
    assert sample["num_truncated"] == len(whole) - 5
    kept = text_completion_dataset(TOKENIZER, ROWS, max_seq_len=5, overflow="truncate", stop_token="keep")[1]
    assert kept["tokens"] == [*whole[:4], EOS]
    left = text_completion_dataset(TOKENIZER, ROWS, max_seq_len=5, overflow="truncate", truncation_type="left")[1]
    assert left["tokens"] == whole[-5:]


def test_the_tokenizers_length_holds_where_none_is_given() -> None:
    assert len(text_completion_dataset(tiny_tokenizer(max_seq_len=6), ROWS)[1]["tokens"]) == 6
    assert len(TextCompletionDataset(tiny_tokenizer(max_seq_len=6), ROWS, max_seq_len=4)[1]["tokens"]) == 4


def test_a_long_document_is_an_error_or_left_out_or_split_as_asked() -> None:
    with pytest.raises(DataError, match=r"^Row 1 of list: 45 tokens are more than max_seq_len=8\. Raise it"):
        text_completion_dataset(TOKENIZER, ROWS, max_seq_len=8, overflow="error")[1]
    dropped: Any = text_completion_dataset(TOKENIZER, ROWS, max_seq_len=8, overflow="drop", cache=True)
    assert tokens_of(dropped) == [[BOS, *ids("Hello."), EOS], [BOS, *ids("Bye."), EOS]]
    assert dropped.ledger.as_dict() == {"read": 3, "used": 2, "too_long": 1}
    assert dropped.ledger.examples == {"too_long": (1,)}
    split = text_completion_dataset(TOKENIZER, ROWS, max_seq_len=8, overflow="split", cache=True)
    assert isinstance(split, StoredDataset)
    parts = [tokens for index, tokens in enumerate(tokens_of(split)) if split.row_of(index)[0] == 1]
    assert [*chain(*parts)] == [BOS, *ids(LONG), EOS]
    assert [len(part) for part in parts] == [8, 8, 8, 8, 8, 5]
    with pytest.raises(ConfigError, match=r"each row of a data set of text is one sample\. Pack it \(packed=True\)"):
        text_completion_dataset(TOKENIZER, ROWS, max_seq_len=8, overflow="split")


@given(texts=st.lists(st.text(min_size=1, max_size=60), min_size=1, max_size=6), limit=st.integers(2, 20))
@settings(max_examples=30, deadline=None)
def test_splitting_keeps_every_token_and_every_target_once(texts: list[str], limit: int) -> None:
    rows = [{"text": text} for text in texts]
    whole = TextCompletionDataset(TOKENIZER, rows)
    split = TextCompletionDataset(TOKENIZER, rows, overflow="split", max_seq_len=limit, one_sample_a_row=False)
    for index in range(len(rows)):
        parts = split.fitted(index).samples
        assert all(len(part["tokens"]) <= limit for part in parts)
        assert [token for part in parts for token in part["tokens"]] == whole[index]["tokens"]
        assert [label for part in parts for label in part["labels"]] == whole[index]["labels"]


def test_packs_hold_every_token_of_every_document(shared_data: Path) -> None:
    path = shared_data / "llamafactory" / "c4_demo.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    tokenizer = tiny_tokenizer(max_seq_len=512)
    packed = text_completion_dataset(tokenizer, "json", data_files=str(path), packed=True)
    assert isinstance(packed, PackedDataset)
    whole = [[BOS, *ids(row["text"]), EOS] for row in rows]
    found = np.concatenate([pack["tokens"].numpy() for pack in packed])
    num_tokens = sum(map(len, whole))
    assert found[:num_tokens].tolist() == [*chain(*whole)]
    assert packed.counts.trained_tokens == num_tokens - len(rows)
    assert packed.ledger.as_dict() == {"read": 150, "used": 150}
    assert -(-num_tokens // 512) == len(packed)


def test_packs_without_splitting_hold_what_samples_hold(shared_data: Path) -> None:
    files = str(shared_data / "text" / "mlx_wikisql_text.jsonl")
    tokenizer = tiny_tokenizer(max_seq_len=256)
    packed: Any = text_completion_dataset(tokenizer, "json", data_files=files, packed=True, split_across_pack=False)
    unpacked = text_completion_dataset(tokenizer, "json", data_files=files)
    assert replace(packed.counts, digest="") == replace(count_samples(unpacked), digest="")
    assert packed.counts.rows == 600


def test_the_first_shard_is_packed_while_the_others_are_made(shared_data: Path) -> None:
    files = str(shared_data / "text" / "mlx_wikisql_text.jsonl")
    tokenizer = tiny_tokenizer(max_seq_len=512)
    growing = text_completion_dataset(
        tokenizer, "json", data_files=files, packed=True, start="by_shard", shard_rows=200, num_proc=1
    )
    assert isinstance(growing, GrowingPackedDataset)
    assert sum(int((growing[index]["labels"] != -100).sum()) for index in range(len(growing))) > 0


def test_a_store_is_told_apart_by_what_decides_its_tokens() -> None:
    def key(**options: Any) -> str:
        dataset: Any = text_completion_dataset(TOKENIZER, ROWS, **options)
        return dataset.fingerprint()

    keys = [key(), key(add_eos=False), key(add_bos=False), key(max_seq_len=5), key(column="body")]
    assert len(set(keys)) == len(keys)
    assert key() == TextCompletionDataset(tiny_tokenizer(), ROWS, split="train").fingerprint()


@pytest.mark.parametrize("text", [None, 3, ["a"]])
def test_what_is_no_text_names_its_row(text: Any) -> None:
    with pytest.raises(ColumnError, match=r"^Row 1 of list: Column 'text' (is null|holds a)"):
        TextCompletionDataset(TOKENIZER, [{"text": "a"}, {"text": text}])[1]
    left_out: Any = text_completion_dataset(TOKENIZER, [{"text": "a"}, {"text": text}], cache=True, on_error="skip")
    assert left_out.ledger.as_dict() == {"read": 2, "used": 1, "empty" if text is None else "bad_columns": 1}


def test_a_column_that_is_not_there_names_the_nearest() -> None:
    with pytest.raises(ColumnError, match=r"no column 'txt'; it has 'text'\. Did you mean 'text'\?"):
        TextCompletionDataset(TOKENIZER, ROWS, "txt")[0]


def test_a_text_of_no_token_is_refused_and_one_that_trains_nothing_is_counted() -> None:
    rows = [{"text": ""}, {"text": "a"}]
    with pytest.raises(DataError, match=r"^Row 0 of list: The row's text is empty, and neither BOS nor EOS is added"):
        TextCompletionDataset(TOKENIZER, rows, add_eos=False, add_bos=False)[0]
    stored: Any = text_completion_dataset(TOKENIZER, rows, add_eos=False, cache=True)
    assert stored.ledger.as_dict() == {"read": 2, "used": 1, "no_trainable_tokens": 1}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"truncation_type": "turns", "overflow": "truncate", "max_seq_len": 4}, "cuts whole turns, and text has none"),
        ({"overflow": "split"}, "needs a length: set max_seq_len"),
        ({"packed": True}, "max_seq_len has to be set on the tokenizer"),
        ({"packed": True, "max_seq_len": 8, "stop_token": "keep"}, "has no effect without overflow"),
        ({"colunm": "text"}, "'colunm' is not an option"),
        ({"column": 3}, "It is the name of the column"),
    ],
)
def test_an_option_that_does_not_fit_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        text_completion_dataset(TOKENIZER, ROWS, **options)


def test_a_tokenizer_that_cannot_encode_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a tokenizer with `encode`, and a dict has none"):
        TextCompletionDataset({}, ROWS)


def test_it_is_built_from_a_config(shared_data: Path) -> None:
    files = str(shared_data / "text" / "mlx_wikisql_text.jsonl")
    config = {
        "_component_": "torchpipe.datasets.text_completion_dataset",
        "source": "json",
        "data_files": files,
        "split": "train[:10]",
        "packed": True,
        "max_seq_len": 128,
    }
    validate({"dataset": config})
    packed = instantiate_dataset(config, TOKENIZER)
    assert len(packed[0]["tokens"]) == 128
    assert packed.counts.rows == 10
    plain = {"_component_": "torchpipe.datasets.TextCompletionDataset", "source": [{"text": "a"}]}
    assert len(instantiate(plain, TOKENIZER)) == 1


@pytest.mark.parametrize(
    ("builder", "column"), [(wikitext_dataset, "page"), (cnn_dailymail_articles_dataset, "article")]
)
def test_public_texts_are_read_from_torchtunes_columns(builder: Any, column: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({column: LONG}) + "\n")
    for source in ([{column: LONG}], "json"):
        files = {"data_files": str(path)} if source == "json" else {}
        assert tokens_of(builder(TOKENIZER, source, **files)) == [[BOS, *ids(LONG), EOS]]
        assert len(builder(TOKENIZER, source, max_seq_len=8, **files)[0]["tokens"]) == 8
        packed = builder(TOKENIZER, source, max_seq_len=8, packed=True, **files)
        assert len(packed) == 6, "split_across_pack is True, as in torchtune, and keeps the rest"


def test_public_texts_ask_the_hub_for_torchtunes_configuration() -> None:
    with pytest.raises(SourceError, match="wikitext_document_level.*name='wikitext-103-v1'"):
        wikitext_dataset(TOKENIZER)
    with pytest.raises(SourceError, match=r"ccdv/cnn_dailymail.*name='3\.0\.0'"):
        cnn_dailymail_articles_dataset(TOKENIZER)
