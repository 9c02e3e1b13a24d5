"""Rows of a graph, token by token: what is shown is what is trained on, and where it comes from."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import DictConfig, OmegaConf

from torchpipe._shipped_files import sample_file
from torchpipe.audit import explain_config
from torchpipe.audit.explain_json import to_json
from torchpipe.audit.graph_config import built_graph
from torchpipe.audit.inference import compare_config
from torchpipe.errors import ConfigError
from torchpipe.pipeline import SampleProcessor, TextSequence
from torchpipe.pipeline.planned.batches import PlannedBatches

Graph = Callable[..., DictConfig]
TOKENIZER = {
    "_component_": "torchpipe.models.tiny.tiny_tokenizer",
    "max_seq_len": 256,
    "mask_policy": "sampled",
}


def single(source: Any, processor: dict[str, Any] | None, **more: Any) -> dict[str, Any]:
    return {
        "_component_": "torchpipe.pipeline.SingleDatasetConfig",
        "source": source,
        "processor": processor,
        **more,
    }


def chat(**options: Any) -> dict[str, Any]:
    messages_fn = {"_component_": "torchpipe.data.OpenAIToMessages"}
    return {"_component_": "torchpipe.pipeline.ChatProcessor.Config", "messages_fn": messages_fn, **options}


TEXT = {"_component_": "torchpipe.pipeline.TextProcessor.Config"}


def chats(number: int = 5) -> list[Any]:
    return json.loads(sample_file().read_text(encoding="utf-8"))[:number]


class Draws(SampleProcessor):
    """A row of random tokens."""

    def __call__(self, sample: Any, rng: np.random.Generator) -> TextSequence:
        ids = rng.integers(5, 300, size=sample)
        return TextSequence(input_ids=ids[:-1], labels=ids[1:])


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    """Function (dataset, **options of the loader) -> a config whose rows come from a graph."""

    def build(dataset: dict[str, Any], **options: Any) -> DictConfig:
        loader = {"cache_dir": str(tmp_path), "num_proc": 1, "repeat": False, **options}
        return OmegaConf.create(
            {
                "tokenizer": TOKENIZER,
                "dataloader": {
                    "_component_": "torchpipe.pipeline.GrainDataLoader.Config",
                    "dataset": dataset,
                    **loader,
                },
            }
        )

    return build


def packed(dataset: dict[str, Any], kind: str = "FirstFitPackingConfig", **options: Any) -> dict[str, Any]:
    return {"_component_": f"torchpipe.pipeline.{kind}", "dataset": dataset, **options}


def tokens_and_trained(config: DictConfig, row: int) -> tuple[list[int], int]:
    """The tokens of a row that a run trains on, padding left out, and how many labels of it are trained."""
    loader, _ = built_graph(config)
    assert isinstance(loader.rows, PlannedBatches)
    sequence = loader.rows.dataset[row]
    fills = np.zeros(len(sequence.input_ids), bool) if sequence.padding_mask is None else sequence.padding_mask
    return sequence.input_ids[~fills].tolist(), int((sequence.labels != -100).sum())


def test_the_first_rows_of_the_first_source_are_shown_with_their_messages_and_reasons(graph: Graph) -> None:
    found = explain_config(graph(packed(single(chats(), chat(), name="talks"))), num_rows=2)
    assert (found.source, found.num_rows) == ("talks, of list", 5)
    assert found.decided_by["message_transform"] == "OpenAIToMessages"
    assert found.decided_by["masking_strategy"] == "train_on_assistant"
    assert [row.index for row in found.rows] == [0, 1]
    (document,) = found.rows[1].documents
    assert (document.source, document.sample, document.start) == ("talks", 1, 0)
    assert document.messages is not None
    assert [message.role for message in document.messages][:2] == ["user", "assistant"]
    assert document.traced
    assert all(token.reason for token in document.tokens)
    assert {token.message for token in document.tokens if token.trained} <= {
        index for index, message in enumerate(document.messages) if message.role == "assistant"
    }


def test_rows_of_the_graph_are_the_ones_that_are_trained_on(graph: Graph) -> None:
    config = graph(packed(single(chats(), chat(), name="talks")))
    found = explain_config(config, section="dataloader", num_rows=100)
    assert found.num_rows == len(found.rows) > 1
    for row in found.rows:
        tokens, num_trained = tokens_and_trained(config, row.index)
        documents = [document for document in row.documents if not document.padding]
        shown = [token.id for document in documents for token in document.tokens[: document.num_tokens]]
        assert shown == tokens
        assert row.num_trained == sum(document.num_trained for document in documents) == num_trained
        assert row.num_tokens == 256
        places = [document.offset for document in row.documents]
        lengths = [document.num_tokens for document in row.documents]
        assert places == [0, *np.cumsum(lengths)[:-1].tolist()]
        assert all(document.traced for document in documents)
    rows = [document.sample for row in found.rows for document in row.documents if not document.padding]
    assert len(rows) == 5
    assert set(rows) == set(range(5))


def test_parts_of_a_row_are_shown_where_they_stand_in_it(graph: Graph) -> None:
    config = graph(packed(single(chats(8), chat(overflow="error")), kind="ConcatThenSplitPackingConfig"))
    found = explain_config(config, section="dataloader", num_rows=100)
    later = [document for row in found.rows for document in row.documents if document.start]
    assert later
    assert all(document.traced and not document.notes for document in later)
    text = found.to_text()
    assert f" from its token {later[0].start} on, " in text
    assert "predicted at the end of the pack before" in text


def test_documents_of_a_row_that_its_processor_splits_are_traced(graph: Graph) -> None:
    config = graph(single(chats(8), chat(overflow="split")))
    config.tokenizer.max_seq_len = 64
    config.num_tokens_per_batch = 1024
    found = explain_config(config, rows=range(8))
    several = [row for row in found.rows if len(row.documents) > 1]
    assert several
    for row in several:
        assert all(document.traced for document in row.documents), found.to_text()
        assert all(document.num_tokens <= 64 for document in row.documents)


def test_text_is_shown_with_the_last_token_that_is_trained(graph: Graph) -> None:
    config = graph(single([{"text": "ab cd"}, {"text": "efg"}], TEXT, name="texts"))
    found = explain_config(config)
    (document,) = found.rows[0].documents
    assert document.ends_with_target
    assert document.num_tokens == found.rows[0].num_tokens == len(document.tokens) - 1
    assert [token.trained for token in document.tokens] == [False] + [True] * document.num_tokens
    assert document.tokens[-1].piece.text == "<|end_of_text|>"
    assert not document.traced
    assert f"row 0: {document.num_tokens} tokens and a last label, {document.num_tokens} trained" in found.to_text()
    assert any("it is no token of the row" in note for note in found.notes)


def test_a_named_node_of_a_mix_is_shown_with_the_source_of_each_row(graph: Graph) -> None:
    children = [
        {"_component_": "torchpipe.pipeline.WeightedDataset", "name": name, "dataset": single(source, processor)}
        for name, source, processor in (("talks", chats(3), chat()), ("texts", [{"text": "hello you"}] * 3, TEXT))
    ]
    mix = {"_component_": "torchpipe.pipeline.DatasetMixConfig", "name": "both", "datasets": children}
    config = graph(packed(mix))
    found = explain_config(config, section="both", num_rows=6)
    assert {row.source for row in found.rows} == {"talks", "texts"}
    assert " of texts" in found.to_text()
    assert found.decided_by["masking_strategy"] is None
    assert explain_config(config, section="texts").source == "texts, of list"
    with pytest.raises(ConfigError, match=r"no node of that name in its graph, which has .*Did you mean 'texts'\?"):
        explain_config(config, section="text")
    with pytest.raises(ConfigError, match="Row 99 was asked for"):
        explain_config(config, section="both", rows=[99])


def test_rows_of_a_graph_that_grain_runs_are_shown_as_they_come(graph: Graph) -> None:
    draws = {"_component_": f"{__name__}.Draws.Config"}
    config = graph(packed(single([20, 30, 40] * 9, draws)))
    found = explain_config(config, rows=[1])
    assert found.num_rows is None
    assert any("Grain runs this graph" in note and "draws random numbers" in note for note in found.notes)
    (row,) = found.rows
    assert row.num_trained == sum(document.num_trained for document in row.documents) > 0
    assert all(document.sample is None for document in row.documents)
    with pytest.raises(ConfigError, match="not those of the node 'x'"):
        explain_config(config, section="x")
    with pytest.raises(ConfigError, match="how many rows it has isn't known"):
        explain_config(config, rows=[-1])


def test_contexts_of_a_source_are_compared_with_what_a_server_feeds(graph: Graph) -> None:
    config = graph(packed(single(chats(), chat(), name="talks")))
    report = compare_config(config, num_rows=2)
    assert [(row.index, row.sample, row.source) for row in report.rows] == [(0, 0, "talks"), (1, 1, "talks")]
    assert all(turn.same for row in report.rows for turn in row.turns)
    of_graph = compare_config(config, num_rows=1, section="dataloader")
    assert len({row.sample for row in of_graph.rows}) == len(of_graph.rows) >= 1
    with pytest.raises(ConfigError, match="rows of a graph whose sources have no ChatProcessor"):
        compare_config(graph(single([{"text": "ab"}], TEXT)))


def test_html_and_json_have_the_same_rows(graph: Graph) -> None:
    found = explain_config(graph(packed(single(chats(2), chat(), name="talks"))), section="dataloader")
    row = json.loads(to_json(found))["rows"][0]
    assert [document["source"] for document in row["documents"] if not document["padding"]] == ["talks"] * 2
    assert sum(document["num_tokens"] for document in row["documents"]) == row["num_tokens"] == 256
    html = found._repr_html_()
    assert html.count('<span class="token') == sum(
        len(document.tokens) for document in found.rows[0].documents if not document.padding
    )
    assert " of talks" in html


def test_a_section_of_a_data_set_is_shown_where_there_is_one(graph: Graph) -> None:
    config = graph(single(chats(2), chat()))
    config.dataset_val = {
        "_component_": "torchpipe.datasets.chat_dataset",
        "source": str(sample_file()),
        "conversation_column": "messages",
        "conversation_style": "openai",
    }
    assert explain_config(config, section="dataset_val").num_rows == 280


def test_a_graph_without_a_tokenizer_is_refused(graph: Graph) -> None:
    config = graph(single(chats(2), chat()))
    del config.tokenizer
    with pytest.raises(ConfigError, match="no tokenizer section, and the rows of a graph are made with it"):
        explain_config(config)
