"""The builders: one call for a common shape of rows, in Python or from YAML."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe.data import Message, OpenAIToMessages
from torchpipe.datasets import (
    MaskedMessages,
    PackedDataset,
    SFTDataset,
    alpaca_dataset,
    chat_dataset,
    count_samples,
    instantiate_dataset,
    instruct_dataset,
    sft_dataset,
)
from torchpipe.datasets.builders import Built
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
ROWS = [{"q": "What is 2 + 2?", "a": "4"}, {"q": "And 3 + 3?", "a": "6"}]


def trained_text(sample: Mapping[str, Any]) -> str:
    return TOKENIZER.decode([t for t in sample["labels"] if t != -100], truncate_at_eos=False)


def text(sample: Mapping[str, Any]) -> str:
    return TOKENIZER.decode(sample["tokens"])


class FromColumns:
    """A user's own transform: the prompt trained too, as its masks say."""

    def __call__(self, sample: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"messages": [Message("user", sample["q"]), Message("assistant", sample["a"])]}


def test_instruct_dataset_trains_on_the_answer() -> None:
    dataset = instruct_dataset(TOKENIZER, source=ROWS, column_map={"input": "q", "output": "a"})
    assert trained_text(dataset[0]) == "assistant\n\n4"


def test_chat_dataset_reads_both_styles() -> None:
    sharegpt = [{"c": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]}]
    openai = [{"c": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}]
    one = chat_dataset(TOKENIZER, source=sharegpt, conversation_column="c", conversation_style="sharegpt")
    two = chat_dataset(TOKENIZER, source=openai, conversation_column="c", conversation_style="openai")
    assert one[0] == two[0]
    assert trained_text(one[0]) == "assistant\n\nyo"


def test_chat_dataset_puts_a_system_prompt_before() -> None:
    rows = [{"c": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]}]
    dataset = chat_dataset(
        TOKENIZER,
        source=rows,
        conversation_column="c",
        conversation_style="sharegpt",
        new_system_prompt="Be brief.",
    )
    assert text(dataset[0]).startswith("system\n\nBe brief.")


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unsupported conversation style: 'alpaca'. There are 'sharegpt', 'openai'"):
        chat_dataset(TOKENIZER, source=ROWS, conversation_column="c", conversation_style="alpaca")  # pyright: ignore[reportArgumentType]


def test_alpaca_dataset_trains_on_everything_by_default(shared_data: Path) -> None:
    file = str(shared_data / "llamafactory" / "identity.json")
    dataset = alpaca_dataset(TOKENIZER, source="json", data_files=file)
    assert "{{name}}" in text(dataset[0])
    assert "### Instruction:\nhi" in trained_text(dataset[0])
    answers_only = alpaca_dataset(TOKENIZER, source="json", data_files=file, masking_strategy="train_on_assistant")
    assert "### Instruction:" not in trained_text(answers_only[0])
    assert "{{name}}" in trained_text(answers_only[0])


def test_builders_do_not_warn_by_default() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        instruct_dataset(TOKENIZER, source=ROWS, column_map={"input": "q", "output": "a"})


def test_train_on_input_warns_and_decides() -> None:
    with pytest.warns(DeprecationWarning, match="masking_strategy"):
        dataset = instruct_dataset(
            TOKENIZER, source=ROWS, column_map={"input": "q", "output": "a"}, train_on_input=True
        )
    assert trained_text(dataset[0]).startswith("user\n\nWhat is 2 + 2?")


def test_train_on_input_against_another_strategy_is_refused() -> None:
    with pytest.raises(ConfigError, match="train_on_input"):
        instruct_dataset(
            TOKENIZER,
            source=ROWS,
            column_map={"input": "q", "output": "a"},
            train_on_input=True,
            masking_strategy="train_on_last",
        )


def test_sft_dataset_keeps_the_masks_of_ones_own_transform() -> None:
    dataset = sft_dataset(TOKENIZER, source=ROWS, message_transform=FromColumns())
    assert trained_text(dataset[0]).startswith("user\n\nWhat is")


def test_sft_dataset_applies_a_strategy_after_the_transform() -> None:
    dataset = sft_dataset(
        TOKENIZER, source=ROWS, message_transform=FromColumns(), masking_strategy="train_on_assistant"
    )
    assert trained_text(dataset[0]) == "assistant\n\n4"


def test_masked_messages_leaves_the_transforms_messages_alone() -> None:
    kept = [Message("user", "a"), Message("assistant", "b")]
    remasked = MaskedMessages(lambda row: {"messages": kept}, "train_on_assistant")({})["messages"]
    assert [m.masked for m in remasked] == [True, False]
    assert [m.masked for m in kept] == [False, False]


def test_an_unknown_strategy_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="train_on_everything"):
        sft_dataset(TOKENIZER, source=ROWS, message_transform=FromColumns(), masking_strategy="train_on_everything")


def test_packed_needs_a_length_before_anything_is_read() -> None:
    with pytest.raises(ConfigError, match="max_seq_len has to be set on the tokenizer"):
        sft_dataset(TOKENIZER, source="nobody/nothing", message_transform=FromColumns(), packed=True)


def test_packed_rows_are_filled_with_the_tokenizers_pad_id() -> None:
    tokenizer = tiny_tokenizer(max_seq_len=64)
    dataset = sft_dataset(tokenizer, source=ROWS, message_transform=FromColumns(), packed=True)
    assert isinstance(dataset, PackedDataset)
    assert int(dataset[0]["tokens"][-1]) == tokenizer.pad_id


def test_split_across_pack_without_packing_is_refused() -> None:
    with pytest.raises(ConfigError, match="split_across_pack=True has no effect without packed=True"):
        sft_dataset(TOKENIZER, source=ROWS, message_transform=FromColumns(), split_across_pack=True)


def test_packed_and_unpacked_give_the_same_token_and_label_pairs(shared_data: Path) -> None:
    tokenizer = tiny_tokenizer(max_seq_len=1024)
    options: dict[str, Any] = {
        "source": "json",
        "data_files": str(shared_data / "gsm8k" / "train.jsonl"),
        "split": "train[:200]",
        "column_map": {"input": "question", "output": "answer"},
    }
    plain = instruct_dataset(tokenizer, **options)
    pairs = [pair for sample in plain for pair in zip(sample["tokens"], sample["labels"], strict=True)]
    for split in (False, True):
        packed = instruct_dataset(tokenizer, packed=True, split_across_pack=split, **options)
        assert isinstance(packed, PackedDataset)
        got = []
        for index in range(len(packed)):
            pack = packed[index]
            used = int(pack["seq_lens"].sum())
            padding = int(pack["seq_lens"][-1]) if int(pack["tokens"][-1]) == tokenizer.pad_id else 0
            rows = slice(0, used - padding)
            got += list(zip(pack["tokens"][rows].tolist(), pack["labels"][rows].tolist(), strict=True))
        assert got == pairs


def test_instantiate_dataset_hands_the_tokenizer_to_builders_and_classes() -> None:
    builder = OmegaConf.create({"_component_": "torchpipe.datasets.alpaca_dataset"})
    direct = {
        "_component_": "torchpipe.datasets.SFTDataset",
        "source": [{"input": "a", "output": "b"}],
        "message_transform": {"_component_": "torchpipe.data.InputOutputToMessages"},
    }
    builder["source"] = [{"instruction": "say hi", "input": "", "output": "hi"}]
    assert "say hi" in text(instantiate_dataset(builder, TOKENIZER)[0])
    dataset = instantiate_dataset(direct, TOKENIZER)
    assert isinstance(dataset, SFTDataset)
    assert trained_text(dataset[0]) == "assistant\n\nb"


def bare_named_dataset(tokenizer: Any, *, greeting: str) -> Built:
    rows = [{"q": greeting, "a": "yo"}]
    return sft_dataset(tokenizer, source=rows, message_transform=FromColumns())


def test_instantiate_dataset_finds_a_bare_name_where_it_is_called() -> None:
    dataset = instantiate_dataset({"_component_": "bare_named_dataset", "greeting": "hello you"}, TOKENIZER)
    assert "hello you" in text(dataset[0])


def test_instantiate_dataset_leaves_a_filled_first_parameter_alone() -> None:
    section = {
        "_component_": "torchpipe.datasets.PackedDataset",
        "ds": [{"tokens": [1, 2], "labels": [2, -100]}],
        "max_seq_len": 4,
    }
    assert len(instantiate_dataset(section, TOKENIZER)) == 1


def test_instantiate_dataset_refuses_what_is_no_section() -> None:
    for section in ({"source": "json"}, "torchpipe.datasets.chat_dataset", None, [None]):
        with pytest.raises(ConfigError, match="a mapping with a _component_.*or a list of such"):
            instantiate_dataset(section, TOKENIZER)  # pyright: ignore[reportArgumentType]


def test_counts_name_what_was_cut_and_what_trains_nothing() -> None:
    rows = [{"q": "word " * 60, "a": "short"}, {"q": "hi", "a": "yo"}]
    tokenizer = tiny_tokenizer(max_seq_len=40)
    dataset = sft_dataset(
        tokenizer, source=rows, message_transform=FromColumns(), masking_strategy="train_on_assistant"
    )
    with pytest.warns(
        UserWarning, match=r"Row 0 of list has no token that is trained, and so has its sample\. packed="
    ):
        counts = count_samples(dataset)
    assert (counts.rows, counts.truncated_rows, counts.untrained_rows, counts.longest) == (2, 1, 1, 40)
    assert counts.truncated_tokens > 0
    assert "1 row cut to max_seq_len" in counts.describe()
    assert "1 row without a trained token" in counts.describe()
    packed = PackedDataset(dataset, max_seq_len=40)
    assert (packed.counts.rows, packed.counts.emptied_rows) == (1, 1)
    assert packed.ledger.as_dict() == {"read": 2, "used": 1, "no_trainable_tokens": 1}


def test_chat_dataset_reads_or_leaves_out_tools_system_prompts_and_thinking() -> None:
    turns = [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "<think>hm</think>yo"}]
    rows = [{"c": turns, "tools": "[{}]", "system": "Be kind."}]
    options: dict[str, Any] = {"source": rows, "conversation_column": "c", "conversation_style": "sharegpt"}
    read = chat_dataset(lambda row: row, **options, split_reasoning=True)
    sample = read.transform.message_transform(rows[0])  # pyright: ignore[reportOptionalCall, reportAttributeAccessIssue]
    assert sample["tools"] == "[{}]"
    assert sample["messages"] == [
        Message("system", "Be kind.", masked=True),
        Message("user", "hi", masked=True),
        Message("assistant", "yo", reasoning="hm"),
    ]
    with pytest.raises(DataError, match=r"Row 0 of .*The row offers tools, and the llama3 format.*tools_column: null"):
        chat_dataset(TOKENIZER, **options)[0]
    left_out = chat_dataset(TOKENIZER, **options, tools_column=None, system_column=None)
    assert text(left_out[0]) == "user\n\nhiassistant\n\n<think>hm</think>yo"


def test_a_strategy_after_the_transform_leaves_what_the_data_says() -> None:
    rows = [{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo", "train": False}]}]
    dataset = sft_dataset(TOKENIZER, source=rows, message_transform=OpenAIToMessages(), masking_strategy="train_on_all")
    assert trained_text(dataset[0]) == "user\n\nhi"
