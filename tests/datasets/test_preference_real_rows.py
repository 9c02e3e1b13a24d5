"""Published pairs, by the lines that a user would write: all rows used, one stop token an answer, prompts untrained."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from torchpipe.datasets import PackedDataset, instantiate_dataset, preference_dataset
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_tokenizer
from torchpipe.tokenizers import PUBLISHER_FORMATS, ChatTemplateTokenizer, PublisherFormatTokenizer

TOKENIZER = tiny_tokenizer()
BUILDER = "_component_: torchpipe.datasets.preference_dataset\nsource: json\n"
SECTIONS: dict[str, tuple[str, str, int, Callable[[Any], str]]] = {
    "conversations and two turns": (
        "llamafactory/dpo_en_demo.json",
        BUILDER + "column_map: {prompt: conversations, chosen: chosen, rejected: rejected}",
        180,
        lambda row: row["rejected"]["value"],
    ),
    "whole conversations with weights": (
        "llamafactory/v1_dpo_demo.jsonl",
        BUILDER + "column_map: {chosen: chosen_messages, rejected: rejected_messages}",
        10,
        lambda row: row["rejected_messages"][-1]["content"][0]["value"],
    ),
    "transcripts": (
        "preference/hh_harmless_8.jsonl",
        BUILDER + "message_transform: {_component_: torchpipe.data.TranscriptPairToMessages}",
        8,
        lambda row: row["rejected"].rpartition("\n\nAssistant:")[2],
    ),
}
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def read(file: Path) -> list[Any]:
    text = file.read_text(encoding="utf-8")
    return json.loads(text) if file.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", SECTIONS)
def test_published_pairs_train_their_last_answers_alone(name: str, shared_data: Path) -> None:
    file, section, num_rows, rejected = SECTIONS[name]
    cfg = OmegaConf.create(f"{section}\ndata_files: {shared_data / file}")
    dataset = instantiate_dataset(cfg, TOKENIZER)
    assert len(dataset) == num_rows
    for pair, row in zip(dataset, read(shared_data / file), strict=True):
        trained = TOKENIZER.decode(
            [label for label in pair["rejected_labels"] if label != -100],
            truncate_at_eos=False,
            skip_special_tokens=False,
        )
        assert trained == f"<|start_header_id|>assistant<|end_header_id|>\n\n{rejected(row).strip()}<|eot_id|>"


def test_published_pairs_are_stored_and_packed_without_loss(shared_data: Path) -> None:
    file, section, num_rows, _ = SECTIONS["conversations and two turns"]
    cfg = OmegaConf.create(f"{section}\ndata_files: {shared_data / file}\npacked: true\npack_len: 16384\nnum_proc: 1")
    dataset = instantiate_dataset(cfg, TOKENIZER)
    assert isinstance(dataset, PackedDataset)
    assert dataset.ledger.as_dict() == {"read": num_rows, "used": num_rows}
    found = [dataset.row_of(span.sample) for pack in range(len(dataset)) for span in dataset.spans(pack)]
    assert sorted(found) == [(row, side) for row in range(num_rows) for side in range(2)]


def test_a_chat_template_trains_each_answer_and_its_one_stop_token(shared_data: Path) -> None:
    ids = {"<|im_start|>": 3000, "<|im_end|>": 3001}
    tokenizer = ChatTemplateTokenizer(
        tiny_tokenizer().backend, CHATML, special_tokens=ids, eos_token="<|im_end|>", on_unproved="refuse"
    )
    file, section, _, rejected = SECTIONS["conversations and two turns"]
    dataset = instantiate_dataset(OmegaConf.create(f"{section}\ndata_files: {shared_data / file}"), tokenizer)
    for pair, row in zip(dataset, read(shared_data / file), strict=True):
        labels = [label for label in pair["rejected_labels"] if label != -100]
        assert labels.count(3001) == 1
        assert labels[-1] == 3001
        assert tokenizer.decode(labels[:-1]) == rejected(row)


class Bytes:
    """A stand-in vocabulary of bytes."""

    name, num_tokens = "bytes", 256

    def __init__(self, control_tokens: dict[str, int]) -> None:
        self.control_tokens = control_tokens

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        return bytes(token_ids).decode()


@pytest.mark.parametrize(("name", "stop"), [("qwen2_5_instruct", "<|im_end|>"), ("llama3_1_instruct", "<|eot_id|>")])
def test_a_publishers_format_trains_each_answer_and_its_one_stop_token(name: str, stop: str, shared_data: Path) -> None:
    row_of_format = next(row for row in PUBLISHER_FORMATS if row.name == name)
    texts = dict.fromkeys([*row_of_format.control_tokens, *row_of_format.control_pieces])
    ids = {text: 256 + place for place, text in enumerate(texts)}
    tokenizer = PublisherFormatTokenizer(Bytes(ids), row_of_format, special_tokens=ids)
    file, section, _, rejected = SECTIONS["conversations and two turns"]
    dataset = instantiate_dataset(OmegaConf.create(f"{section}\ndata_files: {shared_data / file}"), tokenizer)
    for pair, row in zip(dataset, read(shared_data / file), strict=True):
        labels = [label for label in pair["rejected_labels"] if label != -100]
        assert labels[-1] == ids[stop]
        assert bytes(labels[:-1]).decode().strip() == rejected(row).strip()


def test_pairs_whose_masks_are_not_proved_are_refused_or_left_out() -> None:
    ids = {"<|im_start|>": 3000, "<|im_end|>": 3001}
    unlike = CHATML.replace("'<|im_start|>assistant\n'", "'<|im_start|>reply\n'")
    pairs = [{"prompt": "1 + 1?", "chosen": "2", "rejected": "3"}]

    def build(on_unproved: Any, **options: Any) -> Any:
        tokenizer = ChatTemplateTokenizer(
            tiny_tokenizer().backend, unlike, special_tokens=ids, eos_token="<|im_end|>", on_unproved=on_unproved
        )
        columns = {name: name for name in pairs[0]}
        return preference_dataset(tokenizer, source=pairs, column_map=columns, **options)

    with pytest.raises(DataError, match="Row 0 of list"):
        build("refuse")[0]
    with pytest.raises(DataError, match="no sample is left.*proved"):
        build("drop", cache=True, num_proc=1)
    with pytest.raises(ConfigError, match="on_unproved='drop', which makes none or several samples of a row"):
        build("drop")
    with pytest.raises(ConfigError, match="on_unproved='split' of the tokenizer makes several samples"):
        build("split")
