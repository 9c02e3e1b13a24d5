"""The records that a graph is built with, and the sequence of a row."""

from typing import Any

import numpy as np
import pytest

from torchpipe.errors import ConfigError, DataError
from torchpipe.pipeline import DatasetBuildContext, DatasetIterationPolicy, TextSequence

POLICY: dict[str, Any] = {
    "seed": 0,
    "shuffle": True,
    "repeat": False,
    "dp_rank": 0,
    "dp_world_size": 1,
    "streaming_shuffle_buffer_size": 10,
}


def test_a_context_needs_no_read_options_and_no_document_cap() -> None:
    context = DatasetBuildContext(tokenizer=None, max_context_length=8, num_tokens_per_batch=16)
    assert context.read_options is None
    assert context.max_num_documents is None


@pytest.mark.parametrize("name", ["max_context_length", "num_tokens_per_batch", "max_num_documents"])
@pytest.mark.parametrize("value", [0, -1, True, 2.5])
def test_a_number_of_the_context_that_can_not_be_is_named(name: str, value: Any) -> None:
    numbers = {"max_context_length": 8, "num_tokens_per_batch": 16, name: value}
    with pytest.raises(ConfigError, match=f"{name} is {value!r}. Give a whole number, 1 or more"):
        DatasetBuildContext(tokenizer=None, **numbers)


def test_a_rank_outside_its_world_is_refused() -> None:
    with pytest.raises(ConfigError, match="dp_rank is 2. With dp_world_size=2 it is from 0 to 1"):
        DatasetIterationPolicy(**{**POLICY, "dp_rank": 2, "dp_world_size": 2})


@pytest.mark.parametrize("name", ["seed", "dp_rank", "dp_world_size", "streaming_shuffle_buffer_size"])
def test_a_number_of_the_policy_that_can_not_be_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name} is -1. Give a whole number"):
        DatasetIterationPolicy(**{**POLICY, name: -1})


def test_a_sequence_with_fewer_labels_than_tokens_is_refused() -> None:
    with pytest.raises(DataError, match=r"has input_ids \[3\] and labels \[2\]. Give one entry for each token"):
        TextSequence(input_ids=np.arange(3), labels=np.arange(2))


def test_a_sequence_with_a_batch_dimension_is_refused() -> None:
    with pytest.raises(DataError, match="Give one dimension: a row has no batch"):
        TextSequence(input_ids=np.zeros((1, 3)), labels=np.zeros((1, 3)))
