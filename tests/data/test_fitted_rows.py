"""Rows that are made into samples several at once become the samples that each becomes alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from torchpipe.data import Message, OpenAIToMessages
from torchpipe.data.label_lists import labelled
from torchpipe.data.overflow import OverflowPolicy
from torchpipe.data.sample_transforms import SFTTransform
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
