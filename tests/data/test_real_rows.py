"""The transforms and rules on rows as they are published."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from torchpipe.data import (
    AlpacaToMessages,
    InputOutputToMessages,
    OpenAIToMessages,
    ShareGPTToMessages,
    validate_messages,
)
from torchpipe.errors import ColumnError, DataError


def rows_of(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def outcomes(transform: Any, rows: list[dict[str, Any]]) -> Iterator[str]:
    """Of every row, what refused it, or an empty string."""
    for row in rows:
        try:
            validate_messages(transform(row)["messages"])
        except DataError as error:
            yield str(error)
        else:
            yield ""


def test_gsm8k_rows_keep_their_text(shared_data: Path):
    transform = InputOutputToMessages(column_map={"input": "question", "output": "answer"})
    rows = rows_of(shared_data / "gsm8k" / "train.jsonl")
    assert len(rows) == 7473
    for row in rows:
        user, assistant = transform(row)["messages"]
        assert (user.text_content, user.masked) == (row["question"], True)
        assert (assistant.text_content, assistant.masked) == (row["answer"], False)


def test_placeholders_in_alpaca_rows_are_text(shared_data: Path):
    rows = rows_of(shared_data / "llamafactory" / "identity.json")
    assert sum("{{name}}" in row["output"] for row in rows) > 20
    for row in rows:
        user, assistant = AlpacaToMessages()(row)["messages"]
        assert f"### Instruction:\n{row['instruction']}\n\n" in user.text_content
        assert ("### Input:" in user.text_content) == bool(row["input"])
        assert assistant.text_content == row["output"]


def test_sharegpt_rows_become_conversations_in_order(shared_data: Path):
    rows = rows_of(shared_data / "sharegpt" / "fastchat_dummy_conversation.json")
    assert len(rows) == 500
    assert not any(outcomes(ShareGPTToMessages(), rows))
    messages = ShareGPTToMessages()(rows[0])["messages"]
    assert [message.text_content for message in messages] == [turn["value"] for turn in rows[0]["conversations"]]


def test_the_chat_without_a_user_turn_is_refused_and_the_others_pass(shared_data: Path):
    rows = rows_of(shared_data / "messages" / "toy_chat_fine_tuning.jsonl")
    faults = list(outcomes(OpenAIToMessages(), rows))
    assert [bool(fault) for fault in faults] == [False, False, False, True, False]
    assert faults[3].startswith(
        "Message 1 ('assistant') stands after a 'system' message, but an assistant message answers"
    )


def test_openai_rows_of_a_cookbook_pass(shared_data: Path):
    rows = rows_of(shared_data / "messages" / "tinker_conversations.jsonl")
    assert len(rows) == 128
    assert not any(outcomes(OpenAIToMessages(), rows))


def test_published_rows_with_pictures_load_them(shared_data: Path):
    transform = OpenAIToMessages(image_dir=shared_data / "xtuner", allow_remote=False)
    sizes = {"resource/mscoco_dog_000000319154.jpg": [500, 375], "resource/mscoco_twocat_000000039769.jpg": [480, 640]}
    seen = 0
    for name in ("mllm_sft_single_image_example_data.jsonl", "mllm_sft_multi_image_example_data.jsonl"):
        for row in rows_of(shared_data / "xtuner" / name):
            urls = [
                part["image_url"]["url"]
                for turn in row["messages"]
                if isinstance(turn["content"], list)
                for part in turn["content"]
                if part["type"] == "image_url"
            ]
            messages = transform(row)["messages"]
            images = [image for message in messages for image in message.get_media()]
            assert [list(image.shape[1:]) for image in images] == [sizes[url] for url in urls]
            assert messages[0].masked
            seen += len(images)
    assert seen == 22 + 2 * 11
    (row,) = rows_of(shared_data / "torchtune" / "vqa_tiny.json")
    row["image"] = Path(row["image"]).name
    (image,) = InputOutputToMessages(image_dir=shared_data / "torchtune")(row)["messages"][0].get_media()
    assert image.dtype == torch.uint8
    assert image.shape[0] == 3


def test_the_wrong_layout_is_named_for_real_rows(shared_data: Path):
    row = rows_of(shared_data / "messages" / "tinker_conversations.jsonl")[0]
    with pytest.raises(ColumnError, match="conversation_style: openai"):
        ShareGPTToMessages(column_map={"conversations": "messages"})(row)
    with pytest.raises(ColumnError, match=r"has no column 'conversations'; it has 'messages'"):
        ShareGPTToMessages()(row)
