"""What became of rows is told in the same words, and by the same names, whether a graph is planned or run by Grain."""

from typing import Any

import pytest
from numbered_graphs import Consecutive, Loader

from torchpipe.data import OpenAIToMessages
from torchpipe.errors import DataError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.pipeline import (
    ChatProcessor,
    ConcatThenSplitPackingConfig,
    DatasetMixConfig,
    FirstFitPackingConfig,
    SingleDatasetConfig,
    WeightedDataset,
)
from torchpipe.pipeline.graph_words import in_graph_words

pytestmark = pytest.mark.filterwarnings("ignore:.* are dropped, in documents that are too long")
BOTH = pytest.mark.parametrize("planned", [True, False])
ROWS = [[100 * row, 2 + row * 7 % 30] for row in range(40)]


def numbers(**options: Any) -> SingleDatasetConfig:
    return SingleDatasetConfig(source=ROWS, processor=Consecutive.Config(), name="numbers", **options)


def is_not_third(row: list[int]) -> bool:
    return row[0] % 300 != 0


PACKED = [
    FirstFitPackingConfig(dataset=numbers(pre_filters=(is_not_third,)), overflow=overflow, name="packs")
    for overflow in ("drop", "truncate", "split")
]


@pytest.mark.parametrize(
    "graph",
    [numbers(pre_filters=(is_not_third,)), *PACKED, ConcatThenSplitPackingConfig(dataset=numbers(), name="packs")],
    ids=["rows", "drop", "truncate", "split", "concat"],
)
def test_the_ledger_counts_the_same_under_the_same_names(graph: Any, loader: Loader) -> None:
    accounts = []
    for planned in (True, False):
        one = loader(graph, length=16 if graph.name == "packs" else 64, planned=planned, repeat=False)
        list(one)
        accounts.append(one.ledger)
    planned, by_grain = accounts
    assert planned["numbers"] == by_grain["numbers"]
    assert planned.keys() == by_grain.keys()
    for name in planned:
        assert planned[name].keys() == by_grain[name].keys()
        assert planned[name]["rows_in"] == by_grain[name]["rows_in"]
        assert planned[name]["rows_left_out"] == by_grain[name]["rows_left_out"]
        assert planned[name]["rows_split"] == by_grain[name]["rows_split"]
    for account in accounts:
        source, packs = account["numbers"], account.get("packs")
        assert source["rows_in"] == source["rows_out"] + sum(source["rows_left_out"].values()) == 40
        if packs is not None:
            assert packs["tokens_in"] == packs["tokens_out"] + sum(packs["tokens_left_out"].values())


def chats(rows: list[Any], **options: Any) -> SingleDatasetConfig:
    processor = ChatProcessor.Config(messages_fn=OpenAIToMessages(), **options)
    return SingleDatasetConfig(source=rows, processor=processor, name="chats", on_error="skip")


def turns(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}, {"role": "assistant", "content": "2"}]}


TOKENIZER = tiny_tokenizer()
REFUSED = [turns("a" * 10), {"messages": 7}, {"messages": []}]


@BOTH
def test_where_every_row_is_refused_the_first_error_is_told_with_its_row(planned: bool, loader: Loader) -> None:
    graph = chats(REFUSED[1:])
    with pytest.raises(DataError) as raised:
        list(loader(graph, tokenizer=TOKENIZER, planned=planned, repeat=False, shuffle=False))
    said = str(raised.value)
    assert said.startswith("No row is left of the graph (chats: 2 rows in, 0 out; 1 bad columns; 1 empty). Check its")
    assert "The first error: Row 0 of chats: " in said


def test_where_every_row_of_an_endless_run_is_refused_the_first_error_is_told_too(loader: Loader) -> None:
    own = WeightedDataset(dataset=chats(REFUSED[1:]))
    for graph in (own.dataset, DatasetMixConfig(datasets=[own])):
        with pytest.raises(
            DataError, match=r"none of its 2 rows is left\..* chats: .* The first error: Row . of chats: "
        ):
            next(iter(loader(graph, tokenizer=TOKENIZER, planned=False, repeat=True)))


@BOTH
@pytest.mark.parametrize(
    ("row", "options", "said", "unsaid"),
    [
        ({"messages": []}, {}, "pre_filters", "filter_fn"),
        (turns(None), {}, "pre_filters", "filter_fn"),
        (
            {**turns("Hi"), "tools": [{"type": "function", "function": {"name": "f"}}]},
            {},
            "messages_fn",
            "chat_dataset",
        ),
        (turns("a" * 99), {"overflow": "error"}, "are more than max_context_length=64 and", "max_seq_len"),
    ],
)
def test_an_error_has_the_words_of_a_graph(
    row: Any, options: Any, said: str, unsaid: str, planned: bool, loader: Loader
) -> None:
    graph = SingleDatasetConfig(
        source=[row], processor=ChatProcessor.Config(messages_fn=OpenAIToMessages(), **options), name="chats"
    )
    with pytest.raises(DataError) as raised:
        list(loader(graph, tokenizer=TOKENIZER, planned=planned, repeat=False))
    told = str(raised.value)
    assert told.startswith("Row 0 of chats: ")
    assert said in told
    assert not any(words in told for words in (unsaid, "message_transform", "max_seq_len"))


def test_what_an_error_quotes_of_a_row_stays_as_it_is() -> None:
    text = "The row has no column 'filter_fn'; it has 'max_seq_len'. Drop the row with filter_fn."
    assert (
        in_graph_words(text)
        == "The row has no column 'filter_fn'; it has 'max_seq_len'. Drop the row with pre_filters."
    )


@BOTH
def test_the_advice_to_map_tools_to_null_leads_on(planned: bool, loader: Loader) -> None:
    messages_fn = OpenAIToMessages(column_map={"tools": None})
    row = {**turns("Hi"), "tools": [{"type": "function", "function": {"name": "f"}}]}
    graph = SingleDatasetConfig(source=[row], processor=ChatProcessor.Config(messages_fn=messages_fn))
    batches = list(loader(graph, tokenizer=TOKENIZER, planned=planned, repeat=False))
    assert batches[0][0]["num_valid_tokens"] > 0


def test_too_many_refused_rows_are_told_in_the_words_of_a_graph(loader: Loader) -> None:
    graph = SingleDatasetConfig(
        source=REFUSED,
        processor=ChatProcessor.Config(messages_fn=OpenAIToMessages()),
        on_error="skip",
        max_error_share=0.1,
        name="chats",
    )
    with pytest.raises(
        DataError, match=r"The first: Row 1 of chats: .* Mend them, leave them out with pre_filters, or"
    ):
        loader(graph, tokenizer=TOKENIZER, planned=True)
