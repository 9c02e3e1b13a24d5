"""messages_dataset: one line for files of any layout, and what was found said at the start."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from torchpipe.config import validate
from torchpipe.data import DetectedToMessages
from torchpipe.datasets import (
    alpaca_dataset,
    chat_dataset,
    instantiate_dataset,
    instruct_dataset,
    messages_dataset,
)
from torchpipe.datasets.messages import NUM_LOOKED_AT, describe_shapes, shapes_in
from torchpipe.errors import ColumnError, ConfigError
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
MIXED: list[dict[str, Any]] = [
    {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]},
    {"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]},
    {"question": "Hi", "answer": "Hello"},
]


@pytest.mark.parametrize(
    ("file", "build"),
    [
        (
            "gsm8k/train.jsonl",
            lambda **given: instruct_dataset(**given, column_map={"input": "question", "output": "answer"}),
        ),
        ("llamafactory/identity.json", lambda **given: alpaca_dataset(**given, masking_strategy="train_on_assistant")),
        (
            "sharegpt/fastchat_dummy_conversation.json",
            lambda **given: chat_dataset(**given, conversation_column="conversations", conversation_style="sharegpt"),
        ),
        (
            "messages/tinker_conversations.jsonl",
            lambda **given: chat_dataset(**given, conversation_column="messages", conversation_style="openai"),
        ),
    ],
)
def test_samples_are_those_of_the_builder_for_the_layout(file: str, build: Any, shared_data: Path) -> None:
    given = {"tokenizer": TOKENIZER, "source": "json", "data_files": str(shared_data / file), "split": "train[:60]"}
    found, own = messages_dataset(**given), build(**given)
    assert len(found) == len(own)
    for index in range(len(own)):
        assert found[index] == own[index]


def test_one_file_may_hold_several_layouts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in MIXED))
    dataset = messages_dataset(TOKENIZER, source="json", data_files=str(path))
    assert dataset[0] == dataset[1] == dataset[2]
    assert (
        f"{path}: 3 rows: 1 OpenAI turns in 'messages', 1 ShareGPT turns in 'conversations', 1 question and answer"
        in capfd.readouterr().err
    )


def test_a_row_of_no_layout_is_named_or_left_out_as_asked() -> None:
    rows = [*MIXED, {"txet": "?"}]
    dataset = messages_dataset(TOKENIZER, source=rows)
    with pytest.raises(ColumnError, match=r"^Row 3 of list: The row has 'txet', which is no known shape"):
        dataset[3]
    stored: Any = messages_dataset(TOKENIZER, source=rows, cache=True, on_error="skip")
    assert stored.ledger.as_dict() == {"read": 4, "used": 3, "bad_columns": 1}
    assert "1 no known shape" in describe_shapes(rows, DetectedToMessages())


def test_a_column_that_column_map_names_wrongly_is_named() -> None:
    transform = DetectedToMessages(column_map={"input": "ask", "output": "reply"})
    with pytest.raises(ColumnError, match=r"no column 'reply', which column_map names; .* Did you mean 'repyl'\?"):
        transform({"ask": "Hi", "repyl": "Hello"})
    assert transform({"ask": "Hi", "reply": "Hello"})["messages"][1].text_content == "Hello"
    assert transform({"ask": "?", "messages": MIXED[0]["messages"]})["messages"][0].role == "user"


def test_tools_and_system_that_lead_to_null_are_left_out() -> None:
    row = {**MIXED[0], "tools": [{"name": "f"}], "system": "Be brief."}
    assert list(DetectedToMessages()(row)) == ["messages", "tools"]
    made = DetectedToMessages(column_map={"tools": None, "system": None})(row)
    assert list(made) == ["messages"]
    assert [message.role for message in made["messages"]] == ["user", "assistant"]
    with pytest.raises(ConfigError, match=r"column_map\['input'\] is None; it must be the name of a column"):
        DetectedToMessages(column_map={"input": None})


def test_a_row_that_is_a_list_is_refused_in_words() -> None:
    with pytest.raises(ColumnError, match=r"^Row 0 of list: The row is a list, .* A list of turns stands under a col"):
        messages_dataset(TOKENIZER, source=[MIXED[0]["messages"]])[0]


def test_of_many_rows_some_are_looked_at_evenly() -> None:
    rows = [MIXED[2]] * 9_000 + [MIXED[0]] * 3_000
    found = shapes_in(rows, DetectedToMessages())
    assert sum(found.values()) == NUM_LOOKED_AT
    assert found == {"question and answer": 750, "OpenAI turns in 'messages'": 250}
    assert describe_shapes(rows, DetectedToMessages()).startswith("of 12,000 rows, 1,000 were looked at: 750 question")


def test_packs_and_stores_are_made_of_it(shared_data: Path) -> None:
    files = str(shared_data / "messages" / "tinker_conversations.jsonl")
    packed: Any = messages_dataset(TOKENIZER, source="json", data_files=files, packed=True, max_seq_len=512,
                                   overflow="truncate")  # fmt: skip
    assert packed.ledger.as_dict() == {"read": 128, "used": 128}
    again: Any = messages_dataset(TOKENIZER, source="json", data_files=files, packed=True, max_seq_len=512,
                                  overflow="truncate")  # fmt: skip
    assert packed.fingerprint == again.fingerprint


def test_options_reach_the_samples() -> None:
    all_trained: Any = messages_dataset(TOKENIZER, source=MIXED, masking_strategy="train_on_all")
    assert sum(all_trained[0]["mask"]) < sum(messages_dataset(TOKENIZER, source=MIXED)[0]["mask"])
    kind: Any = messages_dataset(TOKENIZER, source=MIXED, new_system_prompt="Be kind.")
    assert all("Be kind." in TOKENIZER.decode(sample["tokens"]) for sample in kind)
    with pytest.raises(ConfigError, match=r"There is no shape 'opneai'"):
        messages_dataset(TOKENIZER, source=MIXED, shapes=["opneai"])
    with pytest.raises(ConfigError, match="'conversation_column'"):
        messages_dataset(TOKENIZER, source=MIXED, conversation_column="messages")


class Opened:
    """A source that counts how often it is opened."""

    def __init__(self) -> None:
        self.times = 0

    def build(self) -> list[dict[str, Any]]:
        self.times += 1
        return MIXED

    def fingerprint(self) -> str:
        return "mixed"


@pytest.mark.parametrize("options", [{}, {"cache": True}, {"packed": True}, {"packed": True, "overflow": "drop"}])
def test_the_source_is_opened_once(options: dict[str, Any], tmp_path: Path) -> None:
    tokenizer, source = tiny_tokenizer(max_seq_len=64), Opened()
    stored = {"cache_dir": str(tmp_path), "num_proc": 1} if options else {}
    dataset: Any = messages_dataset(tokenizer, source=source, **stored, **options)
    assert source.times == 1
    recipe = dataset.recipe
    assert list(recipe.load()) == MIXED
    assert source.times == 2, "nothing holds the rows that were looked at, once the data set is there"
    with recipe.opened():
        assert pickle.loads(pickle.dumps(recipe)).__getstate__().keys() == recipe.__getstate__().keys()


def test_it_is_built_from_a_config(shared_data: Path) -> None:
    config = {
        "_component_": "torchpipe.datasets.messages_dataset",
        "source": "json",
        "data_files": str(shared_data / "xtuner" / "demo_single_turn.json"),
        "column_map": {"input": "toy_input", "output": "toy_output", "system": "toy_system"},
    }
    validate({"dataset": config})
    assert len(instantiate_dataset(config, TOKENIZER)) == 2
