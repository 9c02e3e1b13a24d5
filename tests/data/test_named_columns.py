"""A column that was named and that no row has is refused where rows are opened, in every builder."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchpipe.data import InstructionToMessages
from torchpipe.datasets import (
    alpaca_dataset,
    chat_dataset,
    instruct_dataset,
    kto_dataset,
    messages_dataset,
    preference_dataset,
    prompt_dataset,
    sft_dataset,
)
from torchpipe.errors import ConfigError, MalformedRow
from torchpipe.models.tiny import tiny_tokenizer

TOKENIZER = tiny_tokenizer(max_seq_len=256)
ASKED, SAID = {"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2"}
CHAT: dict[str, Any] = {"messages": [ASKED, SAID], "system": "Add.", "tools": None}
TURNS: dict[str, Any] = {"conversation_column": "messages", "conversation_style": "openai"}
ALPACA = {"instruction": "Add.", "input": "1 + 1", "output": "2"}
PAIR = {"prompt": "1 + 1?", "chosen": "2", "rejected": "3", "system": "Add."}
LABELLED = {"prompt": "1 + 1?", "completion": "2", "label": True, "system": "Add."}


def same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


SLIPS: list[tuple[Callable[..., Any], dict[str, Any], dict[str, Any], str]] = [
    (chat_dataset, CHAT, {**TURNS, "tools_column": "toolz"}, "'toolz' was named for 'tools'.*Did you mean 'tools'"),
    (chat_dataset, CHAT, {**TURNS, "system_column": "sytem"}, "'sytem' was named for 'system'.*mean 'system'"),
    (
        alpaca_dataset,
        ALPACA,
        {"column_map": {**same("instruction", "output"), "input": "inptu"}},
        "'inptu' was named for 'input', and none of the 2 rows of list has it; they have 'instruction', 'input', "
        "'output'. Did you mean 'input'\\? Name the right one, or map 'input' to null to do without",
    ),
    (
        instruct_dataset,
        {"question": "?", "answer": "!", "picture": "a.png"},
        {"column_map": {"input": "question", "output": "answer", "image": "pictures"}},
        "'pictures' was named for 'image'.*mean 'picture'",
    ),
    (
        messages_dataset,
        {"toy_in": "?", "toy_out": "!", "toy_system": "Add."},
        {"column_map": {"input": "toy_in", "output": "toy_out", "system": "toy_sys"}},
        "'toy_sys' was named for 'system'.*mean 'toy_system'\\? Name the right one, or map 'system' to null",
    ),
    (
        messages_dataset,
        {"toy_in": "?", "toy_out": "!"},
        {"column_map": {"input": "toy_in", "output": "toy_otu"}},
        "'toy_otu' was named for 'output'.*mean 'toy_out'\\? Name the right one\\.$",
    ),
    (
        preference_dataset,
        PAIR,
        {"column_map": {**same("prompt", "chosen", "rejected"), "system": "sys"}},
        "'sys' was named for 'system'",
    ),
    (
        kto_dataset,
        LABELLED,
        {"column_map": {**same("prompt", "completion", "label"), "tools": "functions"}},
        "'functions' was named for 'tools'",
    ),
    (prompt_dataset, PAIR, {"column_map": {**same("prompt"), "system": "sys"}}, "'sys' was named for 'system'"),
]


@pytest.mark.parametrize(("builder", "row", "options", "told"), SLIPS)
def test_a_slip_in_the_name_of_an_optional_column_is_refused(
    builder: Callable[..., Any], row: dict[str, Any], options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=f"(?s)Column {told}"):
        builder(TOKENIZER, source=[row, row], **options)


@pytest.mark.parametrize("how", [{"cache": True, "on_error": "skip"}, {"packed": True}])
def test_a_store_is_not_built_without_a_column_that_was_named(how: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Column 'toolz' was named for 'tools'"):
        chat_dataset(TOKENIZER, source=[CHAT], **TURNS, tools_column="toolz", cache_dir=str(tmp_path), **how)


def test_a_column_that_some_rows_have_may_be_named() -> None:
    rows = [ALPACA, {"instruction": "Greet.", "output": "Hello", "given": "Ann"}]
    columns = {**same("instruction", "output"), "input": "given"}
    asked = [text(dataset_row) for dataset_row in alpaca_dataset(TOKENIZER, source=rows, column_map=columns)]
    assert ["### Input:" in one for one in asked] == [False, True]


def test_columns_of_their_own_names_need_not_be_there() -> None:
    rows = [{"messages": [ASKED, SAID]}]
    assert len(chat_dataset(TOKENIZER, source=rows, **TURNS, tools_column="tools", system_column="system")) == 1
    assert len(alpaca_dataset(TOKENIZER, source=[{"instruction": "Greet.", "output": "Hello"}])) == 1


def test_a_row_without_the_column_of_earlier_turns_has_none() -> None:
    columns = {"prompt": "instruction", "response": "output", "history": "before"}
    rows = [{"instruction": "?", "output": "!"}, {"instruction": "?", "output": "!", "before": [["Hi", "Hello"]]}]
    dataset = sft_dataset(TOKENIZER, source=rows, message_transform=InstructionToMessages(columns))
    assert ["Hello" in text(row) for row in dataset] == [False, True]


def test_a_row_that_cannot_be_read_is_still_met_as_one(tmp_path: Path) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text('{"messages": \n{"messages": [], "functions": []}\n')
    with pytest.raises(MalformedRow, match="line 1 is not valid JSON"):
        chat_dataset(TOKENIZER, source=str(file), **TURNS, tools_column="functions")
    with file.open("a") as more:
        more.write(json.dumps({**CHAT, "functions": None}))
    stored: Any = chat_dataset(
        TOKENIZER,
        source=str(file),
        **TURNS,
        tools_column="functions",
        cache=True,
        cache_dir=str(tmp_path),
        on_error="skip",
    )
    assert stored.ledger.as_dict() == {"read": 3, "used": 1, "malformed_json": 1, "empty": 1}


def text(sample: Any) -> str:
    return TOKENIZER.decode(list(sample["tokens"]), truncate_at_eos=False, skip_special_tokens=False)
