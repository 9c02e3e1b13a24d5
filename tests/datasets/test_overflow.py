"""What data sets and builders do with rows that are too long."""

from typing import Any

import pytest
import torch
from omegaconf import OmegaConf

from torchpipe.data import InputOutputToMessages, OpenAIToMessages
from torchpipe.datasets import PackedDataset, SFTDataset, alpaca_dataset, chat_dataset, instruct_dataset
from torchpipe.datasets.instantiate import count_samples, instantiate_dataset
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer


def row(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant") * len(texts)
    return {"messages": [{"role": who, "content": text} for who, text in zip(roles, texts, strict=False)]}


ROWS = [
    row("Hi", "Hello"),
    row("Count", "one two three four five six seven eight", "More", "nine ten"),
    row("A question that is longer than all of the row may be, and goes on and on", "Yes"),
    row("Bye", "Goodbye"),
]


def dataset(rows: list[dict[str, Any]] = ROWS, **options: Any) -> Any:
    return chat_dataset(
        tiny_tokenizer(mask_policy="sampled"),
        source=rows,
        conversation_column="messages",
        conversation_style="openai",
        **options,
    )


WHOLE = [dataset()[index] for index in range(len(ROWS))]


def documents(packed: PackedDataset) -> list[list[int]]:
    """The tokens of each document but the padding, pack by pack."""
    found = []
    for pack in range(len(packed)):
        tokens, spans = packed[pack]["tokens"].tolist(), packed.spans(pack)
        at = 0
        for span in spans:
            found.append(tokens[at : at + span.stop - span.start])
            at += span.stop - span.start
    return found


@pytest.mark.parametrize("overflow", ["drop", "split"])
def test_one_sample_a_row_refuses_what_gives_none_or_several(overflow: Any) -> None:
    with pytest.raises(ConfigError, match=rf"overflow='{overflow}' gives a row no sample or several.*packed=True"):
        dataset(overflow=overflow, max_seq_len=24)


def test_an_error_names_the_row() -> None:
    found = dataset(overflow="error", max_seq_len=20)
    assert found[0] == WHOLE[0]
    with pytest.raises(DataError, match="Row 1 of list: .* tokens are more than max_seq_len=20"):
        found[1]


def test_truncate_gives_a_sample_of_each_row_or_names_the_row() -> None:
    found = dataset(overflow="truncate", max_seq_len=26, truncation_type="turns")
    assert found[0] == WHOLE[0]
    assert found[1]["tokens"] == dataset([row("More", "nine ten")])[0]["tokens"]
    with pytest.raises(DataError, match="Row 2 of list: .*what truncation_type='turns' keeps of it has no trained"):
        found[2]


def test_the_tokenizers_limit_and_side_hold_where_the_data_set_gives_none() -> None:
    tokenizer = tiny_tokenizer(26, mask_policy="sampled")
    tokenizer.truncation_type = "left"
    found = SFTDataset(
        source=ROWS, message_transform=OpenAIToMessages(), model_transform=tokenizer, overflow="truncate"
    )
    assert found[1]["tokens"] == WHOLE[1]["tokens"][-26:]


def test_without_overflow_the_tokenizer_truncates_as_it_did() -> None:
    tokenizer = tiny_tokenizer(26, mask_policy="sampled")
    found = SFTDataset(source=ROWS, message_transform=OpenAIToMessages(), model_transform=tokenizer)
    assert found[1]["tokens"] == [*WHOLE[1]["tokens"][:25], tokenizer.eos_id]
    assert found[1]["num_truncated"] == len(WHOLE[1]["tokens"]) - 26


def test_packing_leaves_long_rows_out_and_counts_them() -> None:
    packed = dataset(overflow="drop", max_seq_len=26, packed=True)
    assert documents(packed) == [WHOLE[0]["tokens"], WHOLE[3]["tokens"]]
    assert (packed.counts.rows, packed.counts.too_long_rows, packed.counts.dropped_rows) == (2, 2, 0)
    assert "2 more rows left out, longer than max_seq_len" in packed.counts.describe()
    assert [packed.row_of(sample) for sample in range(2)] == [(0, 0), (3, 0)]


def test_packing_leaves_rows_out_that_a_cut_leaves_nothing_to_train() -> None:
    packed = dataset(overflow="truncate", max_seq_len=20, packed=True)
    assert documents(packed) == [WHOLE[0]["tokens"], WHOLE[1]["tokens"][:20], WHOLE[3]["tokens"]]
    assert (packed.counts.emptied_rows, packed.counts.truncated_rows, packed.counts.unstopped_rows) == (1, 1, 1)


def test_packing_splits_rows_and_holds_each_token_and_label_once() -> None:
    packed = dataset(overflow="split", max_seq_len=26, packed=True)
    assert [token for document in documents(packed) for token in document] == [t for w in WHOLE for t in w["tokens"]]
    labels = torch.cat([packed[pack]["labels"] for pack in range(len(packed))])
    assert labels[labels != -100].tolist() == [label for w in WHOLE for label in w["labels"] if label != -100]
    assert packed.counts.split_rows == 2
    numbers = [packed.row_of(sample) for sample in range(packed.counts.rows)]
    assert numbers == sorted(numbers)
    assert {row for row, _ in numbers} == {0, 1, 2, 3}


def test_rows_beyond_max_packs_are_counted_apart_from_those_that_are_too_long() -> None:
    source = SFTDataset(
        source=ROWS,
        message_transform=OpenAIToMessages(),
        model_transform=tiny_tokenizer(26),
        overflow="drop",
        one_sample_a_row=False,
    )
    packed = PackedDataset(source, max_seq_len=26, max_packs=1)
    assert (packed.counts.rows, packed.counts.too_long_rows, packed.counts.dropped_rows) == (1, 2, 1)


def test_a_row_of_several_samples_can_be_asked_for_as_such() -> None:
    source = SFTDataset(
        source=ROWS,
        message_transform=OpenAIToMessages(),
        model_transform=tiny_tokenizer(26),
        overflow="split",
        one_sample_a_row=False,
    )
    assert [len(source.fitted(index).samples) for index in (0, -1)] == [1, 1]
    assert len(source.fitted(1).samples) > 1
    with pytest.raises(DataError, match="Row 1 of list: .*overflow='split' makes several samples of it"):
        source[1]


def test_the_builders_take_the_policy() -> None:
    tokenizer = tiny_tokenizer(26, mask_policy="sampled")
    long = " ".join(["word"] * 40)
    instruct = instruct_dataset(tokenizer, source=[{"input": "Say", "output": long}], overflow="truncate")
    whole = SFTDataset(
        source=[{"input": "Say", "output": long}],
        message_transform=InputOutputToMessages(),
        model_transform=tiny_tokenizer(mask_policy="sampled"),
    )
    assert instruct[0]["tokens"] == whole[0]["tokens"][:26]
    alpaca = alpaca_dataset(
        tokenizer,
        source=[{"instruction": "Say", "input": "", "output": long}],
        overflow="truncate",
        truncation_type="left",
        max_seq_len=30,
    )
    assert len(alpaca[0]["tokens"]) == 30
    with pytest.raises(ConfigError, match="'truncation_type' of a data set has no effect without overflow"):
        instruct_dataset(tokenizer, source=[{"input": "a", "output": "b"}], truncation_type="left")
    with pytest.raises(ConfigError, match="Did you mean 'overflow'"):
        instruct_dataset(tokenizer, source=[{"input": "a", "output": "b"}], overflw="drop")


def test_a_config_can_say_it(tmp_path: Any) -> None:
    cfg = OmegaConf.create(
        """
        dataset:
          _component_: torchpipe.datasets.chat_dataset
          conversation_column: messages
          conversation_style: openai
          overflow: truncate
          truncation_type: turns
          stop_token: keep
        """
    )
    cfg.dataset.source = ROWS[:2]
    found = instantiate_dataset(cfg.dataset, tiny_tokenizer(26, mask_policy="sampled"))
    assert count_samples(found).truncated_rows == 1
    assert found.transform.overflow.stop_token == "keep"
