"""Rows that are made into samples several at once become the samples that each becomes alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from torchpipe.data import Message, OpenAIToMessages
from torchpipe.data.label_lists import labelled
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.plain_text import TextCompletionTransform, TextTransform
from torchpipe.data.sample_transforms import SFTTransform
from torchpipe.data.segments import SegmentsTransform
from torchpipe.errors import DataError, TorchpipeError
from torchpipe.models.tiny import tiny_tokenizer


def row(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant") * len(texts)
    return {"messages": [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]}


ROWS = [row("Hi", "Hello" * number, "And?", "No.") for number in range(1, 21)]
POLICIES: list[OverflowPolicy | None] = [
    None,
    OverflowPolicy(max_seq_len=60, overflow="drop"),
    OverflowPolicy(max_seq_len=60, overflow="split"),
    *(OverflowPolicy(max_seq_len=60, overflow="truncate", truncation_type=side) for side in ("right", "left", "turns")),
]


def in_lists(sample: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in labelled(sample).items()}


@pytest.mark.parametrize(
    "policy", POLICIES, ids=lambda policy: policy and f"{policy.overflow} {policy.truncation_type}"
)
def test_rows_at_once_give_the_samples_of_each(policy: OverflowPolicy | None) -> None:
    transform = SFTTransform(OpenAIToMessages(), tiny_tokenizer(), overflow=policy)
    for number, (given, fitted) in enumerate(zip(ROWS, transform.fitted_rows(ROWS), strict=True)):
        alone = transform.fitted(given)
        assert (fitted.left_out, fitted.num_tokens) == (alone.left_out, alone.num_tokens), number
        assert [in_lists(sample) for sample in fitted.samples] == alone.samples, number


def test_weights_of_messages_come_along() -> None:
    given = {"messages": [*row("Hi")["messages"], {"role": "assistant", "content": "Hello", "weight": 0.5}]}
    transform = SFTTransform(OpenAIToMessages(), tiny_tokenizer())
    [fitted] = transform.fitted_rows([given])
    assert [in_lists(sample) for sample in fitted.samples] == transform.fitted(given).samples
    assert 0.5 in fitted.samples[0]["loss_weights"]


@pytest.mark.parametrize(
    "wrong", [row("Hi"), row("Hi", "a\ud800"), {"messages": [{"role": "who", "content": "Hi"}]}, {}], ids=range(4)
)
def test_a_row_that_is_refused_alone_is_refused_among_others(wrong: dict[str, Any]) -> None:
    transform = SFTTransform(OpenAIToMessages(), tiny_tokenizer())
    with pytest.raises(TorchpipeError) as alone:
        transform.fitted(wrong)
    with pytest.raises(type(alone.value)) as among_others:
        transform.fitted_rows([ROWS[0], wrong])
    assert str(among_others.value) == str(alone.value)


def test_transforms_that_take_one_row_at_a_time_are_given_one_row_at_a_time() -> None:
    tokenizer = tiny_tokenizer()

    def own(sample: Mapping[str, Any]) -> dict[str, Any]:
        return dict(tokenizer(sample))

    transform = SFTTransform(OpenAIToMessages(), own)
    assert [in_lists(fitted.samples[0]) for fitted in transform.fitted_rows(ROWS)] == [
        transform(given) for given in ROWS
    ]
    with pytest.raises(DataError, match="Message 0 is a dict, not a Message"):
        SFTTransform(None, tokenizer).fitted_rows([row("Hi", "Hello")])
    assert SFTTransform(lambda _: {"messages": [Message("user", "a"), Message("assistant", "b")]}).fitted_rows([{}])


WITHOUT_TURNS = [policy for policy in POLICIES if policy is None or policy.truncation_type != "turns"]


class OneByOne:
    """A tokenizer that is given one text at a time."""

    def __init__(self) -> None:
        self.special_tokens = {"<|end|>": 7}

    def encode(self, text: str, add_bos: bool = True, add_eos: bool = True) -> list[int]:
        return [1] * add_bos + [byte + 10 for byte in text.encode()] + [2] * add_eos


@pytest.mark.parametrize("tokenizer", [tiny_tokenizer(), OneByOne()], ids=["at once", "one by one"])
@pytest.mark.parametrize("policy", WITHOUT_TURNS, ids=lambda policy: policy and policy.overflow)
@pytest.mark.parametrize("kind", ["texts", "segments", "segments with ends"])
def test_texts_at_once_give_the_samples_of_each(kind: str, policy: OverflowPolicy | None, tokenizer: Any) -> None:
    rows = [
        {
            "text": "Hello\0é " * number,
            "segments": [
                {"label": False, "text": "Hi" * number},
                {"label": True, "text": ""},
                {"label": True, "text": "中 Hello" * number},
            ],
        }
        for number in range(1, 40)
    ]
    transform: TextTransform = TextCompletionTransform(tokenizer, overflow=policy)
    if kind != "texts":
        ends = kind == "segments with ends"
        transform = SegmentsTransform(tokenizer, add_bos=ends, add_eos=ends, overflow=policy)
    for number, (given, fitted) in enumerate(zip(rows, transform.fitted_rows(rows), strict=True)):
        alone = transform.fitted(given)
        assert (fitted.left_out, fitted.num_tokens) == (alone.left_out, alone.num_tokens), number
        assert [in_lists(sample) for sample in fitted.samples] == alone.samples, number
        assert all(type(token) is int for sample in alone.samples for token in sample["tokens"])


def test_control_tokens_of_segments_stand_where_they_are_spelt() -> None:
    rows = [
        {"segments": [{"label": True, "text": "a<|end|>"}, {"label": False, "text": "<|end|>b"}]},
        {"segments": [{"label": True, "text": "<|end|>"}]},
    ]
    transform = SegmentsTransform(OneByOne(), control_tokens=["<|end|>"])
    first, second = (fitted.samples[0] for fitted in transform.fitted_rows(rows))
    assert (first["tokens"].tolist(), first["mask"].tolist()) == ([107, 7, 7, 108], [True, False, True, True])
    assert second["tokens"].tolist() == [7]


@pytest.mark.parametrize("wrong", [{"text": ""}, {"text": None}, {"text": "a\ud800"}, {}], ids=range(4))
def test_a_text_that_is_refused_alone_is_refused_among_others(wrong: dict[str, Any]) -> None:
    transform = TextCompletionTransform(tiny_tokenizer(), add_bos=False, add_eos=False)
    with pytest.raises(TorchpipeError) as alone:
        transform.fitted(wrong)
    with pytest.raises(type(alone.value)) as among_others:
        transform.fitted_rows([{"text": "Hello"}, wrong])
    assert str(among_others.value) == str(alone.value)
