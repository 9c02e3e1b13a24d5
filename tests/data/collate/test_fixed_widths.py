"""Batches of few widths: how many, which, and that the loss stays."""

import pickle
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounter

from torchpipe.data import FixedWidths, padded_collate_sft
from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import LinearCrossEntropyLoss


def samples(*lengths: int) -> list[dict[str, list[int]]]:
    return [{"tokens": [*range(1, length + 1)], "labels": [*range(2, length + 2)]} for length in lengths]


@given(st.integers(1, 5000))
def test_there_are_eight_widths_at_most_and_the_last_is_the_longest_sample(max_seq_len: int) -> None:
    widths = list(FixedWidths(padded_collate_sft, max_seq_len=max_seq_len).widths)
    assert len(widths) <= 8
    assert widths == sorted(set(widths))
    assert widths[-1] == max_seq_len
    assert all(width % 8 == 0 for width in widths[:-1])


@given(st.integers(1, 300), st.integers(1, 64), st.data())
def test_a_batch_has_the_first_width_that_holds_it(max_seq_len: int, multiple: int, data: st.DataObject) -> None:
    collate = FixedWidths(padded_collate_sft, max_seq_len=max_seq_len, multiple=multiple)
    lengths = data.draw(st.lists(st.integers(1, max_seq_len), min_size=1, max_size=4))
    batch = collate(samples(*lengths))
    width = batch["tokens"].shape[1]
    assert width in collate.widths
    assert max(lengths) <= width < max(lengths) + multiple
    assert batch["tokens"].shape == batch["labels"].shape
    plain = padded_collate_sft(samples(*lengths))
    assert torch.equal(batch["tokens"][:, : max(lengths)], plain["tokens"])
    assert torch.equal(batch["labels"][:, : max(lengths)], plain["labels"])
    assert (batch["labels"][:, max(lengths) :] == -100).all()


def test_the_loss_and_the_gradients_stay() -> None:
    found = []
    for collate in (padded_collate_sft, FixedWidths(padded_collate_sft, max_seq_len=40, multiple=16)):
        torch.manual_seed(0)
        model, loss_fn = tiny_llama3(vocab_size=50, max_seq_len=40), LinearCrossEntropyLoss()
        loss_fn.set_model_output(model)
        batch = collate(samples(17, 5))
        loss = loss_fn(model(batch["tokens"]), batch["labels"])
        loss.backward()
        found.append((batch["tokens"].shape[1], loss.item(), model.tok_embeddings.weight.grad))
    (narrow, loss, gradient), (wide, same, other) = found
    assert (narrow, wide) == (17, 32)
    assert same == pytest.approx(loss, rel=1e-6)
    torch.testing.assert_close(other, gradient, rtol=1e-5, atol=1e-7)


def test_a_compiled_model_is_compiled_once_a_width() -> None:
    collate = FixedWidths(padded_collate_sft, max_seq_len=30, multiple=8)
    model, counter = tiny_llama3(vocab_size=50, max_seq_len=30), CompileCounter()
    compiled = torch.compile(model, backend=counter, dynamic=False)
    widths = set()
    with torch.no_grad():
        for length in range(1, 31):
            tokens = collate(samples(length, 1))["tokens"]
            widths.add(tokens.shape[1])
            compiled(tokens)
    assert widths == set(collate.widths) == {8, 16, 24, 30}
    assert counter.frame_count == len(widths)


def test_other_arguments_reach_the_collate_function_and_it_goes_to_workers() -> None:
    inner = partial(padded_collate_sft, padding_idx=7)
    collate = pickle.loads(pickle.dumps(FixedWidths(inner, max_seq_len=8, multiple=4)))
    batch = collate(samples(3), ignore_idx=-1)
    assert batch["tokens"].tolist() == [[1, 2, 3, 7]]
    assert batch["labels"].tolist() == [[2, 3, 4, -1]]


def test_a_sample_that_is_too_long_is_refused() -> None:
    collate = FixedWidths(padded_collate_sft, max_seq_len=8)
    with pytest.raises(DataError, match=r"A sample has 9 tokens, and max_seq_len is 8\. Raise it, or cut the rows"):
        collate(samples(9))


def test_a_collate_function_that_can_not_pad_to_a_multiple_is_refused() -> None:
    def stack(batch: list[object]) -> list[object]:
        return batch

    with pytest.raises(
        ConfigError, match=r"static_shapes needs a collate_fn with an argument pad_to_multiple_of, and s"
    ):
        FixedWidths(partial(stack), max_seq_len=8)


def test_numbers_that_are_not_possible_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"max_seq_len is 0\. Give 1 or more"):
        FixedWidths(padded_collate_sft, max_seq_len=0)
    with pytest.raises(ConfigError, match=r"pad_to_multiple_of=0 must be 1 or more"):
        FixedWidths(padded_collate_sft, max_seq_len=8, multiple=0)
