"""What is shown as trained is what the labels train, with its reason where it is known."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from torchpipe.audit import explain, explain_config
from torchpipe.audit.explanation import DocumentView
from torchpipe.constants import IGNORE_INDEX
from torchpipe.data import Message
from torchpipe.datasets import PackedDataset, SFTDataset, sft_dataset
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.llama3_2_vision import Llama3VisionTransform
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers.families import GEMMA, GEMMA_TURNS

Chats = Callable[..., Any]


def text_of(document: DocumentView, *, trained: bool) -> str:
    return "".join(token.piece.text for token in document.tokens if token.trained is trained)


def test_the_reply_and_its_end_are_trained(chats: Chats) -> None:
    found = explain(chats(["It is 4."]))
    (document,) = found.rows[0].documents
    assert text_of(document, trained=True) == "It is 4.<|eot_id|>"
    assert found.rows[0].num_trained == document.num_trained
    assert [(message.role, message.masked) for message in document.messages or ()] == [
        ("user", True),
        ("assistant", False),
    ]
    assert {(token.kind, token.reason) for token in document.tokens if token.trained} == {
        ("content", "message trained"),
        ("turn_end", "message trained"),
    }


def test_what_decided_is_named(chats: Chats) -> None:
    decided = explain(chats(["a"], max_seq_len=64)).decided_by
    assert decided == {
        "message_transform": "OpenAIToMessages",
        "masking_strategy": "train_on_assistant",
        "tokenizer": "Llama3Tokenizer",
        "chat_format": "llama3",
        "mask_policy": "sampled",
        "on_unproved": None,
        "prompt_template": None,
        "max_seq_len": 64,
    }


def test_a_strategy_over_ones_own_transform_is_named() -> None:
    class TicketToMessages:
        def __call__(self, sample: Any) -> dict[str, Any]:
            return {"messages": [Message("user", sample["q"]), Message("assistant", sample["a"])]}

    source: Any = [{"q": "x", "a": "y"}]
    own = sft_dataset(tiny_tokenizer(), source=source, message_transform=TicketToMessages())
    assert explain(own).decided_by["message_transform"] == "TicketToMessages"
    assert explain(own).decided_by["masking_strategy"] is None
    over = sft_dataset(
        tiny_tokenizer(), source=source, message_transform=TicketToMessages(), masking_strategy="train_on_last"
    )
    assert explain(over).decided_by["message_transform"] == "TicketToMessages"
    assert explain(over).decided_by["masking_strategy"] == "train_on_last"


@pytest.mark.filterwarnings("ignore:Row 0 of list has no token that is trained")
@given(max_seq_len=st.integers(1, 60), side=st.sampled_from(["left", "right"]))
def test_a_cut_row_shows_the_tokens_that_are_left(max_seq_len: int, side: Any) -> None:
    tokenizer = tiny_tokenizer(max_seq_len=max_seq_len)
    tokenizer.truncation_type = side
    chat = [Message("user", "Is it 🦙?", masked=True), Message("assistant", "Yes, it is 🦙.")]
    source: Any = [{"messages": chat}]
    dataset = SFTDataset(source=source, message_transform=dict, model_transform=tokenizer)  # pyright: ignore
    (document,) = explain(dataset).rows[0].documents
    sample = dataset[0]
    assert [token.id for token in document.tokens] == sample["tokens"]
    assert [token.label for token in document.tokens] == sample["labels"]
    assert document.num_cut == sample.get("num_truncated", 0)
    assert document.cut_side == (side if document.num_cut else None)
    assert document.num_trained == len(sample["labels"]) - sample["labels"].count(IGNORE_INDEX)
    assert document.notes == ()
    if document.num_cut and side == "right":
        assert "cut to max_seq_len" in (document.tokens[-1].reason or "")


def test_the_first_token_of_a_row_cut_on_the_left_is_predicted_by_none() -> None:
    tokenizer = tiny_tokenizer(max_seq_len=6)
    tokenizer.truncation_type = "left"
    source: Any = [{"messages": [Message("user", "a", masked=True), Message("assistant", "b c d e f g h i j")]}]
    dataset = SFTDataset(source=source, message_transform=dict, model_transform=tokenizer)  # pyright: ignore
    first = explain(dataset).rows[0].documents[0].tokens[0]
    assert (first.trained, first.reason) == (False, "no token before it predicts it")


@pytest.mark.parametrize("split", [False, True])
def test_a_pack_shows_its_documents(chats: Chats, split: bool) -> None:
    texts = [f"reply {'x ' * (5 * i)}" for i in range(6)]
    packed = chats(texts, max_seq_len=64, packed=True, split_across_pack=split)
    single = chats(texts, max_seq_len=64)
    found = explain(packed, rows=range(len(packed)))
    joined: dict[int, list[int]] = {}
    for row, index in zip(found.rows, range(len(packed)), strict=True):
        sample = packed[index]
        tokens = [token for document in row.documents for token in document.tokens]
        assert [token.id for token in tokens] == sample["tokens"].tolist()
        assert [token.position for token in tokens] == sample["input_pos"].tolist()
        assert [len(document.tokens) for document in row.documents] == sample["seq_lens"].tolist()
        assert row.num_trained == int((sample["labels"] != IGNORE_INDEX).sum())
        for document in row.documents:
            assert document.padding == (document.sample is None)
            if document.sample is not None:
                assert document.traced
                assert document.start == len(joined.setdefault(document.sample, []))
                joined[document.sample] += [token.id for token in document.tokens]
    assert joined == {index: single[index]["tokens"] for index in range(6)}


def test_the_first_token_of_a_sample_that_goes_on_is_predicted_in_the_pack_before(chats: Chats) -> None:
    packed = PackedDataset(chats(["one two three four five six"]), max_seq_len=18, split_across_pack=True)
    first, second = explain(packed, tiny_tokenizer(), rows=[0, 1]).rows
    token = second.documents[0].tokens[0]
    assert (token.trained, token.reason) == (False, "predicted at the end of the pack before")
    assert first.notes == (f"the last position predicts token {token.id}, which is not in this row",)


def test_labels_decide_where_a_tokenizer_gives_no_trace() -> None:
    def decode(token_ids: Sequence[int]) -> str:
        return "".join(chr(token) for token in token_ids)

    rows = [{"tokens": [97, 98, 10, 99], "mask": [True, True, False, False], "labels": [-100, 10, 99, -100]}]
    (document,) = explain(rows, decode=decode).rows[0].documents
    assert [token.trained for token in document.tokens] == [False, False, True, True]
    assert [token.piece.shown for token in document.tokens] == ["a", "b", "↵", "c"]
    assert document.messages is None
    assert {token.kind for token in document.tokens} == {None}
    tensors = [{key: torch.tensor(value) for key, value in rows[0].items()}]
    assert explain(tensors, decode=decode).rows == explain(rows, decode=decode).rows


def test_labels_that_are_not_the_next_token_are_noted() -> None:
    rows = [{"tokens": [97, 98, 99], "labels": [97, 98, 99]}]  # not shifted
    notes = explain(rows, decode=str).rows[0].notes
    assert "2 labels are not the token that follows, the first at 0" in notes[0]
    assert "the last position predicts token 99" in notes[1]


def test_a_transform_that_draws_random_numbers_gets_no_reasons(chats: Chats) -> None:
    dataset = chats(["a"])
    calls = iter(range(100))
    inner = dataset.transform.message_transform
    dataset.transform.message_transform = lambda row: {
        "messages": [*inner(row)["messages"][:1], Message("assistant", f"reply {next(calls)}")]
    }
    (document,) = explain(dataset).rows[0].documents
    assert not document.traced
    assert "read once more, the row gave other tokens" in document.notes[0]


def test_negative_rows_count_from_the_end(chats: Chats) -> None:
    assert [row.index for row in explain(chats(["a", "b", "c"]), rows=[-1, 0]).rows] == [2, 0]


def test_what_cannot_be_shown_is_said_in_a_sentence(chats: Chats) -> None:
    with pytest.raises(ConfigError, match=r"Row 3 was asked for, and the data set has 3 rows\. They count from 0"):
        explain(chats(["a", "b", "c"]), rows=[3])
    with pytest.raises(ConfigError, match="Tokens can't be shown as text: NoneType has no `decode`"):
        explain([{"tokens": [1], "labels": [1]}])
    with pytest.raises(DataError, match="Row 0 of list gave the keys .'text'.. explain shows samples that hold"):
        explain([{"text": "a"}], decode=str)
    with pytest.raises(DataError, match="Row 0 has 2 tokens and 1 labels"):
        explain([{"tokens": [1, 2], "labels": [1]}], decode=str)
    with pytest.raises(DataError, match="seq_lens that add up to 3"):
        explain([{"tokens": [1, 2], "labels": [1, 2], "seq_lens": [3]}], decode=str)


# From a config


def config_for(file: str, **dataset: Any) -> dict[str, Any]:
    return {
        "tokenizer": {"_component_": "torchpipe.models.tiny.tiny_tokenizer", "max_seq_len": 64},
        "dataset": {
            "_component_": "torchpipe.datasets.chat_dataset",
            "source": "json",
            "data_files": file,
            "conversation_column": "messages",
            "conversation_style": "openai",
            **dataset,
        },
        "model": {"_component_": "no.such.model"},
    }


def test_a_configs_first_rows_are_those_of_its_data_set(chats: Chats) -> None:
    dataset = chats(["a", "b", "c"])
    found = explain_config(config_for(dataset.name), num_rows=2)
    assert [row.index for row in found.rows] == [0, 1]
    assert found.num_rows == 3
    assert len(explain_config(config_for(dataset.name), num_rows=9).rows) == 3


@pytest.mark.parametrize("rows", [[0], [1, 0], [-1]])
def test_the_packs_of_a_config_are_those_of_its_data_set(chats: Chats, rows: list[int]) -> None:
    texts = [f"reply {i} of many" for i in range(30)]
    whole = chats(texts, max_seq_len=64, packed=True)
    tokenizer = tiny_tokenizer(max_seq_len=64)
    file = whole.samples.name
    found = explain_config(config_for(file, packed=True), rows=rows)
    expected = explain(PackedDataset(chats(texts), max_seq_len=64, padding_idx=tokenizer.pad_id), tokenizer, rows=rows)
    assert [row.documents[0].sample for row in found.rows] == [row.documents[0].sample for row in expected.rows]
    assert [row.num_tokens for row in found.rows] == [64] * len(rows)
    assert found.num_rows == (len(whole) if rows == [-1] else None)


def test_a_data_set_on_top_of_packs_is_built_whole(
    chats: Chats, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = chats([f"reply {i}" for i in range(40)]).name
    monkeypatch.chdir(tmp_path)
    (tmp_path / "packs_from_the_end.py").write_text(
        "from torchpipe.datasets import chat_dataset\n"
        "def build(tokenizer, **options):\n"
        "    packed = chat_dataset(tokenizer, packed=True, **options)\n"
        "    return [packed[index] for index in reversed(range(len(packed)))]\n"
    )
    found = explain_config(config_for(file, _component_="packs_from_the_end.build"))
    text = "".join(token.piece.text for document in found.rows[0].documents for token in document.tokens)
    assert "question 39" in text


def test_a_config_without_what_it_needs_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match="The config has no tokenizer section"):
        explain_config({"dataset": {}})
    tokenizer = {"_component_": "torchpipe.models.tiny.tiny_tokenizer"}
    with pytest.raises(ConfigError, match=r"has no dataset section.* It has dataset_val\."):
        explain_config({"tokenizer": tokenizer, "dataset_val": {}})


def test_a_format_may_point_the_reader_somewhere(chats: Chats) -> None:
    from dataclasses import replace

    dataset = chats(["a"])
    tokenizer = tiny_tokenizer()
    tokenizer.chat_format = replace(tokenizer.chat_format, hint="The turn format is a template.")
    assert explain(dataset, tokenizer).notes == ("The turn format is a template.",)
    assert "note: The turn format is a template." in explain(dataset, tokenizer).to_text()


@pytest.mark.parametrize("packed", [False, True])
def test_joined_data_sets_name_the_one_that_a_row_stands_in(chats: Chats, packed: bool) -> None:
    first, second = (chats([f"{word} {i}" for i in range(9)]).name for word in ("one", "two"))
    config = {**config_for(first), "dataset": [config_for(file, packed=packed)["dataset"] for file in (first, second)]}
    whole = explain_config(config, rows=[-1])
    assert whole.num_rows is not None
    last = whole.num_rows - 1
    for found in (whole, explain_config(config, rows=[0, last])):
        row = found.rows[-1]
        assert (row.index, row.source) == (last, second)
        assert row.documents[-2 if packed else 0].sample == 8
        assert row.documents[0].traced
        assert "two 8" in "".join(token.piece.text for document in row.documents for token in document.tokens)
        assert f" of {second}" in found.to_text()
    assert explain_config(config).rows[0].source == first


def test_a_gemma_tokenizer_without_a_template_is_pointed_to_its_turns() -> None:
    assert "torchpipe.models.gemma.GemmaChatTemplate" in GEMMA.hint
    assert GEMMA_TURNS.hint == ""


def test_rows_with_pictures_show_their_tokens(llama3_tokenizer_file: Path) -> None:
    picture = {"type": "image", "content": Image.new("RGB", (30, 20))}
    chat = [
        Message("user", [picture, {"type": "text", "content": "What is it?"}], masked=True),
        Message("assistant", "A"),
    ]
    transform = Llama3VisionTransform(str(llama3_tokenizer_file), tile_size=28, patch_size=14, mask_policy="sampled")
    source: Any = [{"messages": chat}]
    dataset = SFTDataset(source=source, message_transform=dict, model_transform=transform)  # pyright: ignore
    found = explain(dataset)
    (document,) = found.rows[0].documents
    assert text_of(document, trained=True) == "A<|eot_id|>"
    assert "⟦<|image|>⟧" in [token.piece.shown for token in document.tokens]
    assert [message.num_images for message in document.messages or ()] == [1, 0]
    assert (found.decided_by["chat_format"], found.decided_by["mask_policy"]) == ("llama3", "sampled")
    assert "0 user, masked, 1 image" in found.to_text()


def test_tokens_of_pictures_are_media_of_their_part(llama3_tokenizer_file: Path) -> None:
    picture = {"type": "image", "content": Image.new("RGB", (30, 20))}
    text = {"type": "text", "content": "Which?"}
    chat = [Message("user", [picture, picture, text], masked=True), Message("assistant", "A")]
    transform = Llama3VisionTransform(str(llama3_tokenizer_file), tile_size=28, patch_size=14)
    source: Any = [{"messages": chat}]
    dataset = SFTDataset(source=source, message_transform=dict, model_transform=transform)  # pyright: ignore
    found = explain(dataset)
    (document,) = found.rows[0].documents
    media = [(token.piece.text, token.message, token.part) for token in document.tokens if token.kind == "media"]
    assert media == [("<|image|>", 0, "content[0]"), ("<|image|>", 0, "content[1]")]
    assert {token.part for token in document.tokens if token.kind == "content" and token.message == 0} == {"content[2]"}
    assert "message 0 (user), media (content[1]): message masked" in found.to_text()
    assert document.notes == ()


def test_a_picture_in_a_trained_message_says_why_it_is_not(llama3_tokenizer_file: Path) -> None:
    picture = {"type": "image", "content": Image.new("RGB", (30, 20))}
    chat = [Message("user", [picture, {"type": "text", "content": "Hi"}]), Message("assistant", "A")]
    transform = Llama3VisionTransform(str(llama3_tokenizer_file), tile_size=28, patch_size=14)
    source: Any = [{"messages": chat}]
    dataset = SFTDataset(source=source, message_transform=dict, model_transform=transform)  # pyright: ignore
    assert "message 0 (user), media (content[0]): stands for an image" in explain(dataset).to_text()


@pytest.mark.parametrize(
    ("sample", "sentence"),
    [
        ({"tokens": "ab", "labels": [1, 2]}, "its tokens are no integers in one axis, but 'ab'"),
        ({"tokens": [1.5, 2], "labels": [1, 2]}, r"its tokens are no integers in one axis, but \[1.5, 2\]"),
        ({"tokens": [1, 2], "labels": torch.ones(2)}, "its labels are no integers in one axis, but tensor"),
        ({"tokens": torch.ones(1, 2, dtype=torch.int64), "labels": [1]}, "its tokens are no integers in one axis"),
        ({"tokens": None, "labels": [1]}, "its tokens are no integers in one axis, but None"),
        ({"tokens": [1, 2], "labels": [1, 2], "seq_lens": [3, -1]}, "no length below 0"),
        ({"tokens": [1, 2], "labels": [1, 2], "seq_lens": ["2"]}, "its seq_lens are no integers"),
        ({"tokens": [1], "labels": [1], "input_pos": [None]}, "its input_pos are no integers"),
        ({"tokens": [1], "labels": [1], "num_truncated": "all"}, "its num_truncated are no integers"),
    ],
)
def test_a_sample_that_holds_no_integers_is_refused(sample: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=f"Row 0.*{sentence}"):
        explain([sample], tiny_tokenizer())


@pytest.mark.parametrize("rows", [0, None, ["0"], [0.5]])
def test_rows_are_numbers(rows: Any) -> None:
    with pytest.raises(ConfigError, match="must be a list of row numbers, as"):
        explain([{"tokens": [1], "labels": [1]}], tiny_tokenizer(), rows=rows)
