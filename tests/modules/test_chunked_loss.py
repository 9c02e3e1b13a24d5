"""Chunked cross-entropy: torchtune's values, and those of the whole logits at once."""

import copy

import pytest
import torch
from torch import nn

from torchpipe.errors import ConfigError, DataError
from torchpipe.models.tiny import tiny_llama3
from torchpipe.modules import TransformerDecoder
from torchpipe.modules.loss import CEWithChunkedOutputLoss

LABELS = torch.tensor([[1, -100, 3, 4, 0, 2, -100], [2, 2, -100, -100, 1, 0, 4]])
# torchtune 0.6.1 with logits(): the loss, the sum of the gradient's absolute values, the gradient of the first row.
TORCHTUNE_LOSS, TORCHTUNE_BFLOAT16 = 2.7611513137817383, 2.762032985687256
TORCHTUNE_SUM = 1.6125770807266235
TORCHTUNE_GRADIENT = [0.0032879032660275698, -0.058955248445272446, 0.050306905061006546, 0.005020904820412397,
                      0.0003395421081222594]  # fmt: skip


def logits() -> torch.Tensor:
    return (torch.sin(torch.arange(70, dtype=torch.float32).reshape(2, 7, 5)) * 3).requires_grad_()


class WithAdapter(nn.Module):
    """A projection that is more than a product with one weight."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__()
        self.inner, self.bias = inner, nn.Parameter(torch.linspace(-1, 1, inner.out_features))
        self.dropout = nn.Dropout(0.0)
        self.tokens_at_once: list[int] = []

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.tokens_at_once.append(hidden.shape[1])
        return self.inner(self.dropout(hidden)) + self.bias


def decoder(*, adapter: bool) -> TransformerDecoder:
    torch.manual_seed(0)
    model = tiny_llama3(vocab_size=50, max_seq_len=32, tied_embeddings=False)
    if adapter:
        assert isinstance(model.output, nn.Linear)
        model.output = WithAdapter(model.output)
    return model


def decoder_with_adapter(*, dropout: float) -> tuple[TransformerDecoder, WithAdapter]:
    model = decoder(adapter=True)
    assert isinstance(model.output, WithAdapter)
    model.output.dropout.p = dropout
    return model, model.output


@pytest.mark.parametrize("num_chunks", [1, 2, 3, 8])
def test_a_list_of_logits_has_torchtunes_loss_and_gradient(num_chunks: int) -> None:
    whole = logits()
    loss = CEWithChunkedOutputLoss(num_chunks)([*whole.chunk(num_chunks, dim=1)], LABELS)
    loss.backward()
    assert loss.item() == pytest.approx(TORCHTUNE_LOSS, rel=1e-6)
    assert whole.grad is not None
    assert whole.grad.abs().sum().item() == pytest.approx(TORCHTUNE_SUM, rel=1e-6)
    assert whole.grad[0, 0].tolist() == pytest.approx(TORCHTUNE_GRADIENT, rel=1e-5)


def test_bfloat16_logits_are_weighed_in_float32() -> None:
    loss = CEWithChunkedOutputLoss(2)([*logits().bfloat16().chunk(2, dim=1)], LABELS)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(TORCHTUNE_BFLOAT16, rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("adapter", [False, True], ids=["linear output", "output with an adapter"])
@pytest.mark.parametrize("num_chunks", [1, 3, 8, 100])
def test_from_hidden_states_loss_and_gradients_are_those_of_all_logits(
    num_chunks: int, adapter: bool, weighted: bool
) -> None:
    plain = decoder(adapter=adapter)
    chunked = copy.deepcopy(plain)
    generator = torch.Generator().manual_seed(1)
    tokens, labels = (torch.randint(0, 50, (2, 20), generator=generator) for _ in range(2))
    labels[0, 3:9] = -100
    weights = torch.rand(2, 20, generator=generator) if weighted else None
    losses = nn.functional.cross_entropy(plain(tokens).flatten(0, 1), labels.flatten(), reduction="none")
    trained = (labels != -100).flatten().float() * (1.0 if weights is None else weights.flatten())
    expected = (losses * trained).sum() / trained.sum()
    expected.backward()
    loss_fn = CEWithChunkedOutputLoss(num_chunks)
    loss_fn.set_model_output(chunked)
    loss = loss_fn(chunked(tokens), labels, loss_weights=weights)
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    for (name, parameter), other in zip(plain.named_parameters(), chunked.parameters(), strict=True):
        torch.testing.assert_close(other.grad, parameter.grad, rtol=1e-5, atol=1e-7, msg=name)


def test_an_output_with_an_adapter_makes_the_logits_of_one_part_at_a_time() -> None:
    model, output = decoder_with_adapter(dropout=0.0)
    loss_fn = CEWithChunkedOutputLoss(num_output_chunks=4)
    loss_fn.set_model_output(model)
    tokens = torch.ones(1, 20, dtype=torch.int64)
    held: list[torch.Size] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        held.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = loss_fn(model(tokens), tokens)
    assert not [shape for shape in held if shape[-1:] == (50,)]  # no logits wait for the gradients
    loss.backward()
    assert output.tokens_at_once == [5] * 8  # four parts, each of them twice


def test_dropout_in_the_output_draws_the_same_numbers_both_times() -> None:
    model, output = decoder_with_adapter(dropout=0.5)
    loss_fn = CEWithChunkedOutputLoss(num_output_chunks=1)
    loss_fn.set_model_output(model)
    tokens = torch.arange(16).reshape(1, 16)
    torch.manual_seed(3)
    loss_fn(model(tokens), tokens).backward()
    found = output.inner.weight.grad
    model.zero_grad()
    torch.manual_seed(3)
    nn.functional.cross_entropy(output(model(tokens)).flatten(0, 1), tokens.flatten()).backward()
    torch.testing.assert_close(found, output.inner.weight.grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("adapter", [False, True])
def test_where_no_target_counts_the_loss_is_0_with_gradients_of_zeros(adapter: bool) -> None:
    model = decoder(adapter=adapter)
    loss_fn = CEWithChunkedOutputLoss()
    loss_fn.set_model_output(model)
    tokens = torch.ones(2, 6, dtype=torch.int64)
    loss = loss_fn(model(tokens), torch.full_like(tokens, -100))
    loss.backward()
    assert loss.item() == 0.0
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.parameters())
    whole = logits()
    loss = CEWithChunkedOutputLoss(2)([*whole.chunk(2, dim=1)], torch.full_like(LABELS, -100))
    loss.backward()
    assert loss.item() == 0.0
    assert whole.grad is not None
    assert not whole.grad.any()


def test_another_index_can_be_ignored() -> None:
    loss = CEWithChunkedOutputLoss(2, ignore_index=0)([*logits().chunk(2, dim=1)], LABELS.where(LABELS != -100, 0))
    expected = nn.functional.cross_entropy(
        logits().flatten(0, 1), LABELS.where(LABELS != -100, 0).flatten(), ignore_index=0
    )
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_one_tensor_without_a_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"was given one tensor, and has no output projection yet\. Call loss\.set_"):
        CEWithChunkedOutputLoss()(logits(), LABELS)


def test_parts_that_do_not_make_up_the_sequence_are_refused() -> None:
    with pytest.raises(DataError, match=r"parts of the logits have \[4\] positions, and labels are \[2, 7\]"):
        CEWithChunkedOutputLoss(2)([logits().chunk(2, dim=1)[0]], LABELS)


def test_a_number_of_chunks_below_1_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"num_output_chunks is 0\. Give 1 or more"):
        CEWithChunkedOutputLoss(0)
