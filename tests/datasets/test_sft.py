"""SFTDataset: thin over load_dataset, nothing tokenised before it is asked for, errors that name the row."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import datasets
import pytest
from torch.utils.data import DataLoader

from torchpipe.config import Configurable
from torchpipe.data import InputOutputToMessages, Message, OpenAIToMessages, padded_collate_sft
from torchpipe.datasets import SFTDataset, SFTTransform
from torchpipe.errors import ConfigError, DataError, SourceError
from torchpipe.models.tiny import tiny_tokenizer


def write_rows(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def chat(question: str, answer: str | None = "fine") -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}


def openai_dataset(file: str, **options: Any) -> SFTDataset:
    return SFTDataset(
        source="json",
        data_files=file,
        split=options.pop("split", "train"),
        message_transform=OpenAIToMessages(),
        model_transform=tiny_tokenizer(),
        **options,
    )


@pytest.fixture
def chats(tmp_path: Path) -> str:
    return write_rows(tmp_path / "chats.jsonl", [chat(f"question {i}") for i in range(10)])


def test_a_sample_has_tokens_mask_and_labels_shifted_once(chats: str) -> None:
    sample = openai_dataset(chats)[0]
    assert set(sample) == {"tokens", "mask", "labels"}
    tokens, mask, labels = sample["tokens"], sample["mask"], sample["labels"]
    assert labels == [*(-100 if m else t for t, m in zip(tokens[1:], mask[1:], strict=True)), -100]


def test_construction_tokenises_nothing(chats: str) -> None:
    calls = []

    def count(sample: Mapping[str, Any]) -> dict[str, Any]:
        calls.append(1)
        return {"tokens": [1, 2], "mask": [True, False]}

    dataset = SFTDataset(
        source="json", data_files=chats, split="train", message_transform=OpenAIToMessages(), model_transform=count
    )
    assert (len(dataset), calls) == (10, [])
    assert dataset[3]["labels"] == [2, -100]
    assert len(calls) == 1


def test_load_dataset_is_called_once_and_its_options_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def load_dataset(*args: Any, **kwargs: Any) -> list[dict[str, Any]]:
        calls.append((args, kwargs))
        return [chat("hi")]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    dataset = SFTDataset(
        source="someone/chats",
        message_transform=OpenAIToMessages(),
        model_transform=tiny_tokenizer(),
        split="train[:10%]",
        name="small",
        data_dir="d",
        data_files="f",
    )
    assert len(dataset[0]["tokens"]) > 5
    assert calls == [
        (("someone/chats",), {"split": "train[:10%]", "name": "small", "data_dir": "d", "data_files": "f"})
    ]


def test_a_part_of_a_split_can_be_asked_for(chats: str) -> None:
    assert len(openai_dataset(chats, split="train[:30%]")) == 3
    assert len(openai_dataset(chats, split="train[30%:]")) == 7


def test_any_object_with_length_and_index_is_a_source() -> None:
    dataset = SFTDataset(
        source=[chat("hi"), chat("ho")], message_transform=OpenAIToMessages(), model_transform=tiny_tokenizer()
    )
    assert len(dataset) == 2
    assert dataset[-1]["tokens"] == dataset[1]["tokens"]
    assert [sample["tokens"] for sample in dataset] == [dataset[0]["tokens"], dataset[1]["tokens"]]
    with pytest.raises(IndexError, match="Row 2 was asked for, and list has 2 rows"):
        dataset[2]


class TwoChats(Configurable):
    """A storage of one's own, described by a value."""

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Config(Configurable.Config):
        greeting: str

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict[str, Any]:
        return chat(f"{self.config.greeting} {index}")


def test_a_config_value_is_built_into_a_source() -> None:
    dataset = SFTDataset(
        source=TwoChats.Config(greeting="hi"), message_transform=OpenAIToMessages(), model_transform=tiny_tokenizer()
    )
    assert "hi 1" in tiny_tokenizer().decode(dataset[1]["tokens"])


def test_filtering_comes_before_any_transform(chats: str) -> None:
    bad = {"messages": [{"role": "wizard", "content": "x"}]}

    def keep(row: dict[str, Any]) -> bool:
        return row["messages"][0]["role"] != "wizard"

    dataset = SFTDataset(
        source=[bad, chat("a"), bad, chat("b")],
        message_transform=OpenAIToMessages(),
        model_transform=tiny_tokenizer(),
        filter_fn=keep,
    )
    assert (len(dataset), dataset.num_filtered) == (2, 2)
    hub = openai_dataset(chats, filter_fn=lambda row: "question 7" in str(row), filter_kwargs={"num_proc": 1})
    assert (len(hub), hub.num_filtered) == (1, 9)


def test_a_filter_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(SourceError, match="filter_fn kept none of the 1 rows of list"):
        SFTDataset(
            source=[chat("a")],
            message_transform=OpenAIToMessages(),
            model_transform=tiny_tokenizer(),
            filter_fn=lambda row: False,
        )


def test_filter_arguments_without_effect_are_refused(chats: str) -> None:
    with pytest.raises(ConfigError, match="filter_kwargs was given without a filter_fn"):
        openai_dataset(chats, filter_kwargs={"num_proc": 1})
    with pytest.raises(ConfigError, match="filter_kwargs batched are for Hugging Face data sets"):
        SFTDataset(
            source=[chat("a")],
            message_transform=OpenAIToMessages(),
            model_transform=tiny_tokenizer(),
            filter_fn=bool,
            filter_kwargs={"batched": True, "num_proc": 1},
        )


def test_batches_come_from_a_plain_data_loader(chats: str) -> None:
    loader = DataLoader(openai_dataset(chats), batch_size=4, collate_fn=padded_collate_sft)
    batches = list(loader)
    assert [batch["tokens"].shape[0] for batch in batches] == [4, 4, 2]
    assert all(batch["tokens"].shape == batch["labels"].shape for batch in batches)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (chat("a", None), r"Row 1 of .*rows\.jsonl: The content of turn 1 \('assistant'\) is null"),
        ({"messages": []}, r"Row 1 of .*rows\.jsonl: .*"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, r"Row 1 of .*rows\.jsonl: .*'wizard'"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, r"Row 1 of .*rows\.jsonl: "),
        ({"chat": []}, r"Row 1 of .*rows\.jsonl: .*messages"),
    ],
)
def test_a_bad_row_is_named_with_its_file(tmp_path: Path, row: dict[str, Any], sentence: str) -> None:
    dataset = openai_dataset(write_rows(tmp_path / "rows.jsonl", [chat("good"), row]))
    assert len(dataset[0]["tokens"]) > 5
    with pytest.raises(DataError, match=sentence):
        dataset[1]


def test_an_error_in_ones_own_transform_keeps_its_type_and_gets_the_row(chats: str) -> None:
    def broken(row: Mapping[str, Any]) -> dict[str, Any]:
        return {"messages": row["nothing"]}

    dataset = SFTDataset(
        source="json", data_files=chats, split="train", message_transform=broken, model_transform=tiny_tokenizer()
    )
    with pytest.raises(KeyError) as caught:
        dataset[4]
    assert "Row 4 of" in caught.value.__notes__[0]
    assert "chats.jsonl" in caught.value.__notes__[0]


# Files


def test_a_missing_file_is_answered_with_the_nearest(chats: str) -> None:
    with pytest.raises(SourceError, match=r"There is no file .*chat\.jsonl .*Did you mean .*chats\.jsonl"):
        openai_dataset(chats.replace("chats", "chat"))


@pytest.mark.parametrize("content", ["", "\n\n", "[]"])
def test_an_empty_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / ("rows.json" if content == "[]" else "rows.jsonl")
    file.write_text(content)
    with pytest.raises(SourceError, match=r"rows\.jsonl? (is empty|holds no rows|holds only whitespace)"):
        openai_dataset(str(file))


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"messages": []}\n{"messages": [\n{"messages": []}\n')
    with pytest.raises(SourceError, match=r"rows\.jsonl, line 2 is not valid JSON: .* Correct or delete that line"):
        openai_dataset(str(file))


def test_a_malformed_list_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text('[\n{"messages": []},\n{"messages": []}\n{"messages": []}\n]')
    with pytest.raises(SourceError, match=r"rows\.json, line 4 is not valid JSON"):
        openai_dataset(str(file))


def test_a_file_in_another_encoding_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"messages": []}\n{"messages": "caf\xe9"}\n')
    with pytest.raises(SourceError, match=r"rows\.jsonl, line 2 is not UTF-8"):
        openai_dataset(str(file))


def test_a_lone_surrogate_in_a_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"messages": "a"}\n{"messages": "\\ud83d"}\n')
    with pytest.raises(SourceError, match=r"rows\.jsonl, line 2 holds a lone surrogate"):
        openai_dataset(str(file))


def test_a_data_set_that_cannot_be_reached_is_one_sentence() -> None:
    with pytest.raises(SourceError, match=r"nobody/nothing can't be loaded: "):
        SFTDataset(
            source="nobody/nothing",
            message_transform=OpenAIToMessages(),
            model_transform=tiny_tokenizer(),
            split="train",
        )


def test_a_source_of_several_splits_lists_them(chats: str) -> None:
    transforms: Any = {"message_transform": OpenAIToMessages(), "model_transform": tiny_tokenizer()}
    with pytest.raises(ConfigError, match="has the splits train, test. Name one: split="):
        SFTDataset(source="json", data_files={"train": chats, "test": chats}, **transforms)
    assert len(SFTDataset(source="json", data_files=chats, **transforms)) == len(openai_dataset(chats))


def test_a_stream_is_refused(chats: str) -> None:
    with pytest.raises(ConfigError, match="streaming=True gives a stream, .* Leave it out"):
        openai_dataset(chats, streaming=True)


def test_options_beside_an_object_are_refused() -> None:
    with pytest.raises(ConfigError, match="so data_files would be ignored"):
        SFTDataset(
            source=[chat("a")],
            message_transform=OpenAIToMessages(),
            model_transform=tiny_tokenizer(),
            data_files="x.json",
        )


@pytest.mark.parametrize("source", [{"a": 1}, 7, b"rows"])
def test_what_is_no_source_is_refused(source: Any) -> None:
    with pytest.raises(ConfigError, match="It has to be a name for load_dataset, or an object"):
        SFTDataset(source=source, message_transform=OpenAIToMessages(), model_transform=tiny_tokenizer())


def test_an_empty_object_is_refused() -> None:
    with pytest.raises(SourceError, match="holds no rows"):
        SFTDataset(source=[], message_transform=OpenAIToMessages(), model_transform=tiny_tokenizer())


def test_an_unknown_option_of_load_dataset_is_said(chats: str) -> None:
    with pytest.raises((ConfigError, SourceError), match="max_seq_len"):
        openai_dataset(chats, max_seq_len=12)


# SFTTransform


def test_sft_transform_needs_a_transform() -> None:
    with pytest.raises(ConfigError, match="neither a message_transform nor a model_transform"):
        SFTTransform()


def test_sft_transform_with_messages_only_leaves_tokens_out() -> None:
    row = SFTTransform(InputOutputToMessages())({"input": "a", "output": "b"})
    assert [message.text_content for message in row["messages"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (
            {"tokens": [1], "length": 1},
            r"returned the keys \['length', 'tokens'\]. It has to return `tokens` and `mask`",
        ),
        ({"tokens": [1, 2], "mask": [True]}, "returned 2 tokens and 1 mask values"),
        ({"tokens": [], "mask": []}, "returned 0 tokens and 0 mask values"),
    ],
)
def test_sft_transform_refuses_a_result_it_cannot_label(result: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        SFTTransform(model_transform=lambda sample: result)({"text": "x"})


def test_sft_transform_refuses_raw_dicts_as_messages() -> None:
    with pytest.raises(DataError, match="Message 0 is a dict, not a Message"):
        SFTTransform(model_transform=tiny_tokenizer())(chat("a"))


def test_sft_transform_keeps_other_columns_and_its_argument() -> None:
    row = {"messages": [Message("user", "a", masked=True), Message("assistant", "b")], "id": 3}
    sample = SFTTransform(model_transform=tiny_tokenizer())(row)
    assert sample["id"] == 3
    assert set(row) == {"messages", "id"}
